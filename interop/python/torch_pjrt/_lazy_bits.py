"""Conjugate and negative bits: torch marks ``x.conj()`` and ``x.conj().imag`` with a bit and negates nothing.

Most ops never see the bits, because torch resolves them before a kernel runs. The few that torch exempts (copies and
matrix products) must honour them; those calls come here with the tensors that carry a bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map_only


def lazy(t: torch.Tensor) -> bool:
    """Whether ``t`` carries a bit."""
    return t.is_conj() or t.is_neg()


def raw(t: torch.Tensor) -> torch.Tensor:
    """A view of what lies in memory, without bits."""
    return _turned(t, t.is_conj(), t.is_neg())


def marked(stored: torch.Tensor, conj: bool, neg: bool) -> torch.Tensor:
    """A view of ``stored`` with these bits, which no graph knows."""
    with torch.no_grad():
        return _turned(stored, conj, neg)


def _turned(t: torch.Tensor, conj: bool, neg: bool) -> torch.Tensor:
    if conj:
        t = torch._conj(t)
    return torch._neg_view(t) if neg else t


def applied(stored: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """``stored`` with the bits of ``like`` carried out. Conjugation and negation are their own inverses."""
    if like.is_conj():
        stored = torch.ops.aten._conj_physical(stored)
    return torch.neg(stored) if like.is_neg() else stored


def plain(t: torch.Tensor) -> torch.Tensor:
    """The values of ``t`` in a tensor without bits."""
    return applied(raw(t), t) if lazy(t) else t


def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs the overload ``name`` with every bit carried out first. What it writes through a bit it writes to a copy,
    which is then stored as the bit says."""
    from ._registry import overload

    op = overload(name)
    given = dict(zip((a.name for a in op._schema.arguments), args, strict=False)) | kwargs
    writes = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    written = {id(t): (t, plain(t)) for t in map(given.get, writes) if isinstance(t, torch.Tensor) and lazy(t)}

    def resolved(t: torch.Tensor) -> torch.Tensor:
        return written[id(t)][1] if id(t) in written else plain(t)

    result = op(*tree_map_only(torch.Tensor, resolved, args), **tree_map_only(torch.Tensor, resolved, kwargs))
    for t, copy in written.values():
        if t.shape != copy.shape:
            t.resize_(copy.shape)
        raw(t).copy_(applied(copy, t))
    theirs = {id(copy): t for t, copy in written.values()}
    return tree_map_only(torch.Tensor, lambda t: theirs.get(id(t), t), result)
