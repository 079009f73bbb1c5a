"""Traces during which torch looks at no value.

Some of torch's own formulas look: for zeros in ``prod``'s gradient, for negative weights. A trace that was stopped by a
look is made once more in these modes. Where a dispatch mode is on, torch's C++ code takes other formulas, made for
tensors without values; what has no other formula is replaced (``_unseen.py``, ``_places.py``), and what would only
raise an error is left to the device (``_asserted.py``). Each op costs some microseconds more, so no first trace is made
in this way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import _asserted, _places, _unseen
from ._jit_errors import JitError, refusal, tensors_of
from ._storage import slot_of

_ALLCLOSE = torch.ops.aten.allclose.default


@dataclasses.dataclass
class _Copy:
    """A copy that torch would have as a view; the tensor is kept, and with it its cell."""

    made: torch.Tensor
    base: int
    index: Any
    written: JitError | None = None
    """The error if ``base[index] = made`` does not follow: the copy was written to."""
    stale: bool = False
    """What it was taken from was written to since."""


class Ops(TorchDispatchMode):
    """Calls every op as it is. Copies that torch would have as views must not be told from views: see :meth:`copy`."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._copies: dict[int, _Copy] = {}
        self._in_notes = False

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._copies and not self._in_notes:
            self._watch(func, args, kwargs)
        if func is _ALLCLOSE and (answer := _asserted.close(args, kwargs)) is not None:
            return answer
        return func(*args, **kwargs)

    def copy(self, made: torch.Tensor, of: torch.Tensor, index: Any = None) -> None:
        """Takes note of a copy of a part. With the index of that, ``of[index] += v`` may follow: the copy may be
        written to if it is then put back."""
        if made.numel():
            self._copies[self._slot(made)] = _Copy(made, self._slot(of), index)

    def _slot(self, t: torch.Tensor) -> int:
        """The cell of a tensor, found without being watched."""
        self._in_notes = True
        try:
            return slot_of(_asserted.plain(t))
        finally:
            self._in_notes = False

    def put_back(self, value: Any, of: torch.Tensor, index: Any) -> None:
        """``of[index] = value`` is about to run, which is what a write to a copy waits for."""
        if isinstance(value, torch.Tensor) and value.device.type == "pjrt":
            copy = self._copies.get(self._slot(value))
            if copy is not None and copy.base == self._slot(of) and _same(copy.index, index):
                copy.written = None

    def _watch(self, func: Any, args: Any, kwargs: Any) -> None:
        schema = getattr(func, "_schema", None)
        self.check((args, kwargs))
        if schema is None or not schema.is_mutable:
            return
        given = {**dict(zip((a.name for a in schema.arguments), args, strict=False)), **kwargs}
        for t in tensors_of([given.get(a.name) for a in schema.arguments if a.is_write], {}):
            slot = slot_of(t)
            if (copy := self._copies.get(slot)) is not None:
                if copy.index is None:
                    raise refusal("narrow")
                copy.written = refusal("narrow")
            for copy in self._copies.values():
                copy.stale |= copy.base == slot

    def check(self, used: Any) -> None:
        """Raises if there is something among what is used that would be another value if copies were views."""
        wrong: dict[int, JitError | None] = {slot: None for slot, c in self._copies.items() if c.stale}
        wrong |= {c.base: c.written for c in self._copies.values() if c.written}
        for t in pytree.tree_leaves(used) if wrong else ():
            if (
                isinstance(t, torch.Tensor)
                and t.device.type == "pjrt"
                and (slot := slot_of(_asserted.plain(t))) in wrong
            ):
                raise wrong[slot] or refusal("narrow")

    def finish(self, results: Any) -> None:
        """:meth:`check` for the end of the trace: nothing can be put back any more."""
        self.check(results)
        for copy in self._copies.values():
            if copy.written:
                raise copy.written


def _same(a: Any, b: Any) -> bool:
    """Whether two indices are the same, tensors by identity."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (not (isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor)) and bool(a == b))


class _Functions(TorchFunctionMode):
    """Answers and replaces what would look."""

    def __init__(self, ops: Ops) -> None:
        super().__init__()
        self.ops = ops

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.__bool__:
            answer = _asserted.answer(args[0], sys._getframe(1))
            if answer is not None:
                return answer
        elif (at_a_place := _places.INSTEAD.get(func)) is not None:
            made = at_a_place(self.ops, *args, **kwargs)
            if made is not NotImplemented:
                return made
        elif (instead := _unseen.INSTEAD.get(func)) is not None:
            made = instead(*args, **kwargs)
            if made is not NotImplemented:
                return made
        elif getattr(func, "__module__", "") == "torch.nn.functional" and type(func) is _FUNCTION:
            with self:
                return _without_its_question(func)(*args, **kwargs)
        return func(*args, **kwargs)


_FUNCTION = types.FunctionType


def _never(*args: Any) -> bool:
    return False


def _without_its_question(func: types.FunctionType) -> types.FunctionType:
    """A function that does not ask whether there is a mode, so that the mode sees what it calls."""
    names = {name: _never for name in func.__globals__ if name.startswith("has_torch_function")}
    made = types.FunctionType(
        func.__code__, {**func.__globals__, **names}, func.__name__, func.__defaults__, func.__closure__
    )
    made.__kwdefaults__ = func.__kwdefaults__
    return made


@contextlib.contextmanager
def blind() -> Iterator[Ops]:
    """Both modes, for one trace."""
    with Ops() as ops, _Functions(ops):
        yield ops
