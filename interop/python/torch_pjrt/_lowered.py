"""Programs that are looked at, compiled and run by hand: ``jit(fn).lower(...)``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import _native
from ._edits import Edited
from ._lbfgs_state import ready


class Lowered:
    """A traced function before compilation."""

    def __init__(self, traced: Any, function: Any, out_info: Any) -> None:
        self._traced, self._function = traced, function
        self.out_info = out_info
        """The result's structure, with ``meta`` tensors."""

    def as_text(self, *, locations: bool = True) -> str:
        """The program as StableHLO; with the lines of Python code that the operations come from."""
        return str(self._traced.program.text(locations))

    def backward_as_text(self, *, locations: bool = True) -> str | None:
        """The program of the gradients, where a caller may ask for them."""
        return self._traced.backward.text(locations) if self._traced.backward is not None else None

    def compile(self, target: str | None = None) -> Compiled:
        """Compiles for the process's device (``None``, or its platform's name), or for devices that are not here:
        ``"tpu:v5e:2x2"`` needs only libtpu installed.

        Raises ``ValueError`` for another target.
        """
        platform, _, topology = (target or "").partition(":")
        if target is None or (not topology and platform == str(_native.platform_name()).lower()):
            self._traced.program.compile()
            return Compiled(self, self._traced.program, runs=True)
        if platform == "tpu" and topology:
            return Compiled(self, self._traced.program.compile_for(_libtpu(), topology), runs=False)
        raise ValueError(
            f"compile: argument `target`: got {target!r}, expected None, {str(_native.platform_name()).lower()!r} or "
            "'tpu:<topology>' such as 'tpu:v5e:2x2'"
        )


def _libtpu() -> str:
    path = os.environ.get("TPU_LIBRARY_PATH")
    if path:
        return path
    import importlib.util

    spec = importlib.util.find_spec("libtpu")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("compile: target tpu needs libtpu. Install it: pip install libtpu")
    return str(Path(next(iter(spec.submodule_search_locations))) / "libtpu.so")


class Compiled:
    """A compiled program."""

    def __init__(self, lowered: Lowered, program: Any, runs: bool) -> None:
        self._lowered, self._program, self._runs = lowered, program, runs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it on arguments like those that it was lowered for.

        Raises ``RuntimeError`` when it was compiled for devices that are not here, ``ValueError`` when the arguments
        or the state are not what it was lowered for.
        """
        if not self._runs:
            raise RuntimeError("this program was compiled for devices that are not here; it can be analysed and stored")
        function = self._lowered._function
        for optimizer in self._lowered._traced.stepped:
            ready(optimizer)
        a = function._take_apart(args, kwargs)
        out = self._lowered._traced.run(a.leaves, a.tensors, a.floats)
        if type(out) is str:
            raise ValueError(f"the program does not fit this call: {out}. Lower it again")
        return out.given_to(args, kwargs) if type(out) is Edited else out

    def as_text(self) -> str:
        """The program after the compiler's optimizations: HLO in the shape that XLA prints it in, large constants left
        out, or the text that the plugin has. Raises ``RuntimeError`` where the plugin gives none."""
        return str(self._program.optimized())

    def cost_analysis(self) -> dict[str, float]:
        """The work of the optimized program by XLA's names: ``flops``, ``transcendentals``, ``bytes accessed`` and what
        else the plugin counts. Where it counts nothing, these three are counted here by XLA's rules. A loop counts one
        turn, a conditional its dearest branch, a custom call its memory alone."""
        return dict(self._program.cost_analysis())

    def memory_analysis(self) -> dict[str, int]:
        """Bytes by purpose: arguments, outputs, aliased, temporaries, generated code."""
        return dict(self._program.memory_analysis())

    def serialize(self) -> bytes:
        """The compiled program as bytes."""
        return bytes(self._program.serialize())
