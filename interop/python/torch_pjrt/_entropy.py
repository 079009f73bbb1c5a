"""Random numbers of the operating system, and what is seeded with them, inside a trace."""

from __future__ import annotations

import functools
import os
import random
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _replaced
from ._jit_errors import refusal
from ._replaced import asked_by_user, likeness

_THROUGH = ("random", "secrets", "uuid", __name__, _replaced.__name__)
_seeds = threading.local()


def places() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """What refuses them to the user's code. NumPy's generators and ``secrets`` take theirs from ``random``."""
    name = "the operating system's (secrets, SystemRandom, a generator of NumPy's without a seed)"
    yield random, "_urandom", functools.partial(_refusing, name)
    for name in ("urandom", "getrandom"):
        if hasattr(os, name):
            yield os, name, functools.partial(_refusing, f"os.{name}")
    for name in ("uuid1", "uuid6", "uuid7"):
        if hasattr(uuid, name):
            yield uuid, name, functools.partial(_refusing, f"uuid.{name}")
    yield random.Random, "seed", _seeding
    yield from ((m, "Generator", _generator) for m in (torch, torch._C))
    yield from ((m, "initial_seed", _told) for m in (torch, torch.random))
    if (numpy := sys.modules.get("numpy")) is not None:
        yield numpy.random, "RandomState", _legacy


@functools.lru_cache(maxsize=256)
def _refusing(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def drawn(*args: Any, **kwargs: Any) -> Any:
        if not getattr(_seeds, "given", False) and asked_by_user(_THROUGH, beyond=True):
            raise refusal("random", f": {name}")
        return theirs(*args, **kwargs)

    return drawn


@functools.lru_cache(maxsize=4)
def _seeding(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def seed(self: random.Random, a: Any = None, version: int = 2) -> Any:
        if a is None and asked_by_user(_THROUGH, beyond=True):
            raise refusal("random", ": a random.Random without a seed")
        return theirs(self, a, version)

    return seed


@functools.lru_cache(maxsize=4)
def _told(theirs: Callable[[], int]) -> Callable[[], int]:
    def initial_seed() -> int:
        if asked_by_user():
            raise refusal("seed", ": torch.initial_seed()")
        return theirs()

    return initial_seed


@functools.lru_cache(maxsize=4)
def _legacy(theirs: Any) -> Any:
    """NumPy's ``RandomState``, which draws a seed even where it is given one."""

    def make(seed: Any = None) -> Any:
        before, _seeds.given = getattr(_seeds, "given", False), seed is not None
        try:
            return theirs(seed)
        finally:
            _seeds.given = before

    return likeness(theirs, make)


@functools.lru_cache(maxsize=4)
def _generator(theirs: Any) -> Any:
    """torch's ``Generator``, whose ``seed()`` draws."""

    class Generator(theirs):  # type: ignore[misc]
        __module__, __qualname__ = theirs.__module__, theirs.__qualname__

        def seed(self) -> int:
            if asked_by_user(_THROUGH, beyond=True):
                raise refusal("random", ": torch.Generator.seed()")
            return super().seed()  # type: ignore[no-any-return]

    return likeness(theirs, Generator)
