"""The arguments of a jit call, taken apart: what is an input, what is part of the key, how the user calls it."""

from __future__ import annotations

import dataclasses
import inspect
import weakref
from typing import Any

import torch
from torch.utils import _pytree as pytree


class Static:
    """An argument that the caller declared static; compared by value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and bool(self.value == other.value)

    def __repr__(self) -> str:
        return repr(self.value)


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
    key: tuple[Any, ...]


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
        return list(inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn).parameters.values())
    except (TypeError, ValueError):
        return None


def leaf_paths(a: Arguments) -> list[Any]:
    """Where each leaf is. The leaves are their own: a dataclass may refuse to be made of others."""
    tree = pytree.tree_unflatten(a.leaves, a.spec)
    return [path for path, _ in pytree.tree_flatten_with_path(tree)[0]]


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
