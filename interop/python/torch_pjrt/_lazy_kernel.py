"""Native kernels for use from Python, made when they are first called."""

from __future__ import annotations

from typing import Any

from . import _native


class Kernel:
    """The kernel of overload ``name``, which follows from ``row`` in the way that ``form`` says."""

    def __init__(self, name: str, row: str, form: str) -> None:
        self.make = (name, row, form)
        self.made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.made is None:
            self.made = _native.kernel(*self.make)
        return self.made(*args, **kwargs)
