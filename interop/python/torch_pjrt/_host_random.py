"""Random numbers of the host inside a trace: they would be the same at every call."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from ._jit_errors import JitError
from ._state import Walk
from ._watched import generator_state


class Randomness:
    """Notices random numbers that Python code draws on the host."""

    def __init__(self) -> None:
        self.before = self._state()

    @staticmethod
    def _state() -> tuple[Any, ...]:
        numpy = sys.modules.get("numpy")
        n = numpy.random.get_state() if numpy is not None else None
        return (
            random.getstate(),
            torch.default_generator.get_state().numpy().tobytes(),
            (n[1].tobytes(), n[2]) if n is not None else None,
        )

    def check(self, name: str) -> None:
        for library, was, now in zip(
            ("random", "torch on the CPU", "numpy.random"), self.before, self._state(), strict=True
        ):
            if was != now:
                raise _drawn(name, of=f" of {library}")


def check_generators(before: Walk, name: str) -> None:
    for generator, state, path in before.generators:
        if generator_state(generator) != state:
            raise _drawn(name, where=f" from {path}")


def _drawn(name: str, of: str = "", where: str = "") -> JitError:
    return JitError(
        f"jit: {name}: random numbers{of} were drawn on the host{where} inside the function; they would be the same at "
        "every call. Way out: draw them on the device (torch.rand(..., device='pjrt')), or draw them outside and pass "
        "them as arguments."
    )
