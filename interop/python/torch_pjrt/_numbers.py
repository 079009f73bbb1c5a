"""Python numbers that a trace follows: hyper-parameters and, in optimizers, values read from the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _native


class Followed(float):
    """A float under the value that it goes by in the running trace; see ``bridge/src/dispatch/trace/numbers.rs``.

    Arithmetic gives numbers that are followed too. Comparisons compare the real value and bind the program to the
    outcome; what needs the value itself (``int``, ``hash``, ``str``) binds it to the value.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(_native.number_specialize(self))

    def __bool__(self) -> bool:
        return not _native.number_compare("eq", self, 0.0)

    def __neg__(self) -> Followed:
        return Followed(_native.number_arithmetic("mul", self, -1.0))

    def __pos__(self) -> Followed:
        return self

    def __abs__(self) -> float:
        return abs(_native.number_specialize(self))

    def __int__(self) -> int:
        return int(_native.number_specialize(self))

    __trunc__ = __int__

    def __floor__(self) -> int:
        return _native.number_specialize(self).__floor__()

    def __ceil__(self) -> int:
        return _native.number_specialize(self).__ceil__()

    def __round__(self, digits: Any = None) -> Any:
        return round(_native.number_specialize(self), digits)

    def __repr__(self) -> str:
        return repr(_native.number_peek(self))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(_native.number_peek(self), spec)

    def __reduce__(self) -> Any:
        return float, (_native.number_peek(self),)

    def __deepcopy__(self, memo: Any) -> Followed:
        return self


def _arithmetic(op: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Followed, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return Followed(_native.number_arithmetic(op, float.__float__(float(a)), float.__float__(float(b))))

    return method


def _comparison(relation: str, swapped: bool, negated: bool) -> Callable[[Any, Any], Any]:
    def method(self: Followed, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
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
