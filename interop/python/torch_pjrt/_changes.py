"""What a function changed in the containers that it reaches: found after the trace, repeated by calls, or undone."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any, NamedTuple

import torch

from ._jit_errors import error
from ._sites import NOTHING, SCALARS, Site, brief, is_pack, same
from ._state import Walk
from ._watched import is_file

_MISSING = NOTHING
ORDER: Any = "order"
"""Stands for a key where the order of a dict's keys is what changed."""
_ATTRIBUTES = ("__dict__", "._parameters", "._buffers", "._modules")


class Place(NamedTuple):
    """An attribute of an object, or an entry of a container."""

    container: Any
    is_attribute: bool
    key: Any

    def get(self) -> Any:
        return getattr(self.container, self.key) if self.is_attribute else self.container[self.key]

    def put(self, value: Any) -> None:
        if self.is_attribute:
            setattr(self.container, self.key, value)
        else:
            self.container[self.key] = value


class Change:
    """A place that holds something else after the function than before."""

    __slots__ = ("after", "before", "key", "site")

    def __init__(self, site: Site, key: Any, before: Any, after: Any) -> None:
        self.site, self.key, self.before, self.after = site, key, before, after

    @property
    def assigns_tensor(self) -> bool:
        """Whether a later call can repeat it: a tensor or None put where one of both was; or a tensor where a plain
        value was, as a loss where 0.0 was at first."""
        tensor_or_none = isinstance(self.after, torch.Tensor) or self.after is None
        plain = isinstance(self.before, SCALARS if isinstance(self.after, torch.Tensor) else type(None))
        return (
            tensor_or_none
            and (plain or isinstance(self.before, torch.Tensor) or self.before is _MISSING)
            and not (self.before is _MISSING and self.site.kind == "list")
            and self.site.kind != "tuple"
        )

    @property
    def assigns_tuple(self) -> bool:
        """The same for a tuple of tensors. Where those have a graph, somebody may ask for their gradients."""
        new = self.key is not ORDER and self.site.kind != "tuple" and is_pack(self.before) and is_pack(self.after)
        return new and not any(t.requires_grad for t in self.after)

    def path(self) -> str:
        if self.key is ORDER:
            return f"{self.site.path} (order)"
        return self.site.name(self.key)

    @property
    def place(self) -> Place:
        return Place(self.site.container, self.site.kind == "attr", self.key)

    def put(self, value: Any) -> None:
        """Puts ``value`` at the place; a tuple's cannot be written."""
        if self.site.kind != "tuple" and self.key is not ORDER:
            self.place.put(value)


def changes(before: Walk) -> Iterator[Change]:
    """What differs now in the containers of ``before``."""
    for site in before.sites:
        if _is_untouched(site):
            continue
        now = _contents(site)
        old = dict(zip(map(_key, site.keys), zip(site.keys, site.values, strict=True), strict=True))
        for k, (key, was) in old.items():
            after = now.pop(k, (key, _MISSING))[1]
            if after is not was and not same(was, after):
                yield Change(site, key, was, after)
        if site.kind not in ("names", "attr"):
            for key, after in now.values():
                yield Change(site, key, _MISSING, after)
        if _is_reordered(site):
            yield Change(site, ORDER, tuple(site.keys), tuple(site.container))


def _is_untouched(site: Site) -> bool:
    """Whether it is plain that nothing differs: without this, large containers take long."""
    c = site.container
    if type(c) is dict and site.kind == "dict":
        keys, values = c.keys(), c.values()
        return len(c) == len(site.keys) and all(map(is_, keys, site.keys)) and all(map(is_, values, site.values))
    if type(c) is list or type(c) is tuple:
        return len(c) == len(site.keys) and all(map(is_, c, site.values))
    return False


def _is_reordered(site: Site) -> bool:
    """Whether the keys of a dict are the same in another order. That of attributes is nobody's."""
    if site.kind != "dict" or site.path.endswith(_ATTRIBUTES):
        return False
    now = list(site.container)
    return len(now) == len(site.keys) and set(map(_key, now)) == set(map(_key, site.keys)) and now != site.keys


def stored(before: Walk) -> Iterator[tuple[Place, torch.Tensor]]:
    """Tensors with a graph that the function put somewhere: their gradients may be asked for, as those of results. And
    leaves that it made, which may receive some."""
    known = {id(t) for t, _, _ in before.tensors}
    for c in changes(before):
        t = c.after
        if not (c.assigns_tensor and isinstance(t, torch.Tensor)) or id(t) in known or t.layout != torch.strided:
            continue
        if t.requires_grad and c.place.key != "grad":
            yield c.place, t


def with_graph(before: Walk) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors with a graph that the function put into containers or objects, with the place of those."""
    known = {id(t) for t, _, _ in before.tensors}
    for c in changes(before):
        if c.after is _MISSING or c.assigns_tensor or c.assigns_tuple:
            continue
        for t in tensors_in([c])[0]:
            if t.grad_fn is not None and id(t) not in known:
                yield c.path(), t


def settle_renewed(before: Walk) -> None:
    """Puts empty containers back whose place another empty one took: such a change is none."""
    empty = {id(s.container): s for s in before.sites if s.kind in ("dict", "list") and not s.keys}
    for c in list(changes(before)):
        old = empty.get(id(c.before))
        if old is None or type(c.after) is not type(c.before) or c.after or c.site.kind == "tuple":
            continue
        old.container.clear()
        c.put(c.before)


def _key(k: Any) -> Any:
    return k if isinstance(k, str | int) else id(k)


def _contents(site: Site) -> dict[Any, tuple[Any, Any]]:
    c = site.container
    if site.kind == "dict":
        pairs = list(c.items())
    elif site.kind in ("list", "tuple"):
        pairs = list(enumerate(c))
    elif site.kind == "names":
        pairs = [(k, c[k]) for k in site.keys if k in c]
    else:
        pairs = [(k, _attribute(c, k)) for k in site.keys]
    return {_key(k): (k, v) for k, v in pairs}


def _attribute(c: Any, key: str) -> Any:
    try:
        return getattr(c, key, _MISSING)
    except ValueError:  # a cell that is empty
        return _MISSING


def undo(before: Walk) -> None:
    """Puts everything in the containers of ``before`` back."""
    for change in list(changes(before)):
        site, key, was = change.site, change.key, change.before
        c = site.container
        if key is ORDER:
            c.update({k: c.pop(k) for k in site.keys})
        elif site.kind in ("dict", "names"):
            if was is _MISSING:
                c.pop(key, None)
            else:
                c[key] = was
        elif site.kind == "list":
            c[:] = site.values
        elif site.kind == "attr" and was is not _MISSING:
            setattr(c, key, was)
        elif site.kind == "attr":
            delattr(c, key)


def tensors_in(lasting: list[Change]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The tensors of the device that changes have left behind, parts of sparse ones too; and those that are sparse."""
    w = Walk([])
    w.reads_all = True
    for c in lasting:
        if c.after is not _MISSING:
            w.root(c.after, c.path())
    return [t for t, _, _ in w.tensors], [k.tensor for k in w.sparse.values()]


def check_steady(
    lasting: list[Change], stored: list[str], files: list[str], unsteady: dict[str, int], place: str
) -> None:
    """A value that Python code changes at every call cannot be part of a program; a change that happens once can.
    ``stored`` are the places of numbers that the function changes and asks the value of, ``files`` what it reads and
    changes of the file system."""
    by_path: dict[str, Change | None] = dict.fromkeys([*stored, *files])
    for c in lasting:
        by_path[c.site.path if c.before is _MISSING and c.site.kind == "list" else c.path()] = c
    for path, change in by_path.items():
        unsteady[path] = unsteady.get(path, 0) + 1
        if unsteady[path] > 2:
            if path in files:
                raise error(
                    f"{path} is read and changed by the function at every call, which the program would not do. Way "
                    "out: do it outside the function, and pass what is read as an argument.",
                    place,
                )
            way = "make it a tensor on the device (a buffer, changed in place)"
            if change is not None and is_file(getattr(change.site.container, "target", None)):
                way = "read it outside and pass what was read as an argument"
            if change is not None and isinstance(change.after, tuple | list | dict):
                way = (
                    "give each tensor a place that stays (an attribute, an item: h[0] = ...) instead of a new container"
                )
            raise error(
                f"{path} is changed by the function at every call{_from_to(change)}, which the program would not do. "
                f"Way out: {way}, or change it outside the function.",
                place,
            )
    for path in [p for p in unsteady if p not in by_path]:
        del unsteady[path]


def _from_to(c: Change | None) -> str:
    if c is None:
        return " and its value asked for (by int(), %, a shape, an index, a text)"
    was = "nothing" if c.before is _MISSING else brief(c.before)
    now = "nothing" if c.after is _MISSING else brief(c.after)
    return f" (now from {was} to {now})"
