"""Where tensors come from that leave a function."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from . import _dressed, _native, _sparse_jit
from ._lazy_bits import lazy, raw
from ._state import Walk
from ._storage import slot_of

OF_KNOWN = ("known", "view", "cast")
"""Kinds of tensors that are over the memory of one that the function can reach: it is named behind the kind."""


def bare(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a spec says of the tensor's memory alone."""
    return bare(spec[1]) if spec[0] == "dressed" else spec


class Specs:
    """Where each tensor that leaves the function comes from."""

    def __init__(self, before: Walk) -> None:
        self.before = before
        self.known = {id(t): i for i, (t, _, _) in enumerate(before.tensors)}
        self.slots = [slot_of(t) for t, _, _ in before.tensors]
        self.shares = Counter(self.slots)
        self.by_slot: dict[int, int] = {}
        for i, s in enumerate(self.slots):
            if s:
                self.by_slot.setdefault(s, i)
        self.new: list[int] = []

    def of(self, t: torch.Tensor) -> tuple[Any, ...]:
        """``t`` as ``Made`` in ``results.rs`` makes it anew."""
        if id(t) in self.known:
            return ("known", self.known[id(t)])
        if t.device.type != "pjrt":
            return ("object", t) if self._is_shared(t) else ("copy", t.detach().clone(), _dressed.about(t, self.before))
        spec = self._memory(t)
        if spec[0] == "object" or not (about := _dressed.about(t, self.before)):
            return spec
        return ("dressed", spec, about, self.of(t.grad) if t.is_leaf and t.grad is not None else None)

    def _is_shared(self, t: torch.Tensor) -> bool:
        """Whether a tensor of another device reads memory that the function has not made."""
        if t.layout != torch.strided or not t.numel():
            return False
        mine = t.untyped_storage().data_ptr()
        return mine in {h.untyped_storage().data_ptr() for h, *_ in self.before.hosts if h.layout == torch.strided}

    def _memory(self, t: torch.Tensor) -> tuple[Any, ...]:
        """A plain tensor over the memory of ``t``."""
        if t.is_sparse:
            return _sparse_jit.spec(t, self.of)
        if lazy(t):
            stored = self._memory(raw(t))
            return ("object", t) if stored[0] == "object" else ("bits", stored, t.is_conj(), t.is_neg())
        shape, strides = list(t.shape), list(t.stride())
        slot = slot_of(t)
        if slot == 0:
            return ("empty", t.dtype, shape, strides)
        if slot in self.by_slot:
            i = self.by_slot[slot]
            base = self.before.tensors[i][0]
            if base.dtype == t.dtype:
                return ("view", i, shape, strides, t.storage_offset() - base.storage_offset())
            return ("cast", i, shape, strides, t.storage_offset(), t.dtype)
        if _native.trace_is_born(slot):
            if slot not in self.new:
                self.new.append(slot)
            return ("new", self.new.index(slot), shape, strides, t.storage_offset(), t.dtype)
        return ("object", t)
