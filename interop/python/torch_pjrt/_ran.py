"""Which Python code runs while a function is traced.

Python calls back for each function that starts: through ``sys.monitoring`` where there is one, beside any other tool;
in Python 3.11 as a profiler, of which a thread has one at a time.
"""

from __future__ import annotations

import cProfile
import sys
import types
from typing import Any

if sys.version_info >= (3, 12):
    # Numbers that Python reserves for no kind of tool.
    _TOOLS = (4, 3)

    def _free() -> int | None:
        return next((i for i in _TOOLS if sys.monitoring.get_tool(i) is None), None)

    def can_record() -> bool:
        """Whether Python would tell now what runs."""
        return _free() is not None

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

    def can_record() -> bool:
        """Whether Python would tell now what runs."""
        return sys.getprofile() is None

    class Ran:
        """While it is entered, ``codes`` collects what this thread runs."""

        def __init__(self) -> None:
            self.complete = False
            self._profile = cProfile.Profile(subcalls=False, builtins=False)

        def __enter__(self) -> Ran:
            self.complete = can_record()
            if self.complete:
                self._profile.enable(subcalls=False, builtins=False)
            return self

        def __exit__(self, *_: object) -> None:
            if (now := sys.getprofile()) is not None and id(now) == id(self._profile):
                self._profile.disable()
            else:
                # Somebody else's came in its place, or nobody may record.
                self.complete = False

        @property
        def codes(self) -> list[types.CodeType]:
            found: list[Any] = [entry.code for entry in self._profile.getstats()]
            return [c for c in found if isinstance(c, types.CodeType)]


class Unrecorded:
    """Stands in a program that was traced when Python could not tell what ran: it serves as long as that is so."""

    @property
    def active(self) -> bool:
        return not can_record()
