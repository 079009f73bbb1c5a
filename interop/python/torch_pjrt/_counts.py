"""Whole numbers of the user's that change from call to call, inside a trace: counts of steps, of updates, of samples.

Such a number is no int inside the trace but an object that says so. Sums and products are followed, divided it is a
float that is followed (``_floats.py``); whoever needs the int itself (a shape, an index, ``range``, ``%``, text) binds
the program to it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from . import _native
from ._floats import Number, Run, node_of
from ._former import Former
from ._numbers import COMPARISONS

# Functions of tensors of floats to which a whole number is the float of its value.
_ARITHMETIC = {
    *("add", "sub", "mul", "div", "subtract", "multiply", "divide", "true_divide", "rsub", "radd", "rmul", "rdiv"),
    *("truediv", "rtruediv", "iadd", "isub", "imul", "itruediv", "idiv", "lerp", "fill", "full_like"),
}


class Count:
    """A whole number whose value the calls of the program supply."""

    def __init__(self, fake: float, run: Run) -> None:
        self.node, self._run = node_of(fake), run

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """To ``isinstance`` it is the int that it stands for."""
        return int

    def _value(self) -> int:
        if not self._run.over:
            self._run.ask(self.node.fake)
        return int(self.node.real) if self._run.over else int(self.node.value())

    def __neg__(self) -> Any:
        if self._run.over:
            return -self._value()
        return Count(_native.number_arithmetic("mul", self.node.fake, -1.0), self._run)

    def __pos__(self) -> Count:
        return self

    def __copy__(self) -> Count:
        return self

    def __deepcopy__(self, memo: Any) -> Count:
        return self

    def __reduce__(self) -> Any:
        return int, (self._value(),)

    def __pow__(self, other: Any) -> Any:
        return self._value() ** plain(other)

    def __rpow__(self, other: Any) -> Any:
        if type(other) in (float, Number) and not self._run.over and other > 0:
            return _number("pow", other, self, self._run)
        return plain(other) ** self._value() if type(other) in (int, float, Number, Former) else NotImplemented

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self._value(), name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [*args, *(kwargs or {}).values()]
        floating = all(x.is_floating_point() or x.is_complex() for x in given if isinstance(x, torch.Tensor))
        if floating and func.__name__.strip("_") in _ARITHMETIC:
            args = [Number(x.node.fake, x._run) if type(x) is Count and not x._run.over else x for x in args]
        return func(*plain(tuple(args)), **plain(kwargs or {}))


def plain(x: Any) -> Any:
    """The same with ints in the place of counts."""
    if type(x) is Count:
        return x._value()
    if type(x) is Former:
        return x.node.real
    if type(x) in (list, tuple):
        return type(x)(map(plain, x))
    return {k: plain(v) for k, v in x.items()} if type(x) is dict else x


_NUMBERS = (int, bool, float, Count, Number, Former)


def _fake(x: Any) -> float:
    return x.node.fake if type(x) is Number or (type(x) is Count and not x._run.over) else float(x)


def _number(op: str, a: Any, b: Any, run: Run) -> Number:
    return Number(_native.number_arithmetic(op, _fake(a), _fake(b)), run)


def _arithmetic(op: str, function: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Count, other: Any) -> Any:
        if type(other) not in _NUMBERS:
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        if self._run.over:
            return function(plain(a), plain(b))
        if op == "div":
            if b == 0:
                raise ZeroDivisionError("division by zero")
            return _number(op, a, b, self._run)
        if type(other) in (float, Number, Former):
            return _number(op, a, b, self._run)
        return Count(_native.number_arithmetic(op, _fake(a), _fake(b)), self._run)

    return method


def _comparison(name: str, relation: str, swapped: bool, negated: bool) -> Callable[[Any, Any], Any]:
    def method(self: Count, other: Any) -> Any:
        if type(other) not in _NUMBERS:
            return NotImplemented
        if self._run.over:
            return getattr(operator, name)(self._value(), plain(other))
        a, b = (other, self) if swapped else (self, other)
        return _native.number_compare(relation, _fake(a), _fake(b)) != negated

    return method


def _by_value(name: str) -> Callable[..., Any]:
    def method(self: Count, *args: Any) -> Any:
        return getattr(self._value(), name)(*map(plain, args))

    return method


for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div")):
    setattr(Count, f"__{_name}__", _arithmetic(_op, getattr(operator, _name), False))
    setattr(Count, f"__r{_name}__", _arithmetic(_op, getattr(operator, _name), True))
for _name, _how in COMPARISONS.items():
    setattr(Count, f"__{_name}__", _comparison(_name, *_how))
for _name in (
    *("floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod", "and", "rand", "or", "ror", "xor", "rxor"),
    *("lshift", "rlshift", "rshift", "rrshift", "index", "int", "float", "hash", "bool", "repr", "str", "format"),
    *("abs", "invert", "trunc", "floor", "ceil", "round", "complex"),
):
    if hasattr(int, f"__{_name}__"):
        setattr(Count, f"__{_name}__", _by_value(f"__{_name}__"))
