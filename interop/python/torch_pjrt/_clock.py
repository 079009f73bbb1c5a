"""The clock inside a trace: what it said then would be the same at every call."""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Callable
from typing import Any

from ._jit_errors import refusal
from ._replaced import asked_by_user
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


_NOW = {"datetime": ("now", "utcnow", "today"), "date": ("today",)}
_theirs: dict[type, type] = {}


@functools.lru_cache(maxsize=8)
def _calendar(name: str, theirs: Any) -> Any:
    """``datetime`` and ``date``, which cannot be changed: what has their name is another object. It makes theirs."""

    class Calendar(type):
        def __getattribute__(cls, attribute: str) -> Any:
            if attribute in _NOW[name]:
                return functools.partial(now, attribute)
            return getattr(theirs, attribute)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return theirs(*args, **kwargs)

        def __instancecheck__(cls, x: Any) -> bool:
            return isinstance(x, theirs)

        def __subclasscheck__(cls, c: type) -> bool:
            return issubclass(_theirs.get(c, c), theirs)

        def __eq__(cls, other: object) -> bool:
            return other is theirs or other is ours

        def __hash__(cls) -> int:
            return hash(theirs)

    def now(attribute: str, *args: Any, **kwargs: Any) -> Any:
        if asked_by_user():
            raise refusal("clock", f": {name}.{attribute}()")
        return getattr(theirs, attribute)(*args, **kwargs)

    ours = Calendar(name, (), {})
    _theirs[ours] = theirs
    return ours


def places(before: Walk) -> list[tuple[Any, str, Callable[[Any], Any]]]:
    """What refuses to tell the user's code the time."""
    names = [n for n in (*_CLOCKS, *_UNLESS_GIVEN) if hasattr(time, n)]
    # To ``is`` another object is not the same: it is there only where the code names what it is for.
    calendars = [n for n, asked in _NOW.items() if before.reads_all or not before.names.isdisjoint(asked)]
    return [
        *((time, n, functools.partial(_refusing, n)) for n in names),
        *((datetime, n, functools.partial(_calendar, n)) for n in calendars),
    ]
