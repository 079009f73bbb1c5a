"""Results that are no pytrees: objects that the function makes are made anew by each call, with the tensors of that
call; a container that was there before is returned itself."""

from __future__ import annotations

import array
import collections
import copy
import enum
import sys
import types
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ._flatten import flatten
from ._jit_errors import error
from ._names import is_users, is_users_class, slots_of
from ._state import Walk

_CONTAINERS = (list, dict)
_COPIED = (array.array, collections.Counter)
_CLOSED = (enum.Enum, torch.nn.Module, torch.optim.Optimizer, BaseException, type)


class Same:
    """Stands for a container that was there before."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it


class _Opened:
    """An object, as its class and what is in it."""

    def __init__(self, cls: type, names: tuple[str, ...], values: list[Any]) -> None:
        self.cls, self.names, self.values = cls, names, values


def _made(values: Any, context: tuple[type, tuple[str, ...]]) -> Any:
    cls, names = context
    if issubclass(cls, set):
        return cls(values)
    if cls is bytearray:
        return bytearray(*values)
    if _is_copied(cls):
        if type(values[0]) is not cls:  # a mark in its place
            raise TypeError(f"{values[0]!r} is no {cls.__name__}")
        return copy.copy(values[0])
    made = _new(cls)
    for name, v in zip(names, values, strict=True):
        if name in _slots(cls):
            object.__setattr__(made, name, v)
        else:
            made.__dict__[name] = v
    return made


def _is_copied(cls: type) -> bool:
    """Whether an object is made anew by copying it: NumPy's arrays, which need not be imported here, and the like."""
    numpy = sys.modules.get("numpy")
    return cls in _COPIED or (numpy is not None and issubclass(cls, numpy.ndarray))


def _new(cls: type) -> Any:
    """An object of a class without what the class does to make one."""
    maker: Any = types.SimpleNamespace if issubclass(cls, types.SimpleNamespace) else object
    return maker.__new__(cls)


def _slots(cls: type) -> list[str]:
    return [s for c in cls.__mro__ for s in slots_of(c) if s not in ("__dict__", "__weakref__")]


pytree.register_pytree_node(_Opened, lambda o: (o.values, (o.cls, o.names)), _made)


def opened(out: Any, before: Walk, place: str) -> Any:
    """The result of a function that found ``before``. Refuses objects that cannot be made anew."""
    flatten(out)  # makes its dataclasses known
    leaves, spec = pytree.tree_flatten(out, is_leaf=lambda x: isinstance(x, _CONTAINERS) and before.knows(x))
    now = [_open(x, before, place, ()) for x in leaves]
    if all(a is b for a, b in zip(leaves, now, strict=True)):
        return out
    return pytree.tree_unflatten(now, spec)


def _open(x: Any, before: Walk, place: str, within: tuple[int, ...]) -> Any:
    if isinstance(x, torch.Tensor):
        return x
    if before.knows(x):
        return Same(x) if isinstance(x, _CONTAINERS) else x
    if type(x) in (set, bytearray):
        return _Opened(type(x), (), [bytes(x)] if type(x) is bytearray else list(x))
    if _is_copied(type(x)):
        return _Opened(type(x), (), [x])
    if isinstance(x, _CLOSED) or not is_users(x):
        return x
    inner = {**getattr(x, "__dict__", {}), **{n: getattr(x, n) for n in _slots(type(x)) if hasattr(x, n)}}
    if id(x) in within:
        raise _closed(x, place)
    values, holds = [], False
    for v in inner.values():
        parts, spec = flatten(v)
        now = [_open(p, before, place, (*within, id(x))) for p in parts]
        holds = holds or any(isinstance(n, torch.Tensor | _Opened) for n in now)
        values.append(pytree.tree_unflatten(now, spec))
    if not (holds or is_users_class(type(x)) or type(x) is types.SimpleNamespace):
        return x
    if _can_be_made(type(x)):
        return _Opened(type(x), tuple(inner), values)
    if holds:
        raise _closed(x, place)
    return x


def _closed(x: Any, place: str) -> Exception:
    return error(
        f"it returned a {type(x).__name__}, an object that cannot be made anew at each call with the tensors in it. "
        "Way out: return the tensors, or a dataclass.",
        place,
    )


def _can_be_made(cls: type) -> bool:
    """Whether its objects are what is in their attributes."""
    try:
        _new(cls)
    except TypeError:
        return False
    return True
