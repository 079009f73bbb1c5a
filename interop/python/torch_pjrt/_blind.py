"""Traces during which torch looks at no value.

Some of torch's own formulas look: for zeros in ``prod``'s gradient, for negative weights. A trace that was stopped by a
look is made once more in these modes. Where a dispatch mode is on, torch's C++ code takes other formulas, made for
tensors without values; what has no other formula is replaced (``_unseen.py``), and what would only raise an error is
left to the device (``_asserted.py``). Each op costs some microseconds more, so no first trace is made in this way.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import _asserted, _unseen
from ._jit_errors import refusal, tensors_of
from ._storage import slot_of


class _Ops(TorchDispatchMode):
    """Calls every op as it is. Copies that torch would have as views must not be told from views: see :meth:`copy`."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[int, tuple[torch.Tensor, int]] = {}
        self.stale: set[int] = set()

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.copies:
            self._watch(func, args, kwargs)
        return func(*args, **kwargs)

    def copy(self, made: torch.Tensor, of: torch.Tensor) -> None:
        """Takes note of a copy, which keeps its cell from being used again."""
        if made.numel():
            self.copies[slot_of(_asserted.plain(made))] = (made, slot_of(_asserted.plain(of)))

    def _watch(self, func: Any, args: Any, kwargs: Any) -> None:
        schema = getattr(func, "_schema", None)
        self.check((args, kwargs))
        if schema is None or not schema.is_mutable:
            return
        given = {**dict(zip((a.name for a in schema.arguments), args, strict=False)), **kwargs}
        for t in tensors_of([given.get(a.name) for a in schema.arguments if a.is_write], {}):
            slot = slot_of(t)
            if slot in self.copies:
                raise refusal("narrow")
            self.stale |= {c for c, (_, base) in self.copies.items() if base == slot}

    def check(self, used: Any) -> None:
        """Raises if a copy is among what is used that is not what a view would be by now."""
        for t in pytree.tree_leaves(used) if self.stale else ():
            if isinstance(t, torch.Tensor) and t.device.type == "pjrt" and slot_of(_asserted.plain(t)) in self.stale:
                raise refusal("narrow")


class _Functions(TorchFunctionMode):
    """Answers and replaces what would look."""

    def __init__(self, ops: _Ops) -> None:
        super().__init__()
        self.ops = ops

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.__bool__:
            answer = _asserted.answer(args[0], sys._getframe(1))
            if answer is not None:
                return answer
        elif func in _unseen.NARROWS:
            made = _unseen.narrow(*args, **kwargs)
            if made is not NotImplemented:
                self.ops.copy(made, args[0] if args else kwargs["input"])
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
def blind() -> Iterator[_Ops]:
    """Both modes, for one trace."""
    with _Ops() as ops, _Functions(ops):
        yield ops
