"""Numbers that a trace followed and that outlive it: the values that they were traced with."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch


def _layout() -> Any:
    """What a class must inherit from for a Number to become one of it."""
    c: Any = torch.SymFloat
    while c.__base__.__dictoffset__:
        c = c.__base__
    return Generic[TypeVar("_T")] if c.__base__ is Generic else c.__base__


class Former(_layout()):  # type: ignore[misc]
    """A number whose trace is over. Not a SymFloat: torch would ask it for a trace."""

    node: Any

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    def __float__(self) -> float:
        return self.node.real

    def __repr__(self) -> str:
        return repr(self.node.real)

    def __copy__(self) -> float:
        return self.node.real

    def __deepcopy__(self, memo: Any) -> float:
        return self.node.real

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute {name!r}")
        return getattr(self.node.real, name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*map(_settled, args), **{k: _settled(v) for k, v in (kwargs or {}).items()})

    def __reduce__(self) -> Any:
        return float, (self.node.real,)

    def __hash__(self) -> int:
        return hash(self.node.real)


def _settled(x: Any) -> Any:
    """The same with floats in the place of former numbers."""
    if type(x) is Former:
        return x.node.real
    return type(x)(map(_settled, x)) if type(x) in (list, tuple) else x


def _former(name: str) -> Callable[..., Any]:
    function = divmod if name == "divmod" else getattr(operator, name, None)

    def method(self: Former, *args: Any) -> Any:
        # By the operator where there is one: the other side may be a number that another trace follows.
        return (function or getattr(float, f"__{name}__"))(self.node.real, *map(_settled, args))

    return method


def _former_reversed(name: str) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name, divmod)

    def method(self: Former, other: Any) -> Any:
        return function(_settled(other), self.node.real)

    return method


for _name in ("add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "divmod"):
    setattr(Former, f"__{_name}__", _former(_name))
    setattr(Former, f"__r{_name}__", _former_reversed(_name))
for _name in (
    *("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "bool", "int", "round", "format", "trunc"),
    *("floor", "ceil"),
):
    setattr(Former, f"__{_name}__", _former(_name))
