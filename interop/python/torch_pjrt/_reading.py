"""Finds what code reads in libraries by name: in the modules that it is of, and in what it finds there."""

from __future__ import annotations

import contextlib
import contextvars
import dis
import enum
import functools
import gc
import logging
import operator
import os
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ._closures import changing, inner
from ._names import PLUMBING, functions_of, is_foreign, is_users_module, slots_of
from ._sites import SCALARS
from ._variable import CONTENT, MISSING, Missing, Place, is_plain
from ._watched import watch

# What nobody replaces by another that would compute something else, or that is nowhere.
_IDLE = (types.ModuleType, logging.Logger, Missing)
# What torch's own machinery of symbols is made of.
_TORCHS = ("sympy", "mpmath")
_FILLING = {dis.opmap["STORE_SUBSCR"], dis.opmap["DELETE_SUBSCR"]}
_FILLERS = {"setdefault", "update", "pop", "popitem", "append", "extend", "insert", "add", "move_to_end", "clear"}
_Scope = dict[str, Any]


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


def held_by(cls: type) -> Any:
    """The dict of a class itself: a look into it costs less than at an attribute, and shows what is there as it is."""
    return gc.get_referents(vars(cls))[0]


_UNSET: Any = object()
"""Stands for the value of a context variable that has none, which another may be set for."""


class _Context:
    """A context variable as an object with an attribute, which no code of Python reads: that would take longer."""

    __slots__ = ("get",)
    value = property(operator.methodcaller("get", _UNSET))

    def __init__(self, v: contextvars.ContextVar[Any]) -> None:
        self.get = v.get


_context = functools.lru_cache(maxsize=256)(_Context)


def _content_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nobody filled it yet
        return None


class Reader:
    """Finds the places that code reads."""

    def __init__(self, own: Iterable[tuple[int, Any]]) -> None:
        self.places: dict[tuple[int, Any], Place] = {}
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
            if is_foreign(m) and m.__name__.partition(".")[0] not in _TORCHS:
                self._waiting.append((code, vars(m)))
            elif m.__name__.startswith("torch.") and "._" not in m.__name__ and not m.__name__.startswith("torch.fx"):
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
                if name in scope and not name.startswith("__"):
                    self._place("names", scope, name, str(scope.get("__name__")), _fills(code))
        while self._objects or self._classes:
            while self._objects:
                with contextlib.suppress(Exception):
                    self._object(*self._objects.pop())
            while self._classes:
                self._class(self._classes.pop())

    def is_idle(self, v: Any) -> bool:
        """Whether another in the place of ``v`` would compute nothing else: what did not run, is nowhere, or only says
        something; or raises when it is looked at."""
        try:
            return self._idle(v)
        except Exception:
            return True

    def _idle(self, v: Any) -> bool:
        if isinstance(v, types.FunctionType):
            return not self._has_run(v)
        if isinstance(v, type):
            if not is_foreign(v):
                return not issubclass(v, torch.nn.Module)
            named = (
                k in self.names or any(map(self._has_run, functions_of(r)))
                for c in v.__mro__
                for k, r in vars(c).items()
            )
            return not any(named)
        return isinstance(v, _IDLE)

    def _has_run(self, f: types.FunctionType) -> bool:
        inner = getattr(f, "__wrapped__", None)
        return id(f.__code__) in self._ran and (not isinstance(inner, types.FunctionType) or self._has_run(inner))

    def _settings(self, code: types.CodeType, m: types.ModuleType) -> None:
        """Plain variables of torch's public modules, and what distributions have instead of one."""
        scope = vars(m)
        if "_validate_args" in code.co_names:
            self._place("attr", torch.distributions.Distribution, "_validate_args", "Distribution")
        for name in code.co_names:
            if isinstance(scope.get(name, MISSING), SCALARS) and not name.startswith("__"):
                self._place("names", scope, name, m.__name__)

    def _modules_in(self, code: types.CodeType, scope: _Scope, users: bool) -> None:
        """What code reads of modules that it names, or imports as it runs. What the user's reads of torch is listed
        elsewhere."""
        self._entered.clear()
        for name in (*code.co_names, *code.co_freevars):
            v = scope.get(name, MISSING)
            for m in (v,) if v is not MISSING else _imported(name, scope) if _imports(code) else ():
                if issubclass(type(m), types.ModuleType):  # what an object says of its class may be no class
                    self._module(m, code, users)

    def _module(self, m: types.ModuleType, code: types.CodeType, users: bool) -> None:
        if m in self._entered or is_users_module(m) or (users and not is_foreign(m)):
            return
        self._entered.add(m)
        scope, loud = vars(m), is_foreign(m)
        for name in code.co_names:
            v = scope.get(name, MISSING)
            if v is MISSING or name.startswith("__"):
                continue
            if issubclass(type(v), types.ModuleType):
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
        place = self.places[at] = Place(kind, container, key, path, fills)
        if deep:
            self._value(place.value, f"{path}.{key}", fills)

    def _value(self, v: Any, path: str, fills: bool) -> None:
        """What is in a value, where that can change. A stand-in of a library's for another may raise when it is looked
        at (``isinstance``): there is nothing in it."""
        with contextlib.suppress(Exception):
            self._inside(v, path, fills)

    def _inside(self, v: Any, path: str, fills: bool) -> None:
        if isinstance(v, (*SCALARS, torch.Tensor, types.ModuleType)) or id(v) in self._seen:
            return
        self._seen.add(id(v))
        self._alive.append(v)
        if isinstance(v, dict | list):
            self._content(v, path, fills)
        elif isinstance(v, tuple):
            for i, x in enumerate(v):
                self._value(x, f"{path}[{i}]", fills)
        elif isinstance(v, contextvars.ContextVar):
            self._place("attr", _context(v), "value", path)
        elif (watched := watch(v)) is not None:
            self._alive.append(watched)
            self.places[id(v), CONTENT] = Place("attr", watched, CONTENT, path, fills)
        elif isinstance(v, types.FunctionType):
            if self._has_run(v):
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
        place = self.places[id(v), CONTENT] = Place(kind, v, CONTENT, path, fills)
        for k, x in place.value.items():
            if kind == "dict" and (id(v), CONTENT) in self._own:
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
                if is_plain(v, s) and hasattr(v, s):
                    self._place("attr", v, s, path)
        for c in type(v).__mro__:
            if is_foreign(c):
                # An object may get an attribute of its own in the place of its class's.
                for key in self.names.intersection(vars(c)):
                    if key not in PLUMBING and is_plain(v, key):
                        self._place("attr", v, key, path)
        self._classes.append(type(v))

    def _class(self, cls: type) -> None:
        """What a class of a library defines: methods that ran, and data that code which ran names."""
        for c in cls.__mro__:
            if c in self._read or not is_foreign(c) or issubclass(c, enum.Enum):
                continue
            self._read.add(c)
            held = held_by(c)
            for key, raw in list(vars(c).items()):
                functions = functions_of(raw)
                ran = any(map(self._has_run, functions))
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
