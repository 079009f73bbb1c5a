"""Looking at values inside a jit function."""

from __future__ import annotations

import builtins
from typing import Any

import torch

from . import _native
from ._floats import Number
from ._numbers import Followed

_pending: list[tuple[str, list[Any]]] = []


def print(message: str, *values: Any) -> None:
    """Prints ``message.format(*values)``: at once outside of jit, and after each run of the program inside, in order.

    ``tp.debug.print("loss {}", loss)``. Raises ``JitError`` in a branch or loop of ``torch.cond`` and its like.
    """
    if not _native.tracing():
        shown = [v.detach().cpu() if isinstance(v, torch.Tensor) else v for v in values]
        builtins.print(message.format(*shown))
        return
    if _native.trace_in_branch():
        from ._jit_errors import error

        raise error("debug.print cannot print from a branch or loop of the program. Way out: return the value from it")
    _pending.append((message, [_taken(v) for v in values]))


def _taken(v: Any) -> Any:
    if isinstance(v, torch.Tensor):
        # A copy: the tensor may be written to before the program ends.
        return v.detach().clone()
    if type(v) in (Number, Followed):
        return torch.full((), v, dtype=torch.float64, device="pjrt")
    return v


def take() -> list[tuple[str, list[Any]]]:
    """What the trace that ends wants printed."""
    found = list(_pending)
    _pending.clear()
    return found


def show(prints: list[tuple[str, list[Any]]], tensors: list[torch.Tensor]) -> None:
    """Prints what a run gave; ``tensors`` fill the places of those that were traced."""
    it = iter(tensors)
    for message, values in prints:
        shown = [next(it).detach().cpu() if isinstance(v, torch.Tensor) else v for v in values]
        builtins.print(message.format(*shown))
