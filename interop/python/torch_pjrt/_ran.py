"""Which Python code runs while a function is traced.

Python calls back for each function that starts: through ``sys.monitoring`` where there is one, beside any other tool;
in Python 3.11 as a profiler, of which a thread has one at a time.
"""

from __future__ import annotations

import cProfile
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

if sys.version_info >= (3, 12):
    # Numbers that Python reserves for no kind of tool.
    _TOOLS = (4, 3)

    def _free() -> int | None:
        return next((i for i in _TOOLS if sys.monitoring.get_tool(i) is None), None)

    def can_record() -> bool:
        """Whether Python would tell now what runs."""
        return _free() is not None

    def places() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Nothing hides it: a profiler of the user's is another tool."""
        yield from ()

    class Ran:
        """While it is entered, ``codes`` collects what runs. Threads that run meanwhile are recorded too."""

        def __init__(self) -> None:
            self.complete = False
            self._codes: dict[int, types.CodeType] = {}
            self._tool = 0

        def __enter__(self) -> Ran:
            tool, monitoring = _free(), sys.monitoring
            if tool is None:
                return self
            self.complete, self._tool, codes = True, tool, self._codes

            def started(code: types.CodeType, _: int) -> None:
                codes[id(code)] = code

            monitoring.use_tool_id(tool, "torch_pjrt")
            monitoring.register_callback(tool, monitoring.events.PY_START, started)
            monitoring.set_events(tool, monitoring.events.PY_START)
            return self

        def __exit__(self, *_: object) -> None:
            if self.complete:
                sys.monitoring.set_events(self._tool, 0)
                sys.monitoring.register_callback(self._tool, sys.monitoring.events.PY_START, None)
                sys.monitoring.free_tool_id(self._tool)

        @property
        def codes(self) -> list[types.CodeType]:
            return list(self._codes.values())

else:
    _getprofile = sys.getprofile
    _current = threading.local()
    """``ran`` of the trace of this thread."""

    def can_record() -> bool:
        """Whether Python would tell now what runs."""
        return _getprofile() is None

    def places() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """What hides from the function that a profiler records it."""
        yield sys, "getprofile", _hiding
        yield sys, "setprofile", _making_way

    @functools.lru_cache(maxsize=4)
    def _hiding(theirs: Callable[[], Any]) -> Callable[[], Any]:
        def getprofile() -> Any:
            ran: Ran | None = getattr(_current, "ran", None)
            return None if ran is not None and ran.records() else theirs()

        return functools.wraps(theirs)(getprofile)

    @functools.lru_cache(maxsize=4)
    def _making_way(theirs: Callable[[Any], None]) -> Callable[[Any], None]:
        def setprofile(function: Any) -> None:
            ran: Ran | None = getattr(_current, "ran", None)
            if ran is None or function is not None:
                theirs(function)
            elif not ran.records():
                theirs(None)
                ran.record()

        return functools.wraps(theirs)(setprofile)

    class Ran:
        """While it is entered, ``codes`` collects what this thread runs, but under a profiler of the function's own."""

        def __init__(self) -> None:
            self.complete = False
            self._profile = cProfile.Profile(subcalls=False, builtins=False)

        def record(self) -> None:
            self._profile.enable(subcalls=False, builtins=False)

        def records(self) -> bool:
            return _getprofile() is self._profile  # type: ignore[comparison-overlap]

        def __enter__(self) -> Ran:
            self.complete = can_record()
            if self.complete:
                self._outer, _current.ran = getattr(_current, "ran", None), self
                self.record()
            return self

        def __exit__(self, *_: object) -> None:
            if self.complete:
                _current.ran = self._outer
                if self.records():
                    self._profile.disable()

        @property
        def codes(self) -> list[types.CodeType]:
            found: list[Any] = [entry.code for entry in self._profile.getstats()]
            return [c for c in found if isinstance(c, types.CodeType)]


class Unrecorded:
    """Stands in a program that was traced when Python could not tell what ran: it serves as long as that is so."""

    @property
    def active(self) -> bool:
        return not can_record()
