"""Ops whose result is as long as the data say, and that only count."""

from __future__ import annotations

import torch

from . import _judge


def bincount(self: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    """How often each number occurs in a vector of non-negative integers, or the sums of their weights.

    Reads the largest number from the device, for it is the result's length.
    """
    if minlength < 0:
        raise RuntimeError("bincount: minlength should be >= 0")
    if self.dim() != 1 or self.dtype.is_floating_point or self.dtype.is_complex:
        _judge.by_name("bincount", (self, weights, minlength), {})
        raise RuntimeError("bincount: bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("bincount: weights should be 1-d and have the same length as input")
    dtype = torch.int64 if weights is None else weights.dtype
    if weights is not None and not dtype.is_floating_point:
        dtype = torch.float64
    if self.numel() == 0:
        return torch.zeros(minlength, dtype=torch.int64 if weights is None else dtype, device=self.device)
    low, high = (int(v) for v in torch.stack(torch.aminmax(self)).cpu())
    if low < 0:
        raise RuntimeError("bincount: bincount only supports 1-d non-negative integral inputs.")
    source = torch.ones_like(self, dtype=dtype) if weights is None else weights.to(dtype)
    counts = torch.zeros(max(high + 1, minlength), dtype=dtype, device=self.device)
    return counts.scatter_add_(0, self.to(torch.int64), source)


KERNELS = {"bincount": bincount}
