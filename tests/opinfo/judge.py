"""When a result that differs from torch CPU's is right all the same.

torch CPU rounds to half precision between the steps of many ops, and sums in orders of its own. Where the device's
result is not within the table of torch CPU's, the same sample in float64 decides: each element of the device must be
within the table of the exact one, or off by no more than twice what torch CPU's worst element is off. Where torch CPU
overflows or has no number, and float64 does not, only the table counts.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from tests.tolerances import tolerance

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def widened_sample(sample: Any) -> Any:
    """A sample of the op database in double precision."""
    wide = copy.copy(sample)
    wide.input, wide.args, wide.kwargs = widened((sample.input, sample.args, sample.kwargs))
    return wide


def widened(value: Any) -> Any:
    """Arguments in double precision: their tensors and dtypes."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDE:
            return leaf.detach().to(WIDE[leaf.dtype]).requires_grad_(leaf.requires_grad)
        return WIDE.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    return tree_map(one, value)


def as_exact(actual: Any, expected: Any, exact: Any) -> bool:
    """Whether every tensor of ``actual`` is as near to ``exact`` as the table asks or as ``expected`` is."""
    triples = [tree_flatten(v)[0] for v in (actual, expected, exact)]
    if len({len(t) for t in triples}) != 1:
        return False
    return all(_tensor_as_exact(a, c, e) for a, c, e in zip(*triples, strict=True))


def _tensor_as_exact(a: Any, c: Any, e: Any) -> bool:
    if not isinstance(c, torch.Tensor):
        return bool(a == c)
    if not isinstance(a, torch.Tensor) or a.dtype != c.dtype or a.shape != c.shape or e.shape != c.shape:
        return False
    rtol, atol = tolerance(c.dtype)
    a, c, e = (t.detach().cpu().resolve_conj().resolve_neg() for t in (a, c, e))
    if c.dtype not in WIDE:
        return torch.equal(a, c)
    rounded = e.to(c.dtype)
    parts = (a.to(e.dtype), c.to(e.dtype), e, rounded.to(e.dtype))
    a, c, e, rounded = (torch.view_as_real(t) if t.is_complex() else t for t in parts)
    same = (a == rounded) | (a.isnan() & e.isnan()) | (a == c) | (a.isnan() & c.isnan())
    off_device, off_cpu = (a - e).abs(), (c - e).abs().nan_to_num(0, 0)
    worst = off_cpu.max() if off_cpu.numel() else 0
    return bool((same | (off_device <= atol + rtol * e.abs() + 2 * worst)).all())
