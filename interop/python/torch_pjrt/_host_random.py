"""Random numbers of the host inside a trace: they would be the same at every call."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _native
from ._jit_errors import JitError, error
from ._replaced import replaced
from ._state import Walk
from ._watched import generator_state

_LOOKS = {"getstate", "get_state"}
_drawn_at = threading.local()


class Randomness:
    """Notices random numbers that Python code draws on the host."""

    def __init__(self) -> None:
        self.before = self._state()
        self.places: dict[str, str] = {}
        """Where the user's code drew from a library first, as far as it is known."""

    @staticmethod
    def _state() -> tuple[Any, ...]:
        numpy = sys.modules.get("numpy")
        n = numpy.random.get_state() if numpy is not None else None
        return (
            random.getstate(),
            torch.default_generator.get_state().numpy().tobytes(),
            (n[1].tobytes(), n[2]) if n is not None else None,
        )

    @contextlib.contextmanager
    def followed(self, before: Walk) -> Iterator[None]:
        """Notes where Python code draws, which does not matter if it puts the state back."""
        _drawn_at.places = self.places
        with replaced(before, _noting()):
            try:
                yield
            finally:
                _drawn_at.places = {}

    def check(self, name: str, place: str) -> None:
        """``place`` is where the function is, and its name."""
        for library, was, now in zip(
            ("random", "torch on the CPU", "numpy.random"), self.before, self._state(), strict=True
        ):
            if was != now:
                at = self.places.get(library)
                raise _drawn(f"{at}: {name}" if at else place, of=f" of {library}")


def check_generators(before: Walk, place: str) -> None:
    for generator, state, path in before.generators:
        if generator_state(generator) != state:
            raise _drawn(place, where=f" from {path}")


def _noting() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """The functions that draw from the generators of whole libraries."""
    found = [("random", random, random._inst)]  # type: ignore[attr-defined]
    if (numpy := sys.modules.get("numpy")) is not None:
        found.append(("numpy.random", numpy.random, numpy.random.mtrand._rand))
    for library, module, generator in found:
        for name in vars(module).keys() & {*dir(generator), "ranf", "sample"}:
            if not name.startswith("_") and name not in _LOOKS:
                yield module, name, functools.partial(_note, library)


@functools.lru_cache(maxsize=1024)
def _note(library: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        places = getattr(_drawn_at, "places", None)
        if places is not None and library not in places and _native.tracing():
            places[library] = _native.user_location()
        return theirs(*args, **kwargs)

    return draw


def _drawn(place: str, of: str = "", where: str = "") -> JitError:
    return error(
        f"random numbers{of} were drawn on the host{where} inside the function; they would be the same "
        "at every call. Way out: draw them on the device (torch.rand(..., device='pjrt')), or draw them outside and "
        "pass them as arguments.",
        place,
    )
