"""Floats of the caller's that a trace follows: arguments, and hyper-parameters of optimizers that are not torch's own.

Such a number is no Python float inside the trace but a ``torch.SymFloat``, which torch takes wherever it takes a
number: it hands the object itself to a kernel, which recognises it. Whoever wants the double instead (``math.sqrt``,
NumPy, ``"%f"``, C++ code of torch that computes with it) has to ask, and the program is then bound to the value. So
nothing can be computed from the number unseen. Comparisons bind the program to their outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import _native
from ._former import Former
from ._later import Later
from ._numbers import Followed, give_operators


class Run:
    """The numbers of one trace."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []
        self.asked: set[int] = set()
        """The inputs of the program whose value somebody asked for."""
        self.over = False

    def input(self, value: float) -> Any:
        """A number that each call supplies."""
        if type(value) is int:
            from ._counts import Count

            return Count(_native.number_input(value, True), self)
        return Number(_native.number_input(value, True), self)

    def ask(self, fake: float) -> None:
        """Notes that the program is bound to the value of a number."""
        self.asked |= _inputs(_native.number_expression(fake))

    def end(self) -> None:
        """Numbers that outlive the trace are the values that they were traced with."""
        for n in self.numbers:
            object.__dict__["__class__"].__set__(n, Former)  # past the property, which says float
        self.numbers.clear()
        self.over = True


class _Node:
    """What torch asks a symbolic float for."""

    __slots__ = ("fake", "real")

    def __init__(self, fake: float) -> None:
        self.fake, self.real = fake, _native.number_peek(fake)

    def as_argument(self) -> float:
        """The double that a kernel recognises; see ``bridge/src/dispatch/trace/numbers.rs``."""
        return self.fake if _native.tracing() else self.real

    def value(self) -> float:
        return float(_native.number_specialize(self.fake))

    def guard_float(self, file: str, line: int) -> float:
        return self.value()

    def is_float(self) -> bool:
        return True

    def is_int(self) -> bool:
        return False

    is_bool = is_constant = is_nested_int = is_int

    def is_symbolic(self) -> bool:
        return True


def node_of(fake: float) -> _Node:
    return _Node(fake)


def _inputs(e: Any) -> set[int]:
    """The inputs that an expression needs."""
    if e is None or e[0] == "const":
        return set()
    return {int(e[1])} if e[0] == "input" else _inputs(e[1]) | _inputs(e[2])


def is_count(x: Any) -> bool:
    """Whether it is a whole number that is followed; see ``_counts.py``."""
    return type(x).__name__ == "Count" and isinstance(getattr(x, "node", None), _Node)


_SymFloat: Any = torch.SymFloat


class Number(_SymFloat):  # type: ignore[misc]
    """A float whose value the calls of the program supply."""

    node: _Node

    def __init__(self, fake: float, run: Run) -> None:
        self.node, self._run = _Node(fake), run
        run.numbers.append(self)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """To ``isinstance`` it is the float that the caller passed."""
        return float

    def _value(self) -> float:
        self._run.ask(self.node.fake)
        return self.node.value()

    def __float__(self) -> float:
        return self._value()

    def __hash__(self) -> int:
        return hash(self._value())

    def __bool__(self) -> bool:
        return not _native.number_compare("eq", self.node.fake, 0.0)

    def __neg__(self) -> Number:
        return self._follow("mul", self, -1.0)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return -self if self < 0.0 else self

    def __int__(self) -> int:
        return int(self._value())

    __trunc__ = __int__

    def __floor__(self) -> int:
        return self._value().__floor__()

    def __ceil__(self) -> int:
        return self._value().__ceil__()

    def __round__(self, digits: Any = None) -> Any:
        return round(self._value(), digits)

    def __repr__(self) -> str:
        return repr(self._value())

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self._value(), spec)

    def __reduce__(self) -> Any:
        return float, (self._value(),)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    def __getattr__(self, name: str) -> Any:
        # What floats have and this has not: is_integer, hex, real, ...
        if name.startswith("__") or not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute {name!r}")
        return getattr(self._value(), name)

    def _follow(self, op: str, a: Any, b: Any) -> Number:
        return Number(_native.number_arithmetic(op, _fake(a), _fake(b)), self._run)


def _fake(x: Any) -> float:
    return x.node.fake if type(x) is Number or (is_count(x) and not x._run.over) else float(x)


def value(x: Any) -> Any:
    """The value of a followed number, to which the program is then bound; anything else as it is."""
    return x._value() if type(x) is Number else x


def bound(x: Any) -> Any:
    """The same for numbers of torch's optimizers too."""
    if isinstance(x, Later):
        x.refuse()
    if is_count(x):
        return x._value()
    if type(x) is Former:
        return x.node.real
    return x.specialized() if type(x) is Followed else value(x)


def peek(x: Any) -> Any:
    """The number that any stand-in goes for, to which nothing is bound."""
    if type(x) is Number or type(x) is Former:
        return x.node.real
    if is_count(x):
        return int(x.node.real)
    return x.real_value if type(x) is Followed else x


def _is_number(x: Any) -> bool:
    return type(x) is Number or isinstance(x, int | float)


def _arithmetic(op: str, swapped: bool) -> Callable[[Any, Any], Any]:
    def method(self: Number, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        if op == "div" and b == 0:
            raise ZeroDivisionError("float division by zero")
        if op == "pow" and not _smooth(a, b):
            return value(a) ** value(b)
        return self._follow(op, a, b)

    return method


def _smooth(a: Any, b: Any) -> bool:
    """Whether ``a ** b`` is a float without special cases."""
    if is_count(b):
        return bool(a > 0)
    return (type(b) is not Number and b > 0 and float(b).is_integer()) or bool(a > 0)


def _by_value(name: str) -> Callable[..., Any]:
    def method(self: Number, *args: Any) -> Any:
        return getattr(self._value(), name)(*(value(a) for a in args))

    return method


def _comparison(relation: str, swapped: bool, negated: bool) -> Callable[[Any, Any], Any]:
    def method(self: Number, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        a, b = (other, self) if swapped else (self, other)
        return _native.number_compare(relation, _fake(a), _fake(b)) != negated

    return method


give_operators(Number, _arithmetic, _comparison)
for _name in ("floordiv", "mod", "divmod", "rfloordiv", "rmod", "rdivmod"):
    setattr(Number, f"__{_name}__", _by_value(f"__{_name}__"))


class OnHost(TorchFunctionMode):
    """Gives CPU tensors the value: torch's own kernels know nothing of numbers that are followed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        items = [*_flat(args), *_flat(kwargs.values())]
        if any(type(x) is Number for x in items):
            devices = {x.device.type for x in items if isinstance(x, torch.Tensor)}
            if devices and "pjrt" not in devices:
                args = [_valued(a) for a in args]
                kwargs = {k: _valued(v) for k, v in kwargs.items()}
        return func(*args, **kwargs)


def _flat(args: Any) -> list[Any]:
    found: list[Any] = []
    for a in args:
        found.extend(a) if isinstance(a, list | tuple) else found.append(a)
    return found


def _valued(a: Any) -> Any:
    return type(a)(map(value, a)) if type(a) in (list, tuple) else value(a)


def result(x: Any) -> Any:
    """What a function returns in the place of ``x``: a :class:`Result` where the numbers of a call decide it."""
    e = _expression(x)
    return bound(x) if e is None else Result(e)


def _expression(x: Any) -> Any:
    """How a number follows from those of a call; ``None`` for anything else, and for what the device computes."""
    if type(x) is Number:
        return _native.number_expression(x.node.fake)
    if is_count(x) and not x._run.over:
        return ("whole", _native.number_expression(x.node.fake))
    return _native.number_expression(x) if type(x) is Followed and not x.over else None


def expression_of(x: Any) -> Any:
    """How a number that is stored follows from those of a call."""
    e = _expression(x)
    return e if e is not None else ("const", bound(x))


class Result:
    """A float that a function returns, computed anew at each call."""

    __slots__ = ("expression",)

    def __init__(self, expression: Any) -> None:
        self.expression = expression

    def at(self, numbers: list[float]) -> float:
        """Its value for the numbers of a call."""
        return evaluate(self.expression, numbers)


def evaluate(e: Any, numbers: list[float]) -> float:
    """The value of an expression for the numbers of a call."""
    if e[0] == "input":
        return numbers[e[1]]
    if e[0] == "const":
        return e[1]  # type: ignore[no-any-return]
    if e[0] == "whole":
        return int(evaluate(e[1], numbers))
    a, b = evaluate(e[1], numbers), evaluate(e[2], numbers)
    match e[0]:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div":
            return a / b
        case "pow":
            return float(a**b)
        case other:
            return min(a, b) if other == "min" else max(a, b)
