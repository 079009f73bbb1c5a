"""Containers among the arguments that the function changes: ``batch.pop("labels")``, ``cache["k"] = k``.

The function gets containers of its own with the caller's items in them. What it leaves in them is a part of its result,
and each call puts it into those of the caller.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator
from typing import Any

from torch.utils import _pytree as pytree

from ._floats import bound
from ._jit_errors import error

_LISTS = (list, collections.deque)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)
Path = tuple[tuple[str, Any], ...]


class Edited:
    """A result, with what goes into containers of the caller's: ``values`` are new there, ``edits`` say where."""

    def __init__(self, out: Any, values: list[Any], edits: tuple[Any, ...]) -> None:
        self.out, self.values, self.edits = out, values, edits

    def given_to(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Changes the caller's containers; returns the result."""
        found = [(_at(path, args, kwargs), layout) for path, layout in self.edits]
        for container, contents in [(c, self._contents(c, layout)) for c, layout in found]:
            if type(container) in _LISTS:
                container.clear()
                container.extend(contents.values())
            elif type(container) in _DICTS:
                container.clear()
                container.update(contents)
            else:
                for name in vars(container).keys() - contents.keys():
                    object.__delattr__(container, name)
                for name, v in contents.items():
                    object.__setattr__(container, name, v)
        return self.out

    def _contents(self, container: Any, layout: tuple[Any, ...]) -> dict[Any, Any]:
        old = dict(_items(container))
        return {key: old[at] if kept else self.values[at] for key, kept, at in layout}


pytree.register_pytree_node(
    Edited,
    lambda e: ([e.out, *e.values], e.edits),
    lambda children, edits: Edited(next(it := iter(children)), list(it), edits),
)


class Given:
    """The containers that a function gets, with what is in them before."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], skip: set[Any]) -> None:
        tops: list[tuple[tuple[str, Any], Any]] = [(("arg", i), v) for i, v in enumerate(args) if i not in skip]
        tops += [(("name", k), v) for k, v in kwargs.items() if k not in skip]
        self._found = [c for step, v in tops for c in _containers(v, (step,))]
        self._before = [list(_items(c)) for _, c in self._found]

    def edited(self, out: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: str) -> Any:
        """The result of the function; as :class:`Edited` if it has changed any. The arguments are the caller's."""
        values: list[Any] = []
        edits = []
        for (path, container), before in zip(self._found, self._before, strict=True):
            now = list(_items(container))
            if len(now) == len(before) and all(k == j and v is w for (k, v), (j, w) in zip(now, before, strict=True)):
                continue
            theirs = _at(path, args, kwargs)
            if not _is_writable(theirs):
                kind = type(theirs).__name__
                raise _refused(f"an argument, a {kind}, is changed by the function, whose is another {kind}", place)
            if sum(_at(p, args, kwargs) is theirs for p, _ in self._found) > 1:
                raise _refused("an argument that is there twice is changed by the function, whose are two", place)
            old = {id(v): k for k, v in before}
            layout = []
            for k, v in now:
                key = bound(k)
                if id(v) in old:
                    layout.append((key, True, old[id(v)]))
                else:
                    layout.append((key, False, len(values)))
                    values.append(v)
            edits.append((path, tuple(layout)))
        return Edited(out, values, tuple(edits)) if edits else out


def _refused(what: str, place: str) -> Exception:
    return error(f"{what}. Way out: return what is new instead, or change it outside.", place)


def _is_writable(x: Any) -> bool:
    return type(x) in (*_LISTS, *_DICTS) or _is_dataclass(x)


def _is_dataclass(x: Any) -> bool:
    return dataclasses.is_dataclass(x) and not isinstance(x, type | dict) and hasattr(x, "__dict__")


def _items(x: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(x, dict):
        return iter(x.items())
    if type(x) in _LISTS or isinstance(x, tuple):
        return enumerate(x)
    if _is_dataclass(x):
        return iter(vars(x).items())
    return enumerate(pytree.SUPPORTED_NODES[type(x)].flatten_fn(x)[0])


def _containers(x: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The containers in an argument; what others hold is theirs."""
    if isinstance(x, tuple):
        for i, v in enumerate(x):
            yield from _containers(v, (*path, ("item", i)))
    elif type(x) in (*_LISTS, *_DICTS):
        yield path, x
        for k, v in _items(x):
            yield from _containers(v, (*path, ("item", k)))
    elif _is_dataclass(x):
        yield path, x
        for k, v in _items(x):
            yield from _containers(v, (*path, ("attribute", k)))
    elif type(x) in pytree.SUPPORTED_NODES:
        yield path, x


def _at(path: Path, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    (kind, key), *rest = path
    at: Any = args[key] if kind == "arg" else kwargs[key]
    for kind, key in rest:
        at = at[key] if kind == "item" else getattr(at, key)
    return at
