"""Variables of libraries: what the code that ran in a trace reads by name, however deep in a library it is.

They are looked up when the trace has ended, and hold for the program as they are then. What a library changes itself (a
count, a cache) would cost a trace whenever it does so: what changes during a trace is not watched by the next one.
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import gc
import logging
import os
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from ._closures import changing, inner
from ._names import PLUMBING, functions_of, is_foreign, is_users_module, slots_of
from ._ran import Ran, Unrecorded
from ._settings import asked
from ._sites import SCALARS, Site, same
from ._watched import Watch, watch

if TYPE_CHECKING:
    from ._state import Walk


class Missing:
    """Stands for what is nowhere."""


_MISSING: Any = Missing()
_CONTENT: Any = object()
"""Stands for a key where it is all of a container."""
# Containers with more items are taken to be data, which nobody replaces piece by piece.
_LARGEST = 4096
# What nobody replaces by another that would compute something else, or that is nowhere.
_IDLE = (types.ModuleType, logging.Logger, Missing)
_FILLING = {dis.opmap["STORE_SUBSCR"], dis.opmap["DELETE_SUBSCR"]}
_FILLERS = {"setdefault", "update", "pop", "popitem", "append", "extend", "insert", "add", "move_to_end", "clear"}
# So often a container may have grown between traces before it is taken for a cache.
_PATIENCE = 2
_Scope = dict[str, Any]


class Variables:
    """Those that one jit function was seen to read."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Any], _Place] = {}
        self._own: dict[tuple[int, Any], _Place] = {}
        """Those that change by themselves."""
        self._grown: dict[tuple[int, Any], int] = {}
        self._ran = Ran()

    def followed(self) -> Ran:
        """Inside, it is seen what runs."""
        for at, p in self._known.items():
            now = p.now()
            if p.key is _CONTENT and p.fills and _grew(p.value, now):
                self._grown[at] = self._grown.get(at, 0) + 1
                if self._grown[at] > _PATIENCE:
                    self._own[at] = p
            p.value = now
        self._ran = Ran()
        return self._ran

    def sites(self, before: Walk) -> list[Site]:
        """What a program must find as it is, beside what ``before`` lists."""
        for at, p in self._known.items():
            if p.differs(p.now()):
                self._own[at] = p
        reader = _Reader(self._own)
        reader.read(self._ran.codes, before.libraries.functions, {type(v) for v, _ in before.objects})
        self._known.update(reader.places)
        here = {(id(s.container), k) for s in before.sites if s.kind == "names" for k in s.keys}
        here |= {(id(s.container), _CONTENT) for s in before.sites if s.kind in ("dict", "list")}
        made: dict[Any, Site] = {}
        for at, p in reader.places.items():
            if at not in self._own and at not in here and p.value is not _MISSING:
                p.put_into(made)
        if not self._ran.complete:
            made[None] = _site("attr", Unrecorded(), ["active"], [True], "profiler")
        return [*made.values(), *asked(before.names | reader.names)]


class _Place:
    """A variable, an attribute, or the content of a container, with what was there when it was last looked at."""

    __slots__ = ("container", "fills", "key", "kind", "path", "value")

    def __init__(self, kind: str, container: Any, key: Any, path: str, fills: bool = False) -> None:
        self.kind, self.container, self.key, self.path, self.fills = kind, container, key, path, fills
        self.value = self.now()

    def now(self) -> Any:
        """What is there."""
        c = self.container
        if self.key is _CONTENT:
            if isinstance(c, Watch):
                return {k: getattr(c, k, None) for k in c.keys}
            # A class of a library's may do more than to look when its objects are read.
            if isinstance(c, collections.OrderedDict):
                return {k: dict.get(c, k) for k in collections.OrderedDict.__iter__(c)}
            return dict(dict.items(c) if isinstance(c, dict) else enumerate(list.__iter__(c)))
        try:
            return dict.get(c, self.key, _MISSING) if self.kind == "names" else getattr(c, self.key)
        except (AttributeError, ValueError):  # a cell that nobody filled yet
            return _MISSING

    def differs(self, now: Any) -> bool:
        """Whether ``now`` is something else than what was there."""
        if self.key is not _CONTENT:
            return _other(self.value, now)
        return len(self.value) != len(now) or any(_other(x, now.get(k, _MISSING)) for k, x in self.value.items())

    def put_into(self, made: dict[Any, Site]) -> None:
        """Adds it to the sites, of which each container has one."""
        if self.key is _CONTENT:
            keys = list(self.container.keys) if isinstance(self.container, Watch) else list(self.value)
            made[id(self.container), _CONTENT] = _site(
                self.kind, self.container, keys, list(self.value.values()), self.path
            )
        elif (site := made.get((self.kind, id(self.container)))) is None:
            made[self.kind, id(self.container)] = _site(self.kind, self.container, [self.key], [self.value], self.path)
        else:
            site.keys.append(self.key)
            site.values.append(self.value)
            site.items.append(_item(self.value))


def _other(was: Any, now: Any) -> bool:
    return was is not now and not same(was, now)


def _grew(was: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Whether a container has all that was in it, and more."""
    if "contents" in was:
        a, b = was["contents"], now["contents"]
        return isinstance(a, frozenset) and a < b
    return len(was) < len(now) and not any(_other(x, now.get(k, _MISSING)) for k, x in was.items())


def _item(v: Any) -> Any:
    return ("host", v, v._version) if isinstance(v, torch.Tensor) and v.device.type == "cpu" else ("const", v)


def _site(kind: str, container: Any, keys: list[Any], values: list[Any], path: str) -> Site:
    site = Site(kind, container, keys, values, path)
    site.items = [_item(v) for v in values]
    return site


@functools.lru_cache(maxsize=4096)
def _fills(code: types.CodeType) -> bool:
    """Whether code puts entries into some container."""
    return not _FILLERS.isdisjoint(code.co_names) or not _FILLING.isdisjoint(code.co_code[::2])


@functools.lru_cache(maxsize=4096)
def _imports(code: types.CodeType) -> bool:
    return dis.opmap["IMPORT_NAME"] in code.co_code[::2]


class _Files:
    """Which modules were loaded from which file: one, but for modules that were imported anew."""

    def __init__(self) -> None:
        self._modules: dict[str, list[types.ModuleType]] = {}
        self._missing: set[str] = set()
        self._loaded = 0

    def of(self, codes: Iterable[types.CodeType]) -> Iterator[tuple[types.CodeType, types.ModuleType]]:
        """Code with the module that it is of, where there is one."""
        looked = False
        for code in codes:
            found = self._modules.get(code.co_filename, [])
            gone = bool(found) and sys.modules.get(found[-1].__name__) is not found[-1]
            known = bool(found) or (code.co_filename in self._missing and self._loaded == len(sys.modules))
            if not looked and (gone or not known):
                looked = True
                self._look()
                found = self._modules.get(code.co_filename, [])
                if not found:
                    self._missing.add(code.co_filename)
            for m in found:
                yield code, m

    def _look(self) -> None:
        self._loaded = len(sys.modules)
        for m in list(sys.modules.values()):
            if isinstance(m, types.ModuleType) and isinstance(file := vars(m).get("__file__"), str):
                known = self._modules.setdefault(file, [])
                if all(k is not m for k in known):
                    known.append(m)


_files = _Files()


def _content_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nobody filled it yet
        return None


class _Reader:
    """Finds the places that code reads."""

    def __init__(self, own: Iterable[tuple[int, Any]]) -> None:
        self.places: dict[tuple[int, Any], _Place] = {}
        self._own = own
        self._ran: set[int] = set()
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        self._waiting: list[tuple[types.CodeType, _Scope]] = []
        self._entered: set[types.ModuleType] = set()
        self._objects: list[tuple[Any, str]] = []
        self._classes: list[type] = []
        self._read: set[type] = set()

    def read(
        self, codes: list[types.CodeType], users: Iterable[tuple[types.CodeType, _Scope]], classes: Iterable[type]
    ) -> None:
        """All that ``codes``, which ran, read in libraries, and that the ``users`` functions read there. ``classes``
        are those of objects that the user has."""
        self._classes += classes
        self._ran = {id(c) for c in codes}
        for code, m in _files.of(codes):
            if is_users_module(m):
                continue
            if is_foreign(m):
                self._waiting.append((code, vars(m)))
            elif m.__name__.startswith("torch."):
                self._settings(code, m)
        for outer, scope in users:
            for code in inner(outer):
                self.names.update(code.co_names)
                self._modules_in(code, scope, True)
        while self._waiting:
            code, scope = self._waiting.pop()
            self.names.update(code.co_names)
            self._modules_in(code, scope, False)
            for name in code.co_names:
                if not isinstance(scope.get(name, _MISSING), _IDLE) and not name.startswith("__"):
                    self._place("names", scope, name, str(scope.get("__name__")), _fills(code))
        while self._objects or self._classes:
            while self._objects:
                self._object(*self._objects.pop())
            while self._classes:
                self._class(self._classes.pop())

    def _settings(self, code: types.CodeType, m: types.ModuleType) -> None:
        """Plain variables of torch's own modules, and what distributions have instead of one."""
        scope = vars(m)
        if "_validate_args" in code.co_names:
            self._place("attr", torch.distributions.Distribution, "_validate_args", "Distribution")
        for name in code.co_names:
            if isinstance(scope.get(name, _MISSING), SCALARS) and not name.startswith("__"):
                self._place("names", scope, name, m.__name__)

    def _modules_in(self, code: types.CodeType, scope: _Scope, users: bool) -> None:
        """What code reads of modules that it names, or imports as it runs. What the user's reads of torch is listed
        elsewhere."""
        self._entered.clear()
        for name in (*code.co_names, *code.co_freevars):
            v = scope.get(name, _MISSING)
            for m in (v,) if v is not _MISSING else _imported(name, scope) if _imports(code) else ():
                if isinstance(m, types.ModuleType):
                    self._module(m, code, users)

    def _module(self, m: types.ModuleType, code: types.CodeType, users: bool) -> None:
        if m in self._entered or is_users_module(m) or (users and not is_foreign(m)):
            return
        self._entered.add(m)
        scope, loud = vars(m), is_foreign(m)
        for name in code.co_names:
            v = scope.get(name, _MISSING)
            if v is _MISSING or name.startswith("__"):
                continue
            if isinstance(v, types.ModuleType):
                self._module(v, code, users)
            elif loud or callable(v):
                self._place("names", scope, name, m.__name__, _fills(code), loud)
            if v is os.environ or v is os.getenv:
                self._value(getattr(os.environ, "_data", None), "os.environ", False)

    def _place(self, kind: str, container: Any, key: Any, path: str, fills: bool = False, deep: bool = True) -> None:
        """A place, and with ``deep`` what is in what is there."""
        at = id(container), key
        if at in self.places:
            self.places[at].fills |= fills
            return
        place = self.places[at] = _Place(kind, container, key, path, fills)
        if deep:
            self._value(place.value, f"{path}.{key}", fills)

    def _value(self, v: Any, path: str, fills: bool) -> None:
        """What is in a value, where that can change."""
        if isinstance(v, (*SCALARS, torch.Tensor, types.ModuleType)) or id(v) in self._seen:
            return
        self._seen.add(id(v))
        self._alive.append(v)
        if isinstance(v, dict | list):
            if len(v) <= _LARGEST:
                self._content(v, path, fills)
        elif isinstance(v, tuple):
            for i, x in enumerate(v[:_LARGEST]):
                self._value(x, f"{path}[{i}]", fills)
        elif (watched := watch(v)) is not None:
            self._alive.append(watched)
            self.places[id(v), _CONTENT] = _Place("attr", watched, _CONTENT, path, fills)
        elif isinstance(v, types.FunctionType):
            if id(v.__code__) in self._ran:
                watched_too = changing(v) if v.__closure__ else ()
                for name, cell in zip(v.__code__.co_freevars, v.__closure__ or (), strict=False):
                    if name in watched_too:
                        self._place("attr", cell, "cell_contents", name)
                    else:
                        self._value(_content_of(cell), name, fills)
        elif isinstance(v, functools.partial):
            self._value(v.func, path, fills)
        elif type(v).__name__ == "_lru_cache_wrapper":
            # Its code does not run where it is known what it gives.
            if isinstance(f := v.__wrapped__, types.FunctionType) and is_foreign(f):
                self._waiting.append((f.__code__, f.__globals__))
        elif isinstance(v, threading.local):
            for key in list(v.__dict__):
                self._place("attr", v, key, path)
        elif isinstance(v, type):
            self._classes.append(v)
        if is_foreign(type(v)) and not isinstance(v, type | types.FunctionType):
            self._objects.append((v, path))

    def _content(self, v: Any, path: str, fills: bool) -> None:
        kind = "dict" if isinstance(v, dict) else "list"
        place = self.places[id(v), _CONTENT] = _Place(kind, v, _CONTENT, path, fills)
        for k, x in place.value.items():
            if kind == "dict" and (id(v), _CONTENT) in self._own:
                self._place("names", v, k, path, fills)
            else:
                self._value(x, f"{path}[{k!r}]", fills)

    def _object(self, v: Any, path: str) -> None:
        """Attributes that code which ran names."""
        held = getattr(v, "__dict__", None)
        if isinstance(held, dict):
            for key in self.names.intersection(held):
                self._place("names", held, key, path)
        for c in type(v).__mro__:
            for s in self.names.intersection(slots_of(c)):
                if hasattr(v, s):
                    self._place("attr", v, s, path)
        for c in type(v).__mro__:
            if is_foreign(c):
                # An object may get an attribute of its own in the place of its class's.
                for key in self.names.intersection(vars(c)):
                    if key not in PLUMBING and not hasattr(vars(c)[key], "__get__"):
                        self._place("attr", v, key, path)
        self._classes.append(type(v))

    def _class(self, cls: type) -> None:
        """What a class of a library defines: methods that ran, and data that code which ran names."""
        for c in cls.__mro__:
            if c in self._read or not is_foreign(c) or issubclass(c, enum.Enum):
                continue
            self._read.add(c)
            # The dict itself, whose look-up costs less than that of an attribute, and which has what it has as it is.
            (held,) = gc.get_referents(vars(c))
            for key, raw in list(vars(c).items()):
                functions = functions_of(raw)
                ran = any(id(f.__code__) in self._ran for f in functions)
                if ran or (not functions and key in self.names and key not in PLUMBING):
                    if functions or not hasattr(raw, "__get__"):
                        self._place("names", held, key, c.__name__)
                    for f in functions:
                        self._value(f, c.__name__, False)


def _imported(name: str, scope: _Scope) -> Iterator[Any]:
    """What an import inside a function finds, also a relative one."""
    if name in sys.modules:
        yield sys.modules[name]
    package = scope.get("__package__") or ""
    while package:
        if (m := sys.modules.get(f"{package}.{name}")) is not None:
            yield m
        package = package.rpartition(".")[0]
