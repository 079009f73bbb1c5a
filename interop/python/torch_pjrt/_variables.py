"""Variables of libraries: what the code that ran in a trace reads by name, however deep in a library it is.

They are looked up when the trace has ended, and hold for the program as they are then. What a library changes itself (a
count, a cache) would cost a trace whenever it does so: what changes during a trace is not watched by the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._ran import Ran, Unrecorded
from ._reading import Reader, held_by
from ._settings import asked
from ._sites import Site
from ._variable import CONTENT, Place, grew, site

if TYPE_CHECKING:
    from ._state import Walk

# So often a container may have grown between traces before it is taken for a cache.
_PATIENCE = 2


class Variables:
    """Those that one jit function was seen to read."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Any], Place] = {}
        self._own: dict[tuple[int, Any], Place] = {}
        """Those that change by themselves."""
        self._grown: dict[tuple[int, Any], int] = {}
        self._ran = Ran()

    def followed(self) -> Ran:
        """Inside, it is seen what runs."""
        for at, p in self._known.items():
            now = p.now()
            if p.key is CONTENT and p.fills and grew(p.value, now):
                self._grown[at] = self._grown.get(at, 0) + 1
                if self._grown[at] > _PATIENCE:
                    self._own[at] = p
            p.value = now
        self._ran = Ran()
        return self._ran

    def sites(self, before: Walk) -> list[Site]:
        """What a program must find as it is, beside what ``before`` lists."""
        for at, p in self._known.items():
            if p.differs(p.now()):
                self._own[at] = p
        reader = Reader(self._own)
        reader.read(self._ran.codes, before.libraries.functions, {type(v) for v, *_ in before.objects})
        self._known.update(reader.places)
        here = {(id(s.container), k) for s in before.sites if s.kind == "names" for k in s.keys}
        here |= {(id(s.container), CONTENT) for s in before.sites if s.kind in ("dict", "list")}
        here |= {(id(held_by(c)), k) for c, attributes in before.classes for k, _ in attributes}
        made: dict[Any, Site] = {}
        for at, p in reader.places.items():
            if at not in self._own and at not in here and not reader.is_idle(p.value):
                p.put_into(made)
        if not self._ran.complete:
            made[None] = site("attr", Unrecorded(), ["active"], [True], "profiler")
        return [*made.values(), *asked(before.names | reader.names)]
