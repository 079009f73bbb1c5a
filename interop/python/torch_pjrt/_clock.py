"""The clock inside a trace: what it said then would be the same at every call."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from ._jit_errors import refusal
from ._names import is_library
from ._state import Walk

_CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time")


def _refusing(name: str, theirs: Callable[[], Any]) -> Callable[[], Any]:
    def clock() -> Any:
        if is_library(sys._getframe(1).f_code):
            return theirs()
        raise refusal("clock", f": time.{name}()")

    return clock


@contextlib.contextmanager
def refused(before: Walk) -> Iterator[None]:
    """Refuses to tell the user's code the time."""
    scope = vars(time)
    ours = {id(scope[n]): _refusing(n, scope[n]) for n in _CLOCKS}
    put_back = [(scope, n, scope[n]) for n in _CLOCKS]
    for site in before.sites:
        # ``from time import perf_counter``
        if site.kind == "names":
            found = zip(site.keys, site.values, strict=True)
            put_back += [(site.container, k, v) for k, v in found if id(v) in ours]
    try:
        for table, name, v in put_back:
            table[name] = ours[id(v)]
        yield
    finally:
        for table, name, v in put_back:
            table[name] = v
