"""Weight normalization: a direction and a length, over all dims but one."""

from __future__ import annotations

import torch


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _sum(x: torch.Tensor, dim: int) -> torch.Tensor:
    return x.sum([i for i in range(x.dim()) if i != dim % x.dim()], keepdim=True) if x.dim() > 1 else x


def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """``v`` at the length ``g``, and the length that it had."""
    wide = _wide(v)
    norms = _sum(wide * wide, dim).sqrt()
    kept = norms if g.dtype == torch.bfloat16 else norms.to(g.dtype)
    return (wide * (_wide(g) / norms)).to(v.dtype), kept


def weight_norm_backward(
    grad: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What changes the direction, and what changes the length."""
    wide, up, n = _wide(v), _wide(grad), _wide(norms)
    along = _sum(up * wide, dim) / n
    return (_wide(g) / n * (up - wide * (along / n))).to(v.dtype), along.to(g.dtype)


KERNELS = {"_weight_norm_interface": weight_norm, "_weight_norm_interface_backward": weight_norm_backward}
