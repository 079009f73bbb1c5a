"""Which variables of closures may still change: those that another function made beside it stores (``nonlocal``)."""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any


def changing(f: types.FunctionType) -> frozenset[str]:
    """The free variables of a function that somebody may store anew."""
    outer: Any = f.__globals__
    for name in f.__code__.co_qualname.partition(".<locals>")[0].split("."):
        outer = (outer if isinstance(outer, dict) else getattr(outer, "__dict__", {})).get(name)
    outer = getattr(outer, "__func__", outer)
    outer = inspect.unwrap(outer) if callable(outer) else None
    free = frozenset(f.__code__.co_freevars)
    if not isinstance(outer, types.FunctionType) or all(c is not f.__code__ for c in inner(outer.__code__)):
        return free
    return free & _stored(outer.__code__)


def inner(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code with that of all functions inside it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from inner(const)


@functools.lru_cache(maxsize=1024)
def _stored(code: types.CodeType) -> frozenset[str]:
    """Variables of functions around them that functions inside code store."""
    return frozenset(
        str(i.argval)
        for c in inner(code)
        if c.co_freevars
        for i in dis.get_instructions(c)
        if i.opname in ("STORE_DEREF", "DELETE_DEREF") and i.argval in c.co_freevars
    )
