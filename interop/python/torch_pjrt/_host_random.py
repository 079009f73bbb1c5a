"""Random numbers of the host inside a trace: they would be the same at every call."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import threading
import types
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


_LOCK = threading.RLock()
_running: list[Randomness] = []
"""Those of all traces that run now."""


class Randomness:
    """Notices random numbers that Python code draws on the host."""

    def __init__(self) -> None:
        self.before = self.expected = _states()
        """The states that the function must leave: as it found them, or as others made them meanwhile."""
        self.places: dict[str, str] = {}
        """Where the user's code drew from a library first, as far as it is known."""

    @contextlib.contextmanager
    def followed(self, before: Walk) -> Iterator[None]:
        """Notes where Python code draws, which does not matter if it puts the state back, or if it is another thread's
        or a module's that is imported."""
        with replaced(before, _noting()):
            with _LOCK:
                self.before, self.expected = _states(), _states()
                _running.append(self)
            _drawn_at.trace = self
            try:
                yield
            finally:
                _drawn_at.trace = None
                with _LOCK:
                    _running.remove(self)

    def passed(self, library: str, was: Any, now: Any) -> None:
        """Somebody else drew."""
        if was in (self.expected[library], self.before[library]):
            self.expected[library] = now

    def check(self, name: str, place: str) -> None:
        """``place`` is where the function is, and its name."""
        with _LOCK:
            now = _states()
            changed = [k for k, state in now.items() if state not in (self.expected[k], self.before[k])]
        for library in changed:
            at = self.places.get(library)
            raise _drawn(f"{at}: {name}" if at else place, of=f" of {library}")


def _states() -> dict[str, Any]:
    return {library: _state(library) for library in ("random", "torch on the CPU", "numpy.random")}


def _state(library: str) -> Any:
    if library == "random":
        return random.getstate()
    if library == "torch on the CPU":
        return torch.default_generator.get_state().numpy().tobytes()
    if (numpy := sys.modules.get("numpy")) is None:
        return None
    n = numpy.random.get_state()
    return n[1].tobytes(), n[2]


def _imports() -> bool:
    """Whether it is a module that is imported now, for the first time, that called the caller's caller."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != "torch_pjrt._trace":
        if frame.f_code.co_name == "<module>" and frame.f_back is not None:
            by_import = frame.f_back.f_code.co_filename.startswith("<frozen importlib")
            if by_import and getattr(frame.f_globals.get("__spec__"), "_initializing", False):
                return True
        frame = frame.f_back
    return False


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
        own: Randomness | None = getattr(_drawn_at, "trace", None)
        if own is not None and _imports():
            own = None
        with _LOCK:  # so that nobody draws between the looks at the state
            if own is not None and library not in own.places and _native.tracing():
                own.places[library] = _native.user_location()
            others = [r for r in _running if r is not own]
            was = _state(library) if others else None
            try:
                return theirs(*args, **kwargs)
            finally:
                now = _state(library) if others else None
                for r in others:
                    r.passed(library, was, now)

    return draw


def _drawn(place: str, of: str = "", where: str = "") -> JitError:
    return error(
        f"random numbers{of} were drawn on the host{where} inside the function; they would be the same "
        "at every call. Way out: draw them on the device (torch.rand(..., device='pjrt')), or draw them outside and "
        "pass them as arguments.",
        place,
    )
