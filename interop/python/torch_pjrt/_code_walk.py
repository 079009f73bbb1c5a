"""What the code of functions and classes can reach: closures, and the globals and attributes that it names."""

from __future__ import annotations

import builtins
import contextlib
import enum
import os
import re
import sys
import types
from collections.abc import Set
from typing import Any

import torch

from ._libraries import Libraries
from ._names import (
    UNNAMED,
    attributes_of,
    doubtful,
    functions_of,
    globals_of,
    is_library,
    is_users_class,
    is_users_module,
    names_of,
    parts_of,
    texts_of,
)
from ._sites import NOTHING, Site

_OF_ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
# What finds modules, and variables, whose names are texts.
_BY_TEXT = {"import_module", "__import__", "modules"}
_EVALUATED = {"globals", "eval", "exec", "vars", "__dict__"}
_EVERYWHERE = (
    "_global_forward_pre_hooks",
    "_global_forward_hooks",
    "_global_forward_hooks_always_called",
    "_global_forward_hooks_with_kwargs",
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
)


class CodeWalk:
    """The part of a walk that reads code; the other looks into what it finds."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        """Those that code which was met has."""
        self.doubtful: set[str] = set()
        """Those of them, and texts in it, that it may ask a module for which has no such name."""
        self.classes: list[tuple[type, list[tuple[str, Any]]]] = []
        """The user's, with those attributes that give something else each time they are read."""
        self.libraries = Libraries()
        self.reads_all = False
        """Whether the code may read attributes that it does not name."""
        self._unread_parts: list[tuple[str, Any, type, str]] = []
        self._modules: list[types.ModuleType] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        self._looked_up: dict[int, set[str]] = {}
        """Names that code was seen to look up, of each module. A place is listed once: what a call stores there would
        be stored twice."""

    def _item(self, v: Any, path: str) -> Any:
        raise NotImplementedError

    def _dict(self, d: dict[Any, Any], path: str, owner: type | None = None) -> None:
        raise NotImplementedError

    def _site(
        self, kind: str, container: Any, keys: list[Any], values: list[Any], path: str, owner: type | None = None
    ) -> Site:
        raise NotImplementedError

    def _function(self, f: types.FunctionType, path: str) -> None:
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            if id(cell) in self._seen:
                continue
            self._seen.add(id(cell))
            content = NOTHING
            with contextlib.suppress(ValueError):  # a cell that nobody filled yet
                content = cell.cell_contents
            self._site("attr", cell, ["cell_contents"], [content], name)
        if not is_library(f.__code__) or f.__dict__:
            self._dict(f.__dict__, f"{path}.__dict__")
        keys = ["__code__", *(k for k in ("__defaults__", "__kwdefaults__") if getattr(f, k))]
        if not is_library(f.__code__):
            self._site("attr", f, keys, [getattr(f, k) for k in keys], path)
            self._code(f.__code__, f.__globals__)
            self.libraries.function(f)
        else:
            for k in keys[1:]:
                self._item(getattr(f, k), f"{path} defaults")

    def _code(self, code: types.CodeType, scope: dict[str, Any]) -> None:
        names = set(names_of(code))
        self.names |= names
        self.doubtful |= doubtful(code)
        self.reads_all = self.reads_all or not names.isdisjoint(UNNAMED)
        looked_up = globals_of(code)
        self._globals(scope, names, looked_up)
        self._globals(vars(builtins), looked_up - scope.keys())
        # What an import inside the function finds, also one by ``importlib`` or a look into ``sys.modules``.
        imports = [n for n in names if n not in scope]
        if not names.isdisjoint(_BY_TEXT):
            imports += texts_of(code)
        for n in imports:
            m = sys.modules.get(n)
            if m is not None and is_users_module(m):
                self._globals(vars(m), names)
        if not names.isdisjoint(_EVALUATED):
            texts = texts_of(code)
            words = set(re.findall(r"\w+", " ".join(texts)))
            self._globals(scope, words, words if names & {"eval", "exec"} else {t for t in texts if t.isidentifier()})
        if not names.isdisjoint(_OF_ENVIRONMENT) and isinstance(d := getattr(os.environ, "_data", None), dict):
            self._item(d, "os.environ")

    def _globals(self, scope: dict[str, Any], names: Set[str], absent: Set[str] = frozenset()) -> bool:
        """Names of a module that code may look up; whether there are new ones. Those in ``absent`` are looked up where
        they are not there, too: a global may come to stand before a builtin."""
        known = self._looked_up.setdefault(id(scope), set())
        found = sorted(n for n in names - known if n in scope) + sorted(n for n in absent - known if n not in scope)
        if not found:
            return False
        known.update(found)
        self._site("names", scope, list(found), [scope.get(n, NOTHING) for n in found], "global")
        return True

    def _hooks_of_all_modules(self) -> None:
        """torch's tables of what every module calls."""
        scope = vars(torch.nn.modules.module)
        for name in _EVERYWHERE:
            if isinstance(hooks := scope.get(name), dict):
                self._item(hooks, f"torch.nn.modules.module.{name}")

    def _class(self, cls: type, path: str) -> None:
        """What a user's class defines that code names."""
        for c in (*cls.__mro__, type(cls)):
            if id(c) in self._seen or not is_users_class(c):
                continue
            self._seen.add(id(c))
            self._alive.append(c)
            if issubclass(c, enum.Enum):
                for member in c:
                    self._item(member, f"{c.__name__}.{member.name}")
                continue
            found = attributes_of(c)
            self.classes.append((c, [(k, vars(c)[k]) for k, _, read in found if read is None]))
            if c.__name__ in self.names:
                found = [(k, raw, read) for k, raw, read in found if k not in ("__init__", "__post_init__")]
                made = [(k, raw) for k, raw in vars(c).items() if k in ("__init__", "__new__", "__post_init__")]
                for _, raw in made:
                    for f in functions_of(raw):
                        self._function(f, path)
            lasting = [(k, read) for k, _, read in found if read is not None]
            self._site("attr", c, [k for k, _ in lasting], [v for _, v in lasting], c.__name__, cls)
            for k, raw, read in found:
                if read is None or not isinstance(raw, types.FunctionType):
                    parts = parts_of(raw)
                    self._unread_parts += [(k, p, cls, path) for p in parts if read is None or p is not raw]
