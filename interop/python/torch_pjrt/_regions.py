"""Loops and branches whose state is tensors that are written in place, and functions of the user's inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import _native
from ._changes import Change, changes, settle_renewed, undo
from ._jit_errors import refusal
from ._state import Walk
from ._storage import slot_of


class Region:
    """What the code of a region may write to: cells, 0 for the random state."""

    def __init__(self, tensors: Iterable[torch.Tensor], cells: Iterable[int] = ()) -> None:
        self.cells = sorted({*cells, *(s for t in tensors if (s := slot_of(t)))})

    def with_tensors(self, tensors: Iterable[torch.Tensor]) -> Region:
        """A region that may write to these too."""
        return Region(tensors, self.cells)

    def loop(self, condition: Callable[[], torch.Tensor], body: Callable[[], Any]) -> None:
        """``while condition(): body()``."""
        _native.trace_while(lambda: [condition()], _without_result(body), [], self.cells)

    def choose(self, condition: torch.Tensor, yes: Callable[[], Any], no: Callable[[], Any] = lambda: None) -> None:
        """``yes() if condition else no()``."""
        _native.trace_cond(condition, _without_result(yes), _without_result(no), self.cells)


def _without_result(f: Callable[[], Any]) -> Callable[[], list[torch.Tensor]]:
    def call() -> list[torch.Tensor]:
        f()
        return []

    return call


class Carried:
    """A function of the user's, to be called in regions. It was called once before, outside.

    What it writes to in place is in :attr:`cells`. Where it puts a new tensor into a container (``p.grad``, a
    variable), the value goes into a tensor that stays there, so that each call finds what the last one left.
    """

    def __init__(self, function: Callable[[], Any], roots: list[tuple[Any, str]]) -> None:
        self._function, self._roots = function, roots
        before = self._walk()
        found: list[Change] = []

        def once() -> None:
            function()
            settle_renewed(before)
            found.extend(map(_carriable, changes(before)))
            undo(before)

        written = _native.trace_written(once)
        stay = []
        for c in found:
            # Somebody else may hold the old one, which stays as it is.
            stay.append(c.before.detach().clone(memory_format=torch.contiguous_format))
            c.put(stay[-1])
        self.cells = Region(stay, written).cells
        self._places = {(id(c.site.container), str(c.key)) for c in found}
        self._before = self._walk()

    def _walk(self) -> Walk:
        w = Walk([])
        for value, path in self._roots:
            w.root(value, path)
        return w

    def __call__(self) -> Any:
        out = self._function()
        settle_renewed(self._before)
        with torch.no_grad():
            for c in changes(self._before):
                if (id(_carriable(c).site.container), str(c.key)) not in self._places:
                    raise _refused(c)
                c.before.copy_(c.after)
                c.put(c.before)
        return out


def _carriable(c: Change) -> Change:
    old, new = c.before, c.after
    if not c.assigns_tensor or not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        raise _refused(c)
    if any(t.device.type != "pjrt" for t in (old, new)) or (old.shape, old.dtype) != (new.shape, new.dtype):
        raise _refused(c)
    return c


def _refused(c: Change) -> Exception:
    return refusal("closure", f": {c.path()} is another object after each call")
