"""A variable of a library: a place where code looks, and what is there."""

from __future__ import annotations

import collections
import types
from typing import Any

import torch

from ._sites import Site, same
from ._watched import Watch


class Missing:
    """Stands for what is nowhere."""


MISSING: Any = Missing()
CONTENT: Any = object()
"""Stands for a key where it is all of a container."""


def is_plain(v: Any, key: str) -> bool:
    """Whether an attribute is read without running code of Python: no property, and nothing like one."""
    cls = type(v)
    if not isinstance(_defined(cls, "__getattribute__"), types.WrapperDescriptorType):
        return False
    raw = _defined(cls, key)
    if isinstance(raw, types.MemberDescriptorType):
        try:
            raw.__get__(v, cls)
        except AttributeError:  # an empty slot
            return _defined(cls, "__getattr__") is MISSING
        return True
    if raw is MISSING:
        return _defined(cls, "__getattr__") is MISSING
    return _defined(type(raw), "__get__") is MISSING or isinstance(raw, types.GetSetDescriptorType)


def _defined(cls: type, key: str) -> Any:
    return next((vars(c)[key] for c in cls.__mro__ if key in vars(c)), MISSING)


class Place:
    """A variable, an attribute, or the content of a container, with what was there when it was last looked at."""

    __slots__ = ("container", "fills", "key", "kind", "ours", "path", "value")

    def __init__(self, kind: str, container: Any, key: Any, path: str, fills: bool = False) -> None:
        self.ours = type(container).__module__.startswith("torch_pjrt.")
        self.kind, self.container, self.key, self.path, self.fills = kind, container, key, path, fills
        self.value = self.now()

    def now(self) -> Any:
        """What is there. Whatever a look at it raises means that it is nothing."""
        try:
            return self._now()
        except Exception:  # a cell that nobody filled yet
            return {} if self.key is CONTENT else MISSING

    def _now(self) -> Any:
        c = self.container
        if self.key is CONTENT:
            if isinstance(c, Watch):
                return {k: getattr(c, k, None) for k in c.keys}
            # A class of a library's may do more than to look when its objects are read.
            if isinstance(c, collections.OrderedDict):
                return {k: dict.get(c, k) for k in collections.OrderedDict.__iter__(c)}
            return dict(dict.items(c) if isinstance(c, dict) else enumerate(list.__iter__(c)))
        if self.kind == "names":
            return dict.get(c, self.key, MISSING)
        return getattr(c, self.key) if self.ours or is_plain(c, self.key) else MISSING

    def differs(self, now: Any) -> bool:
        """Whether ``now`` is something else than what was there."""
        if self.key is not CONTENT:
            return _other(self.value, now)
        return len(self.value) != len(now) or any(_other(x, now.get(k, MISSING)) for k, x in self.value.items())

    def put_into(self, made: dict[Any, Site]) -> None:
        """Adds it to the sites, of which each container has one."""
        if self.key is CONTENT:
            keys = list(self.container.keys) if isinstance(self.container, Watch) else list(self.value)
            made[id(self.container), CONTENT] = site(
                self.kind, self.container, keys, list(self.value.values()), self.path
            )
        elif (known := made.get((self.kind, id(self.container)))) is None:
            made[self.kind, id(self.container)] = site(self.kind, self.container, [self.key], [self.value], self.path)
        else:
            known.keys.append(self.key)
            known.values.append(self.value)
            known.items.append(_item(self.value))


def _other(was: Any, now: Any) -> bool:
    try:
        return was is not now and not same(was, now)
    except Exception:  # of a comparison of the library's
        return True


def grew(was: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Whether a container has all that was in it, and more."""
    a, b = was.get("contents"), now.get("contents")
    if isinstance(a, frozenset) and isinstance(b, frozenset):
        return a < b
    return len(was) < len(now) and not any(_other(x, now.get(k, MISSING)) for k, x in was.items())


def _item(v: Any) -> Any:
    return ("host", v, v._version) if isinstance(v, torch.Tensor) and v.device.type == "cpu" else ("const", v)


def site(kind: str, container: Any, keys: list[Any], values: list[Any], path: str) -> Site:
    """A site whose items must be as they are."""
    made = Site(kind, container, keys, values, path)
    made.items = [_item(v) for v in values]
    return made
