"""The clock inside a trace: what it said then would be the same at every call."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any

from ._jit_errors import refusal
from ._replaced import asked_by_user, replaced
from ._state import Walk

_CLOCKS = (
    *("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time"),
    *("process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
)
# What tells the time where argument number so-and-so does not give one.
_UNLESS_GIVEN = {"localtime": 0, "gmtime": 0, "ctime": 0, "asctime": 0, "strftime": 1}


@functools.lru_cache(maxsize=256)
def _refusing(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    place = _UNLESS_GIVEN.get(name)

    def clock(*args: Any) -> Any:
        given = place is not None and len(args) > place and args[place] is not None
        if not given and asked_by_user():
            raise refusal("clock", f": time.{name}()")
        return theirs(*args)

    return clock


def refused(before: Walk) -> contextlib.AbstractContextManager[None]:
    """Refuses to tell the user's code the time."""
    names = [n for n in (*_CLOCKS, *_UNLESS_GIVEN) if hasattr(time, n)]
    return replaced(before, [(time, n, functools.partial(_refusing, n)) for n in names])
