"""Containers and places that a walk lists, and when a value may take another's place there."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
from typing import Any, NamedTuple

import torch

from ._names import is_disguised, slots_of
from ._watched import Watch, is_readable

SCALARS = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, enum.Enum)
NOTHING: Any = object()
"""Among the values of a site: a name or attribute that is not there, which code may find there later."""
UNREAD: Any = object()
"""Among the items of a site: what the code cannot read."""


STAND_INS: dict[int, tuple[Any, Any]] = {}
"""Objects that are at another's place while some thread traces, with that one, by ``id``."""


def itself(v: Any) -> Any:
    """What is meant by ``v``, which may stand for something."""
    return STAND_INS[id(v)][1] if id(v) in STAND_INS else v


def same(a: Any, b: Any) -> bool:
    """Whether a value that is no container may take another's place without a new trace."""
    a, b = itself(a), itself(b)
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        if isinstance(a, (*SCALARS, frozenset)):
            return bool(a == b)
    except Exception:  # an object that raises whatever it is asked
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(x is y or same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, types.MethodType):
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    cls: type = type(a)
    names = _fields(cls)
    if names is None:
        return False
    parts = [(_held(a, name), _held(b, name)) for name in names]
    return _has_only(a, names) and _has_only(b, names) and all(_is_value(x) and same(x, y) for x, y in parts)


@functools.lru_cache(maxsize=4096)
def _fields(cls: type) -> frozenset[str] | None:
    """The fields of a frozen dataclass that is compared by them; ``None`` for any other class."""
    params = vars(cls).get("__dataclass_params__")
    if not getattr(params, "frozen", False) or not getattr(params, "eq", False):
        return None
    names = frozenset(f.name for f in dataclasses.fields(cls))
    return names if names.issuperset(s for c in cls.__mro__ for s in slots_of(c) if s != "__weakref__") else None


def _held(v: Any, name: str) -> Any:
    try:
        return object.__getattribute__(v, name)
    except AttributeError:
        return NOTHING


def _has_only(v: Any, names: frozenset[str]) -> bool:
    """Whether an object has no other attributes than these, as one that keeps what it computed would."""
    held = _held(v, "__dict__")
    return held is NOTHING or names.issuperset(held)


def _is_value(v: Any) -> bool:
    """Whether nothing in it can change."""
    if isinstance(v, tuple):
        return all(map(_is_value, v))
    cls: type = type(v)
    return isinstance(v, SCALARS) or _fields(cls) is not None


def is_pack(x: Any) -> bool:
    """Whether it is a tuple of dense tensors of the device: another such tuple may take its place."""
    return (
        type(x) is tuple
        and bool(x)
        and all(isinstance(t, torch.Tensor) and t.device.type == "pjrt" and t.layout is torch.strided for t in x)
    )


def brief(x: Any) -> str:
    """A value in a few words."""
    if is_disguised(x):
        return f"a {type(x).__name__}"
    if isinstance(x, torch.Tensor):
        return f"a {x.dtype} tensor of shape {tuple(x.shape)} on {x.device}"
    text = repr(x) if isinstance(x, SCALARS) else f"a {type(x).__name__}"
    return text if len(text) < 80 else text[:77] + "..."


class Site:
    """A container with what was in it. ``items`` are in the form that ``Entry`` takes."""

    __slots__ = ("container", "items", "keys", "kind", "owner", "path", "values")

    def __init__(self, kind: str, container: Any, keys: list[Any], values: list[Any], path: str) -> None:
        self.kind, self.container, self.keys, self.values, self.path = kind, container, keys, values, path
        self.items: list[Any] = []
        self.owner: type | None = None
        """The class whose attributes, or whose objects' attributes, these are, of which code reads what it names."""

    def row(self, used: set[int]) -> tuple[Any, ...]:
        """The site as a program guards it, which reads the cells ``used``: of a sparse tensor that it does not read
        the number of entries does not matter, nor does what the code cannot read."""
        items = [
            ("sparse", *(i[1:3] if i[4].in_use(used) else (None, None)), i[3], i[4].path)
            if type(i) is tuple and i[0] == "sparse"
            else i
            for i in self.items
        ]
        keys = self.keys
        if isinstance(self.container, Watch) and isinstance(self.container.target, set):
            return "set", self.container.target, [], items, self.path
        if isinstance(self.container, Watch) and is_readable(self.container.target):
            return "memory", self.container.target, [], [("bytes",)], self.path
        if self.kind == "attr" and any(i is UNREAD for i in items):
            keys = [k for k, i in zip(keys, items, strict=True) if i is not UNREAD]
            items = [i for i in items if i is not UNREAD]
        return self.kind, self.container, keys, [None if i is UNREAD else i for i in items], self.path

    def name(self, key: Any) -> str:
        """How a user would write the place of ``key``."""
        if self.kind == "attr":
            if isinstance(self.container, Watch):
                return f"{self.path}{key}" if key.startswith("[") else f"{self.path} ({key})"
            return self.path if key == "cell_contents" else f"{self.path}.{key}"
        if self.path.endswith(".__dict__"):
            return f"{self.path[:-9]}.{key}"
        for part in ("._parameters", "._buffers", "._modules"):
            if self.path.endswith(part):
                return f"{self.path[: -len(part)]}.{key}"
        if self.kind == "names":
            return str(key)
        parts = key if isinstance(key, tuple) else (key,)
        return f"{self.path}[{key!r}]" if all(isinstance(k, SCALARS) for k in parts) else f"{self.path}[...]"


class Number(NamedTuple):
    """A float that each call supplies, where it is found: in a container, or as argument number ``key``."""

    container: Any
    key: Any
    value: float
    path: str
    ours: bool
    """Whether an optimizer of torch.optim computes with it."""
    attr: bool = False
    """Whether ``key`` is an attribute of the container."""

    def whole_place(self) -> Number:
        """The place that holds it: that of the tuple, for a number in one."""
        return self._replace(key=self.key[0]) if isinstance(self.key, tuple) else self

    def get(self) -> Any:
        """What is at its place now; ``NOTHING`` if there is nothing."""
        if self.attr:
            return getattr(self.container, self.key, NOTHING)
        try:
            return self.container[self.key]
        except (KeyError, IndexError):
            return NOTHING

    def read(self) -> float:
        """Its value now."""
        whole = self.whole_place().get()
        return whole[self.key[1]] if isinstance(self.key, tuple) else whole  # type: ignore[no-any-return]

    def put(self, value: Any) -> None:
        if not self.attr:
            self.container[self.key] = value
            return
        try:
            setattr(self.container, self.key, value)
        except AttributeError:  # a frozen dataclass with slots
            object.__setattr__(self.container, self.key, value)
