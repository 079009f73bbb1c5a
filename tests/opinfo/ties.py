"""Ops that order elements: which of several equal ones comes first is left open, so the elements are compared."""

from __future__ import annotations

from typing import Any

import torch

# Where in the arguments after the input the dim stands.
DIM_AT = {"sort": 0, "argsort": 0, "mode": 0, "topk": 1, "kthvalue": 1}
NAMES = {*DIM_AT, "msort"}


def applies(name: str, kwargs: dict[str, Any]) -> bool:
    return name in NAMES and not kwargs.get("stable")


def elements(name: str, x: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """``out`` with the elements of ``x`` in place of indices."""
    if name not in DIM_AT:
        return out
    at = DIM_AT[name]
    dim = kwargs.get("dim", args[at] if len(args) > at else -1)
    index = out if isinstance(out, torch.Tensor) else out[1]
    x = x.detach()
    if x.dim() == 0 or x.numel() == 0:
        return out
    removed = index.dim() < x.dim()
    picked = x.gather(dim, index.unsqueeze(dim) if removed else index)
    picked = picked.squeeze(dim) if removed else picked
    return picked if isinstance(out, torch.Tensor) else [out[0], picked]


def gradients(x: torch.Tensor, grads: list[Any]) -> list[Any]:
    """The sums of the gradient of ``x`` over each of its distinct elements."""
    groups = x.detach().cpu().unique(return_inverse=True)[1].flatten()
    count = int(groups.max()) + 1 if groups.numel() else 0
    grad = grads[0].detach().cpu().flatten()
    return [torch.zeros(count, dtype=torch.float64).index_add_(0, groups, grad.double()).to(grad.dtype), *grads[1:]]
