"""What a trace would take once and a program never again: items of iterators; and what caches keep of it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from queue import SimpleQueue

from torch.nn.utils import parametrize

from ._jit_errors import error
from ._state import Walk
from ._watched import position


def check_iterators(before: Walk, place: str) -> None:
    for iterator, at, path in before.iterators:
        if isinstance(iterator, io.IOBase):
            raise error(
                f"{path} is a {type(iterator).__name__} that does not tell where it is (a pipe, a file in a loop over "
                "its lines); what is read from it inside the function would be the same at every call. Way out: read "
                "it outside and pass what was read as an argument.",
                place,
            )
        now = position(iterator)
        if now != at and not (isinstance(iterator, SimpleQueue) and now > at):  # what is put there is of the trace
            raise error(
                f"an item was taken from {path}, a {type(iterator).__name__}, inside the function; it "
                "would be the same at every call. Way out: take it outside and pass it as an argument.",
                place,
            )


@contextlib.contextmanager
def no_parametrized() -> Iterator[None]:
    """Hides from a trace what ``parametrize.cached()`` holds, and drops what the trace put there."""
    held = dict(parametrize._cache)
    parametrize._cache.clear()
    try:
        yield
    finally:
        parametrize._cache.clear()
        parametrize._cache.update(held)
