"""What code reads of libraries by name, such as ``torch.nn.functional.relu``: whether it is still the same, not what is
in it. The names are in the code's instructions."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

import torch

from ._names import is_library, is_users_module
from ._sites import Site

_ROOTS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
_PARTS = ("LOAD_ATTR", "LOAD_METHOD")


@functools.lru_cache(maxsize=4096)
def _chains(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Names of variables with the attributes that are read from them at once, those of functions inside too."""
    found: dict[tuple[str, ...], None] = {}
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _ROOTS:
            chain = (str(instruction.argval),)
        elif name in _PARTS and chain:
            chain = (*chain, str(instruction.argval))
            found[chain] = None
        else:
            chain = ()
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found.update(dict.fromkeys(_chains(const)))
    return tuple(found)


def is_setting(v: Any, name: str) -> bool:
    """Whether ``v`` is one of torch's groups of settings, such as ``torch.backends.cudnn``, that computes this one."""
    return type(v).__module__.startswith("torch.backends") and name not in vars(v) and hasattr(v, name)


def _read(code: types.CodeType, scope: dict[str, Any], cells: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """The attributes of modules of libraries that code with these globals and closure reads."""
    for root, *names in _chains(code):
        v = cells[root] if root in cells else scope.get(root)
        for name in names:
            if is_setting(v, name):
                yield v, name
            if not isinstance(v, types.ModuleType) or name not in vars(v):
                break
            inner = vars(v)[name]
            if not isinstance(inner, types.ModuleType) and not is_users_module(v):
                yield v, name
            v = inner


@functools.lru_cache(maxsize=1024)
def _forward(cls: Any) -> tuple[types.FunctionType, ...]:
    """The functions of a class of modules that its ``forward`` is made of, itself first."""
    found: dict[str, types.FunctionType] = {}
    waiting = ["forward"]
    while waiting:
        name = waiting.pop()
        f = next((vars(c)[name] for c in cls.__mro__ if name in vars(c) and c is not torch.nn.Module), None)
        if isinstance(f, types.FunctionType) and name not in found:
            found[name] = f
            waiting += [n for n in f.__code__.co_names if n not in found]
    return tuple(found.values())


class Libraries:
    """What the code that one walk meets reads of libraries."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.classes: list[tuple[type, list[tuple[str, Any]]]] = []
        """With those of their attributes that must stay."""
        self.functions: list[tuple[types.CodeType, dict[str, Any]]] = []
        """The user's, each with the names that its code finds."""
        self._known: set[tuple[int, str]] = set()
        self._seen: set[type] = set()

    def function(self, f: types.FunctionType) -> None:
        """A function whose code may run."""
        cells = {}
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # a cell that nobody filled yet
                continue
        if not is_library(f.__code__):
            self.functions += [(f.__code__, scope) for scope in (f.__globals__, cells) if scope]
        for module, name in _read(f.__code__, f.__globals__, cells):
            if (id(module), name) not in self._known:
                self._known.add((id(module), name))
                if is_setting(module, name):
                    self._site("attr", module, [name], [getattr(module, name)], type(module).__name__)
                else:
                    self._site("names", vars(module), [name], [vars(module)[name]], module.__name__)

    def module(self, cls: Any) -> None:
        """A class of modules whose ``forward`` may run."""
        if cls in self._seen:
            return
        self._seen.add(cls)
        for f in _forward(cls):
            self.function(f)
        defined = [c for c in cls.__mro__ if c is not torch.nn.Module and "forward" in vars(c)]
        self.classes += [(c, [("forward", vars(c)["forward"])]) for c in defined]

    def tensors(self, names: set[str]) -> None:
        """Methods of tensors that code names, whoever's they are."""
        found = sorted(n for n in names if not n.startswith("__") and callable(getattr(torch.Tensor, n, None)))
        self._site("attr", torch.Tensor, found, [getattr(torch.Tensor, n) for n in found], "torch.Tensor")

    def _site(self, kind: str, container: Any, names: list[str], values: list[Any], path: str) -> None:
        site = Site(kind, container, names, values, path)
        site.items = [("const", v) for v in values]
        self.sites.append(site)
