"""What a trace would take once and a program never again: items of iterators; and what caches keep of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch.nn.utils import parametrize

from ._jit_errors import error
from ._state import Walk
from ._watched import position


def check_iterators(before: Walk, place: str) -> None:
    for iterator, at, path in before.iterators:
        if position(iterator) != at:
            raise error(
                f"an item was taken from {path}, a {type(iterator).__name__}, inside the function; it "
                "would be the same at every call. Way out: take it outside and pass it as an argument.",
                place,
            )


def drop_cached(before: Walk) -> None:
    """Empties each ``functools.lru_cache`` that was filled in the trace: its tensors end with it."""
    for cache, misses in before.caches:
        if cache.cache_info().misses != misses:
            cache.cache_clear()


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
