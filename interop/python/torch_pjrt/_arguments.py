"""The arguments of a jit call, taken apart: what is an input, what is part of the key, how the user calls it."""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ._methods import underlying
from ._sites import brief


class Static:
    """An argument that the caller declared static; compared by value, where 1, 1.0 and True are three values."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any, name: str) -> None:
        self.value = value
        problem = _not_static(value)
        if problem is None:
            try:
                self._hash = _hash(value)
            except TypeError:
                problem = f"{brief(value)} has no hash, as what changes in place has none"
        if problem is not None:
            raise TypeError(
                f"jit: static argument {name}: {problem}; expected a number, a string, a tuple of them or another "
                "object with a hash. Way out: pass tuple(...) or a frozen dataclass, or do not declare it static"
            )

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and _same(self.value, other.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def itself(self) -> list[Any]:
        """Those objects of the value that are equal to nothing but themselves, so that what is in them may change."""
        found: list[Any] = []

        def look(v: Any) -> None:
            if type(v) is tuple:
                for x in v:
                    look(x)
            elif isinstance(v, types.MethodType) or "__eq__" not in _defined(type(v)):
                found.append(v)

        look(self.value)
        return found


def _defined(cls: type) -> set[str]:
    return {name for c in cls.__mro__ if c is not object for name in vars(c)}


def _not_static(v: Any) -> str | None:
    if isinstance(v, torch.Tensor):
        return "a tensor, whose values may change"
    return next(filter(None, map(_not_static, v)), None) if isinstance(v, tuple) else None


def _hash(v: Any) -> int:
    if isinstance(v, tuple):
        return hash(tuple(map(_hash, v)))
    # The hash of NaN is that of the object.
    return 0 if isinstance(v, float) and v != v else hash(v)


def _same(a: Any, b: Any) -> bool:
    """Whether code that computes with ``a`` does the same with ``b``."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, complex):
        return _same(a.real, b.real) and _same(a.imag, b.imag)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if dataclasses.is_dataclass(a) and not all(
        _same(getattr(a, f.name, None), getattr(b, f.name, None)) for f in dataclasses.fields(a) if f.compare
    ):
        return False
    return bool(a == b)


_VALUES = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    torch.dtype,
    torch.device,
    torch.Size,
    torch.memory_format,
    Static,
)


class _Identity:
    """An argument that is told apart by what it is, not by its value."""

    __slots__ = ("__weakref__", "_hash", "ref", "strong")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        self.strong: Any = None
        self.ref: Any
        try:
            self.ref = weakref.ref(value)
        except TypeError:
            self.strong, self.ref = value, lambda: self.strong

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return False
        a = self.ref()
        return a is not None and a is other.ref()

    def __repr__(self) -> str:
        value = self.ref()
        return f"the {type(value).__name__} object at {self._hash:#x}"


@dataclasses.dataclass
class Arguments:
    """Arguments of a call, taken apart."""

    leaves: list[Any]
    spec: Any
    tensors: list[torch.Tensor]
    places: list[int]
    floats: list[float]
    hosts: set[int]
    """Places of tensors that the caller has on the CPU."""
    key: tuple[Any, ...]
    given: tuple[tuple[Any, ...], dict[str, Any]]
    """As the caller passes them."""


def describe(leaf: Any) -> Any:
    """What of a leaf is part of the key."""
    if isinstance(leaf, torch.Tensor):
        return ("tensor", leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.storage_offset(), leaf.requires_grad)
    if type(leaf) is float:
        return ("number",)
    if isinstance(leaf, _VALUES):
        return (type(leaf), leaf)
    return _Identity(leaf)


def leaf_difference(now: Any, was: Any) -> str:
    if isinstance(now, tuple) and isinstance(was, tuple) and now[0] == was[0] == "tensor":
        for name, n, w in zip(("dtype", "shape", "strides", "offset", "requires_grad"), now[1:], was[1:], strict=True):
            if n != w:
                return f"{name} {n}, was {w}"

    def show(x: Any) -> str:
        if not isinstance(x, tuple):
            return repr(x)
        return "a float" if x == ("number",) else f"a {x[0]}" if x[0] == "tensor" else repr(x[1])

    return f"{show(now)}, was {show(was)}"


def parameters_of(fn: Any) -> list[inspect.Parameter] | None:
    """The parameters of a function, or of a module's ``forward``; ``None`` where Python does not know them."""
    try:
        fn = underlying(fn.forward if isinstance(fn, torch.nn.Module) else fn)
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return None


def static_parameters(numbers: Any, names: Any, fn: Any) -> tuple[frozenset[int], frozenset[str]]:
    """Static arguments by index, counted from the first parameter, and by name: each parameter that a caller can give
    in both ways is in both."""
    known = parameters_of(fn) or []
    many = not known or any(p.kind is p.VAR_POSITIONAL for p in known)
    positional = [p for p in known if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    count = len(positional)
    expected = f"one of the parameters ({', '.join(p.name for p in known)}) of {_name(fn)}"
    found, named = set(), set()
    for n in numbers:
        if type(n) is not int or (n < 0 and many) or not -count <= n < (count if not many else n + 1):
            raise ValueError(f"jit: argument `static_argnums`: got {n!r}, expected the index of {expected}")
        found.add(n % count if n < 0 else n)
    free = not known or any(p.kind is p.VAR_KEYWORD for p in known)
    for name in names:
        if not isinstance(name, str) or not (free or any(p.name == name for p in known)):
            raise ValueError(f"jit: argument `static_argnames`: got {name!r}, expected the name of {expected}")
        named.add(name)
    for i, p in enumerate(positional):
        if p.kind is p.POSITIONAL_OR_KEYWORD and (i in found or p.name in named):
            found.add(i)
            named.add(p.name)
    return frozenset(found), frozenset(named)


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def leaf_paths(a: Arguments) -> list[Any]:
    """Where each leaf is. The leaves are their own: a dataclass may refuse to be made of others."""
    tree = pytree.tree_unflatten(a.leaves, a.spec)
    try:
        return [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]
    except ValueError:  # nodes of the user's that do not name their children
        return list(_paths(tree, ()))


def _paths(x: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    children = pytree.tree_flatten(x, is_leaf=lambda y: y is not x)[0]
    if len(children) == 1 and children[0] is x:
        yield path
        return
    keys: list[Any] = [pytree.SequenceKey(i) for i in range(len(children))]
    if type(x) is dict:
        keys = [pytree.MappingKey(k) for k in x]
    for key, child in zip(keys, children, strict=True):
        yield from _paths(child, (*path, key))


def leaf_names(a: Arguments, fn: Any) -> list[str]:
    parameters = [p.name for p in parameters_of(fn) or ()]
    names = [""] * len(a.leaves)
    for i, path in enumerate(leaf_paths(a)):
        text = pytree.keystr(path)
        inner = pytree.keystr(path[2:])
        if len(path) > 1 and text.startswith("[0]"):
            k = path[1].idx  # type: ignore[attr-defined]
            head = parameters[k] if k < len(parameters) else f"args[{k}]"
            names[i] = head + inner
        elif len(path) > 1:
            names[i] = str(path[1].key) + inner  # type: ignore[attr-defined]
    return names
