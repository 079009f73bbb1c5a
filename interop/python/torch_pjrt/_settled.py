"""Plain numbers in the place of those that a trace follows, in everything of the function's that outlives the trace."""

from __future__ import annotations

import collections
import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ._changes import ORDER, changes
from ._floats import bound, peek
from ._lbfgs_state import Frozen
from ._names import is_users, slots_of
from ._sites import SCALARS
from ._state import Walk
from ._watched import Watch

_IDLE = (*SCALARS, Frozen, type, types.ModuleType, types.BuiltinFunctionType)


class _Settling:
    """Goes through what is new: what was there before is looked at where it has changed."""

    def __init__(self, before: Walk | None, number: Callable[[Any], Any] = bound, objects: bool = True) -> None:
        self._before, self._number, self._objects = before, number, objects
        self._seen: dict[int, Any] = {}
        self._waiting: list[Any] = []

    def value(self, v: Any) -> Any:
        """What takes the place of ``v``: itself, if it can be changed or holds no number."""
        out = self.item(v)
        while self._waiting:
            self.inside(self._waiting.pop())
        return out

    def item(self, v: Any) -> Any:
        number = self._number(v)
        if number is not v or isinstance(v, _IDLE):
            return number
        if isinstance(v, tuple | frozenset):
            return self._rebuilt(v)
        if id(v) not in self._seen and not (self._before is not None and self._before.knows(v)):
            self._seen[id(v)] = v
            self._waiting.append(v)
        return v

    def _rebuilt(self, v: Any) -> Any:
        old = list(v)
        new = list(map(self.item, old))
        if all(a is b for a, b in zip(old, new, strict=True)):
            return v
        base = tuple if isinstance(v, tuple) else frozenset
        made: Any = base.__new__(type(v), new)
        if type(v) is not base and hasattr(made, "__dict__"):
            made.__dict__.update(vars(v))
        return made

    def inside(self, v: Any) -> None:
        """Settles what is in ``v``, which keeps its identity and its order."""
        if isinstance(v, dict):
            self._dict(v)
        elif isinstance(v, list | collections.deque):
            for i, x in enumerate(list(v)):
                if (new := self.item(x)) is not x:
                    v[i] = new
        elif isinstance(v, set):
            for x in list(v):
                if (new := self.item(x)) is not x:
                    v.discard(x)
                    v.add(new)
        elif isinstance(v, types.CellType):
            try:
                v.cell_contents = self.item(v.cell_contents)
            except ValueError:  # an empty one
                return
        elif isinstance(v, types.FunctionType):
            for cell in v.__closure__ or ():
                self.item(cell)
            if (new := self.item(v.__defaults__)) is not v.__defaults__:
                v.__defaults__ = new
            for part in (v.__kwdefaults__, v.__dict__):
                self.item(part)
        elif isinstance(v, types.MethodType):
            self.item(v.__self__)
            self.item(v.__func__)
        elif isinstance(v, functools.partial):
            again: Any = v.__setstate__  # type: ignore[attr-defined]
            again((v.func, self.item(v.args), self.item(dict(v.keywords)), v.__dict__))
        elif isinstance(v, BaseException):
            v.args = self.item(v.args)
            for other in (v.__cause__, v.__context__):
                self.item(other)
        if isinstance(v, BaseException):
            self._dict(v.__dict__)
        elif self._objects and (isinstance(v, torch.Tensor) or is_users(v)):
            self._object(v)

    def _object(self, v: Any) -> None:
        if isinstance(held := getattr(v, "__dict__", None), dict):
            self._dict(held)
        for name in (s for c in type(v).__mro__ for s in slots_of(c)):
            held = getattr(v, name, None)
            if (new := self.item(held)) is not held:
                object.__setattr__(v, name, new)

    def _dict(self, d: dict[Any, Any]) -> None:
        base: Any = collections.OrderedDict if isinstance(d, collections.OrderedDict) else dict
        old = list(base.items(d))
        new = [(self.item(k), self.item(x)) for k, x in old]
        other_keys = any(k is not j for (k, _), (j, _) in zip(old, new, strict=True))
        if other_keys:
            base.clear(d)
        for (_, x), (k, y) in zip(old, new, strict=True):
            if other_keys or x is not y:
                base.__setitem__(d, k, y)


def settle(before: Walk) -> None:
    """Puts plain numbers into what the function changed, while the trace is there: the program is bound to them."""
    s = _Settling(before)
    for c in list(changes(before)):
        container = c.site.container
        if c.key is ORDER:
            s.inside(container)
        elif isinstance(container, Watch):
            if isinstance(target := container.target, set | collections.deque):
                s.inside(target)
            elif (new := s.value(c.after)) is not c.after:
                c.put(new)
        elif isinstance(container, dict) and s.item(c.key) is not c.key:
            s.inside(container)
        elif (new := s.value(c.after)) is not c.after:
            c.put(new)
        s.value(None)


def settle_result(out: Any) -> None:
    """The same for the keys of dicts that the function returns; numbers among its values are those of each call."""
    s = _Settling(None)
    for d in _dicts(out):
        if any(s.item(k) is not k for k in d):
            pairs = [(s.item(k), v) for k, v in d.items()]
            d.clear()
            d.update(pairs)


def _dicts(out: Any) -> list[dict[Any, Any]]:
    found: list[dict[Any, Any]] = []

    def look(x: Any) -> bool:
        if isinstance(x, dict):
            found.append(x)
        return False

    pytree.tree_flatten(out, is_leaf=look)
    return found


def settled(x: Any, before: Walk) -> Any:
    """A leaf of the result that is no number."""
    return _Settling(before).value(x)


def settle_error(error: BaseException, before: Walk) -> None:
    """The same for an exception, which binds nothing: there will be no program. What objects it holds are anybody's."""
    with contextlib.suppress(Exception):  # it must not take the place of the user's
        _Settling(before, peek, objects=False).value(error)


def holds_numbers(x: tuple[Any, ...], before: Walk) -> bool:
    """Whether a number is left in a tuple, when the trace is over; objects in it get plain ones."""
    return _Settling(before, peek).value(x) is not x
