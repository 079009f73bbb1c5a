"""Tensors whose data the function replaces as a whole: ``p.data = p.data - lr * p.grad``, ``out=`` of another shape,
``t_()``."""

from __future__ import annotations

import torch

from ._state import Walk
from ._storage import slot_of


def _geometry(t: torch.Tensor) -> tuple[object, ...]:
    return t.dtype, t.shape, t.stride(), t.storage_offset(), t.is_conj(), t.is_neg()


class Moved:
    """Where the tensors that a function reaches have their data, and which of them it gave other data."""

    def __init__(self, before: Walk) -> None:
        self.were = [(t, slot_of(t), t.detach()) for t, _, _ in before.tensors if not t.is_sparse]
        self.now: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Tensors with what they have now, once they were put back."""

    def put_back(self) -> None:
        """Gives each its old data, so that the program starts from there."""
        for t, slot, old in self.were:
            if slot_of(t) != slot or _geometry(t) != _geometry(old):
                self.now.append((t, t.detach()))
                t.data = old

    def again(self) -> None:
        """Gives them what the function gave them."""
        for t, new in self.now:
            t.data = new
