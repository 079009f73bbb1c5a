"""Python numbers that a trace follows: hyper-parameters and, in optimizers, values read from the device."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Callable, Iterator
from typing import Any

from . import _native


class _Here(threading.local):
    """The trace of a thread."""

    trace: Trace


class Trace:
    """Whose numbers they are, and whether it is over."""

    over = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        _here.trace = self
        try:
            yield
        finally:
            self.over = True


_here = _Here()


class Followed(float):
    """A float under the value that it goes by in the running trace; see ``bridge/src/dispatch/trace/numbers.rs``.

    Arithmetic gives numbers that are followed too. Comparisons compare the real value and bind the program to the
    outcome; what needs the value itself (``int``, ``hash``, ``str``) binds it to the value. Once the trace is over it
    is the real value.
    """

    __slots__ = ("_trace", "real_value")
    _trace: Trace
    real_value: float

    def __new__(cls, fake: float) -> Followed:
        made = super().__new__(cls, fake)
        made._trace, made.real_value = _here.trace, _native.number_peek(fake)
        return made

    @property
    def over(self) -> bool:
        """Whether its trace is."""
        return self._trace.over

    def specialized(self) -> float:
        """The real value, to which the program is then bound."""
        if not self.over:
            return _native.number_specialize(self)
        if self.real_value != self.real_value:
            raise RuntimeError("a number that a traced program computes on the device has no value after its trace")
        return self.real_value

    def __hash__(self) -> int:
        return hash(self.specialized())

    def __float__(self) -> float:
        return self.specialized() if self.over else float.__float__(self)

    def __bool__(self) -> bool:
        return bool(self.specialized()) if self.over else not _native.number_compare("eq", self, 0.0)

    def __neg__(self) -> float:
        if self.over:
            return -self.specialized()
        return Followed(_native.number_arithmetic("mul", self, -1.0))

    def __pos__(self) -> Followed:
        return self

    def __abs__(self) -> float:
        return abs(self.specialized())

    def __int__(self) -> int:
        return int(self.specialized())

    __trunc__ = __int__

    def __floor__(self) -> int:
        return self.specialized().__floor__()

    def __ceil__(self) -> int:
        return self.specialized().__ceil__()

    def __round__(self, digits: Any = None) -> Any:
        return round(self.specialized(), digits)

    def __repr__(self) -> str:
        return repr(self.real_value)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.real_value, spec)

    def __reduce__(self) -> Any:
        return float, (self.real_value,)

    def __deepcopy__(self, memo: Any) -> Followed:
        return self


_OPERATORS = {"div": "truediv"}


def _arithmetic(op: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Followed, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        if self.over:
            return getattr(operator, _OPERATORS.get(op, op))(float(a), float(b))
        return Followed(_native.number_arithmetic(op, float.__float__(float(a)), float.__float__(float(b))))

    return method


def _comparison(relation: str, swapped: bool, negated: bool) -> Callable[[Any, Any], Any]:
    def method(self: Followed, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        if self.over:
            return getattr(operator, relation)(float(a), float(b)) != negated
        # NaN aside, a > b is b < a and a >= b is b <= a.
        return _native.number_compare(relation, float(a), float(b)) != negated

    return method


COMPARISONS = {
    "eq": ("eq", False, False),
    "ne": ("eq", False, True),
    "lt": ("lt", False, False),
    "gt": ("lt", True, False),
    "le": ("le", False, False),
    "ge": ("le", True, False),
}
"""Python's comparisons as a relation, whether its sides are swapped, and whether it is negated."""


def give_operators(
    cls: type,
    arithmetic: Callable[[str, bool], Callable[[Any, Any], Any]],
    comparison: Callable[[str, bool, bool], Callable[[Any, Any], Any]],
) -> None:
    """Gives a class of numbers its operators, made by ``arithmetic(op, swapped)`` and
    ``comparison(relation, swapped, negated)``.
    """
    for name, op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow")):
        setattr(cls, f"__{name}__", arithmetic(op, False))
        setattr(cls, f"__r{name}__", arithmetic(op, True))
    for name, arguments in COMPARISONS.items():
        setattr(cls, f"__{name}__", comparison(*arguments))


give_operators(Followed, _arithmetic, _comparison)


def extremum(op: str, builtin: Callable[..., Any]) -> Callable[..., Any]:
    """``min`` or ``max`` that follows numbers."""

    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs and any(isinstance(a, Followed) for a in args):
            return Followed(_native.number_arithmetic(op, float(args[0]), float(args[1])))
        return builtin(*args, **kwargs)

    return function
