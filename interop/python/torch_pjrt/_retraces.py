"""Notes why traces are made, and warns once where each value of something costs a program of its own."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from ._arguments import Arguments

MANY = 8
"""So many values of one thing are taken for a mistake."""
_VALUES = (int, str, bytes, complex, torch.Size)
# Kept at most; beyond, counting starts anew.
_MOST = 256
# How a reason of a guard, or of a program bound to a number, names a thing, what it is now and what it was.
_CHANGED = re.compile(r"(?P<name>.+?) is (?P<now>.+?)(?:, was .*|, and the program holds where .*)$", re.DOTALL)


class Retraces:
    """The traces of one jit function."""

    def __init__(self) -> None:
        self._arguments: dict[Any, dict[int, dict[Any, None]]] = {}
        """For each kind of call, apart from values of its arguments: the values of each."""
        self._found: dict[str, dict[str, None]] = {}
        """What each thing that the function reaches was at traces."""
        self._structures: dict[Any, None] = {}
        self._warned: set[str] = set()

    def of_arguments(self, a: Arguments, names: list[str], place: str) -> str:
        """Takes note of a call whose arguments no program knows. Returns what to add to the reason."""
        spec, described, modes = a.key
        if len(self._structures) >= _MOST:
            self._structures.clear()
        self._structures.setdefault(spec)
        if len(self._structures) == MANY:
            way = "pass containers of one length, tensors stacked, or what is None always so"
            shown = [f"{s.num_leaves} leaves" for s in self._structures]
            self._many("the structure of the arguments", shown, place, way)
        places = [i for i, d in enumerate(described) if _is_value(d)]
        if not places:
            return ""
        kind = (spec, tuple(type(d) if i in places else d for i, d in enumerate(described)), modes)
        if len(self._arguments) >= _MOST:
            self._arguments.clear()
        seen = self._arguments.setdefault(kind, {})
        note = ""
        for i in places:
            values = seen.setdefault(i, {})
            values.setdefault(described[i])
            if len(values) >= MANY:
                shown = [repr(d[1]) if isinstance(d, tuple) else repr(d) for d in values]
                note = self._many(f"argument `{names[i]}`", shown, place, _way(names[i], described[i]))
        return note

    def of_state(self, reason: str, place: str) -> str:
        """The same where a program knows the arguments but something that the function reaches has changed."""
        found = _CHANGED.match(reason)
        if found is None:
            return ""
        if len(self._found) >= _MOST:
            self._found.clear()
        values = self._found.setdefault(found["name"], {})
        # Objects look alike; each is another one.
        values.setdefault(found["now"] if not found["now"].startswith("a ") else f"{found['now']} ({len(values) + 1})")
        if len(values) < MANY:
            return ""
        way = "keep it in a tensor on the device, or make what depends on it an argument that is declared static"
        return self._many(f"`{found['name']}`", list(values), place, way)

    def _many(self, what: str, values: list[str], place: str, way: str) -> str:
        if what not in self._warned:
            self._warned.add(what)
            shown = ", ".join(v if len(v) < 40 else v[:37] + "..." for v in values[:MANY])
            warnings.warn(
                f"jit: {place}: {what} has had {len(values)} values ({shown}), and a program was traced for each. Way "
                f"out: {way}.",
                stacklevel=outside(),
            )
        return f" (value {len(values)} of {what}, each with a program of its own)"


def _is_value(d: Any) -> bool:
    """Whether an argument, as the key describes it, is told apart by its value or by which object it is, undeclared."""
    return isinstance(d[0], type) and issubclass(d[0], _VALUES) if isinstance(d, tuple) else True


def _way(name: str, d: Any) -> str:
    head = re.match(r"[^.\[]*", name)
    parameter = name if head is None else head[0]
    declare = f"declare it (static_argnames={parameter!r}) if each value is to have a program"
    if not isinstance(d, tuple):
        return "pass the same object each time, or a frozen dataclass that is declared static"
    if issubclass(d[0], int | complex) and d[0] is not bool:
        return f"pass a tensor, or a float if it is only computed with; {declare}"
    return declare


def outside() -> int:
    """How many frames up the caller of jit is."""
    here, depth, frame = str(Path(__file__).parent), 1, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(here):
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    return depth
