"""``saved_tensors_hooks`` around a call: what a program keeps for its gradient are no tensors to give them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ._jit_errors import error

_autograd: Any = torch._C._autograd
Hooks = list[tuple[Any, Any]]


@contextlib.contextmanager
def taken_off() -> Iterator[Hooks]:
    """Inside, the hooks of the caller, which it gives, are off: a trace has no values for them."""
    found: Hooks = []
    while (top := _autograd._top_saved_tensors_default_hooks(True)) is not None:
        found.append(top)
        _autograd._pop_saved_tensors_default_hooks()
    try:
        yield found
    finally:
        for pack, unpack in reversed(found):
            _autograd._push_saved_tensors_default_hooks(pack, unpack)


def check(hooks: Hooks, place: str) -> None:
    """Refuses hooks that may change what a gradient is computed from. torch's own only say where that is kept."""
    for f in (f for pair in hooks for f in pair):
        if not str(getattr(f, "__module__", "")).startswith("torch."):
            raise error(
                "saved_tensors_hooks around the call would not be given what the program keeps for its gradient. "
                "Way out: put them inside the function, around what they are for.",
                place,
            )
