"""Where tensors come from that leave a function."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from . import _native, _sparse_jit
from ._state import Walk
from ._storage import slot_of


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
        if id(t) in self.known:
            return ("known", self.known[id(t)])
        if t.device.type != "pjrt":
            return ("object", t)
        if t.is_sparse:
            return _sparse_jit.spec(t, self.of)
        shape, strides = list(t.shape), list(t.stride())
        slot = slot_of(t)
        if slot == 0:
            return ("empty", t.dtype, shape, strides)
        if slot in self.by_slot:
            i = self.by_slot[slot]
            base = self.before.tensors[i][0]
            if base.dtype == t.dtype:
                return ("view", i, shape, strides, t.storage_offset() - base.storage_offset())
        if _native.trace_is_born(slot):
            if slot not in self.new:
                self.new.append(slot)
            return ("new", self.new.index(slot), shape, strides, t.storage_offset())
        return ("object", t)
