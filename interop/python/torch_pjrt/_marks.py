"""What there is of a tensor besides its values: whether it requires grad, its hooks, its attributes."""

from __future__ import annotations

from typing import Any

import torch

_TABLES = ("_backward_hooks", "_post_accumulate_grad_hooks")


class Marks:
    """Those of the tensors that a function reaches, before it runs."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        bases = [t._base for t in tensors if t._base is not None and t._base.is_leaf]
        self._leaves = [(t, t.requires_grad) for t in [*bases, *tensors] if t.is_leaf]
        self._tables = [(t, name, *_table(t, name)) for t in tensors for name in _TABLES]

        self._plain = [t for t in tensors if not vars(t)]

    def restore(self) -> None:
        """Gives the tensors theirs back. Attributes that there were before are a container, which others put back."""
        for t in self._plain:
            vars(t).clear()
        for t, name, table, hooks in self._tables:
            now = getattr(t, name, None)
            if now is not table:
                if now is not None:
                    now.clear()  # the node of a tensor of the middle of a graph has it too
                setattr(t, name, table)
            if table is not None and list(table.items()) != hooks:
                table.clear()
                table.update(hooks)
        for t, wanted in self._leaves:
            if not t.is_leaf and not t._is_view():
                t.detach_()  # what was computed with gradients was written into it
            if t.is_leaf and t.requires_grad != wanted:
                t.requires_grad_(wanted)


def _table(t: torch.Tensor, name: str) -> tuple[Any, list[Any]]:
    table = getattr(t, name, None)
    return table, [] if table is None else list(table.items())
