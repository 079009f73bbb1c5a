"""Modes of eager execution."""

from __future__ import annotations

import contextlib

from . import _native

_MODES = ("strict", "debug")


class eager_mode(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    """Chooses how eager ops run, from the call on or, as a context manager, for a block.

    ``"strict"`` (default): ops are asynchronous; what only the device can find out (an index out of range) is raised by
    the next read or synchronize at the latest. ``"debug"``: each op is waited for, so that its error is raised at its
    own line; with ``check_nan=True`` a NaN in a result is an error too.

    Raises ``ValueError`` for another mode.
    """

    def __init__(self, mode: str, *, check_nan: bool = False) -> None:
        if mode not in _MODES:
            raise ValueError(f"eager_mode: argument `mode`: got {mode!r}, expected one of {', '.join(_MODES)}")
        self._before = (_native.is_debug(), _native.checks_nan())
        _native.set_debug(mode == "debug", check_nan)

    def __exit__(self, *error: object) -> None:
        _native.set_debug(*self._before)
