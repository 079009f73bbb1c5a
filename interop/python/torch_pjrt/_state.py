"""What a function can reach: its closure, the globals that it names, and through them modules, optimizers, containers.

A :class:`Walk` lists the containers (sites) with what is in them, so that a traced program can be checked against them
before each run, and changes that the function makes to them can be found, repeated and undone.
"""

from __future__ import annotations

import enum
import functools
import random
import sys
import sysconfig
import types
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer

from ._lbfgs_state import Frozen, tensors_held

_SCALARS = (int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size, enum.Enum)
# What a walk does not look into.
_WHOLE = (*_SCALARS, Frozen)
_LIBRARIES = [
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    sysconfig.get_paths()["stdlib"],
    *{p for k in ("purelib", "platlib") if (p := sysconfig.get_paths().get(k))},
]
# Containers with more items are taken to be data, which nobody replaces piece by piece.
_LARGEST = 4096
# Names with "grad" in them that read no gradient.
_HARMLESS = {
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "requires_grad",
    "requires_grad_",
    "autograd",
    "is_grad_enabled",
}


def library_folders() -> list[str]:
    """Folders whose code is not the user's."""
    return _LIBRARIES


def _is_library(code: types.CodeType) -> bool:
    name = code.co_filename
    return any(name.startswith(folder) for folder in _LIBRARIES)


def same(a: Any, b: Any) -> bool:
    """Whether a value that is no container may take another's place without a new trace."""
    if type(a) is not type(b):
        return False
    if isinstance(a, _SCALARS):
        return bool(a == b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(x is y or same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, types.MethodType):
        return a.__func__ is b.__func__ and a.__self__ is b.__self__
    return False


def brief(x: Any) -> str:
    """A value in a few words."""
    if isinstance(x, torch.Tensor):
        return f"a {x.dtype} tensor of shape {tuple(x.shape)} on {x.device}"
    text = repr(x) if isinstance(x, _SCALARS) else f"a {type(x).__name__}"
    return text if len(text) < 80 else text[:77] + "..."


def generator_state(v: Any) -> Any:
    """The state of an object that draws random numbers on the host; ``None`` for anything else."""
    if isinstance(v, torch.Generator):
        return v.get_state().numpy().tobytes()
    if isinstance(v, random.Random):
        return v.getstate()
    bits = getattr(v, "bit_generator", None) if type(v).__module__.startswith("numpy.random") else None
    return repr(bits.state) if bits is not None else None


class Site:
    """A container with what was in it. ``items`` are in the form that ``Entry`` takes."""

    __slots__ = ("container", "items", "keys", "kind", "path", "values")

    def __init__(self, kind: str, container: Any, keys: list[Any], values: list[Any], path: str) -> None:
        self.kind, self.container, self.keys, self.values, self.path = kind, container, keys, values, path
        self.items: list[Any] = []

    def guarded(self, used: set[int]) -> list[Any]:
        """The items as a program guards them, which reads the cells ``used``: of a sparse tensor that it does not read
        the number of entries does not matter."""
        return [
            ("sparse", *(i[1:3] if i[4].in_use(used) else (None, None)), i[3], i[4].path)
            if type(i) is tuple and i[0] == "sparse"
            else i
            for i in self.items
        ]

    def name(self, key: Any) -> str:
        """How a user would write the place of ``key``."""
        if self.kind == "attr":
            return self.path if key == "cell_contents" else f"{self.path}.{key}"
        if self.path.endswith(".__dict__"):
            return f"{self.path[:-9]}.{key}"
        for part in ("._parameters", "._buffers", "._modules"):
            if self.path.endswith(part):
                return f"{self.path[: -len(part)]}.{key}"
        if self.kind == "names":
            return str(key)
        return f"{self.path}[{key!r}]" if isinstance(key, str | int) else f"{self.path}[...]"


class Number(NamedTuple):
    """A float that each call supplies, where it is found: in a container, or as argument number ``key``."""

    container: Any
    key: Any
    value: float
    path: str
    ours: bool
    """Whether an optimizer of torch.optim computes with it."""


class Walk:
    """Everything reachable from the roots. ``arguments`` are tensors that come first in ``tensors``, ``floats`` those
    that come first in ``numbers``."""

    def __init__(self, arguments: list[tuple[torch.Tensor, str]], floats: Iterable[Number] = ()) -> None:
        self.tensors: list[tuple[torch.Tensor, str, bool]] = []
        self.index: dict[int, int] = {}
        self.sites: list[Site] = []
        self.hosts: list[tuple[torch.Tensor, int, str]] = []
        self.numbers: list[Number] = list(floats)
        self.optimizers: list[Optimizer] = []
        self.names: set[str] = set()
        self.sparse: dict[int, Any] = {}
        self.generators: list[tuple[Any, Any, str]] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        for t, path in arguments:
            self.index.setdefault(id(t), len(self.tensors))
            self.tensors.append((t, path, True))
        for t, path in arguments:
            self._grad(t, path)

    # --- roots

    def root(self, value: Any, path: str) -> None:
        """Walks from ``value``, which is the same object at every call."""
        self._item(value, path)

    # --- items

    def _item(self, v: Any, path: str) -> Any:
        if isinstance(v, torch.Tensor):
            return self._tensor(v, path)
        if isinstance(v, _WHOLE):
            return ("const", v)
        if isinstance(v, type | types.BuiltinFunctionType | weakref.ref):
            return ("const", v)
        if isinstance(v, types.ModuleType):
            return ("const", v)
        state = generator_state(v)
        if state is not None:
            self.generators.append((v, state, path))
            return ("const", v)
        if id(v) not in self._seen:
            self._seen.add(id(v))
            self._alive.append(v)
            self._enter(v, path)
        return ("const", v)

    def _enter(self, v: Any, path: str) -> None:
        if isinstance(v, Optimizer):
            self.optimizers.append(v)
            self._optimizer(v, path)
        elif isinstance(v, torch.nn.Module):
            self._dict(v.__dict__, f"{path}.__dict__")
            self._class(type(v), path)
        elif isinstance(v, dict):
            self._dict(v, path)
        elif isinstance(v, list):
            if len(v) <= _LARGEST:
                self._site("list", v, list(range(len(v))), list(v), path)
        elif isinstance(v, tuple):
            if len(v) <= _LARGEST:
                self._site("tuple", v, list(range(len(v))), list(v), path)
        elif isinstance(v, types.FunctionType):
            self._function(v, path)
        elif isinstance(v, types.MethodType):
            self._item(v.__self__, _shorter(path))
            self._item(v.__func__, path)
        elif isinstance(v, functools.partial):
            self._item(v.func, path)
            self._item(v.args, f"{path}.args")
            self._item(v.keywords, f"{path}.keywords")
        elif type(v).__module__ == "torch_pjrt._jit" and hasattr(v, "__wrapped__"):
            self._item(v.__wrapped__, path)
        elif _is_users(v):
            if isinstance(getattr(v, "__dict__", None), dict):
                self._dict(v.__dict__, f"{path}.__dict__")
            slots = [s for c in type(v).__mro__ for s in getattr(c, "__slots__", ()) if hasattr(v, s)]
            if slots:
                self._site("attr", v, slots, [getattr(v, s) for s in slots], path)
            self._class(type(v), path)

    def _site(self, kind: str, container: Any, keys: list[Any], values: list[Any], path: str) -> Site:
        site = Site(kind, container, keys, values, path)
        self.sites.append(site)
        site.items = [self._item(v, site.name(k)) for k, v in zip(keys, values, strict=True)]
        return site

    def _dict(self, d: dict[Any, Any], path: str) -> None:
        self._seen.add(id(d))
        self._alive.append(d)
        if len(d) <= _LARGEST:
            self._site("dict", d, list(d.keys()), list(d.values()), path)

    def _tensor(self, t: torch.Tensor, path: str) -> Any:
        if t.device.type != "pjrt":
            self.hosts.append((t, t._version, path))
            return ("host", t, t._version)
        if t.is_sparse:
            return self._sparse(t, path)
        i = self.index.get(id(t))
        if i is None:
            i = self.index[id(t)] = len(self.tensors)
            self.tensors.append((t, path, t.is_leaf))
            self._grad(t, path)
        return i

    def _sparse(self, t: torch.Tensor, path: str) -> Any:
        """Its indices and values; what they are in the program's table, and what else it must be like."""
        from ._sparse_jit import Known

        k = self.sparse.get(id(t))
        if k is None:
            k = self.sparse[id(t)] = Known(t, path)
        parts = self._tensor(k.indices, f"{path} (indices)"), self._tensor(k.values, f"{path} (values)")
        return ("sparse", *parts, k.kind(), k)

    @property
    def names_gradients(self) -> bool:
        """Whether the code that was met may look at somebody's ``grad``."""
        return (
            bool(self.optimizers)
            or "backward" in self.names
            or any("grad" in n and n not in _HARMLESS for n in self.names)
        )

    def _grad(self, t: torch.Tensor, path: str) -> None:
        if t.is_leaf and (t.requires_grad or isinstance(t, torch.nn.Parameter) or t.grad is not None):
            self._site("attr", t, ["grad"], [t.grad], path)

    def _function(self, f: types.FunctionType, path: str) -> None:
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=False):
            try:
                self._site("attr", cell, ["cell_contents"], [cell.cell_contents], name)
            except ValueError:  # a cell that nobody filled yet
                continue
        for part in (f.__defaults__, f.__kwdefaults__):
            if part:
                self._item(part, f"{path} defaults")
        if f.__dict__:
            self._dict(f.__dict__, f"{path}.__dict__")
        if not _is_library(f.__code__):
            names = set(_names(f.__code__))
            self.names |= names
            self._globals(f.__globals__, names)

    def _globals(self, scope: dict[str, Any], names: set[str]) -> None:
        found = sorted(n for n in names if n in scope)
        key = hash((id(scope), *found))
        if not found or key in self._seen:
            return
        self._seen.add(key)
        values = [scope[n] for n in found]
        self._site("names", scope, list(found), values, "global")
        for v in values:
            if isinstance(v, types.ModuleType) and _is_users_module(v):
                self._globals(vars(v), names)

    def _class(self, cls: type, path: str) -> None:
        """The globals that the methods of a user's class name."""
        for c in cls.__mro__:
            if id(c) in self._seen:
                continue
            self._seen.add(id(c))
            for f in vars(c).values():
                f = getattr(f, "__func__", f)
                if isinstance(f, types.FunctionType) and not _is_library(f.__code__):
                    self._function(f, path)

    def _optimizer(self, opt: Optimizer, path: str) -> None:
        known = type(opt).__module__.startswith("torch.optim")
        for group in opt.param_groups:
            if id(group) in self._seen:
                continue
            self._seen.add(id(group))
            self._alive.append(group)
            site = Site("dict", group, list(group.keys()), list(group.values()), f"{path}.param_groups")
            self.sites.append(site)
            for key, v in group.items():
                name = f"{path}.param_groups[{key!r}]"
                if type(v) is float:
                    site.items.append(("number", len(self.numbers)))
                    self.numbers.append(Number(group, key, v, name, known))
                elif type(v) is tuple and v and all(type(x) is float for x in v):
                    site.items.append(("numbers", len(self.numbers), len(v)))
                    self.numbers.extend(Number(group, (key, i), x, f"{name}[{i}]", known) for i, x in enumerate(v))
                else:
                    site.items.append(self._item(v, name))
        if isinstance(opt, torch.optim.LBFGS):
            # It changes with each evaluation; whoever looks at it inside is told so.
            self._seen.add(id(opt.state))
            self._alive.append(opt.state)
        self._dict(opt.__dict__, f"{path}.__dict__")
        if held := tensors_held(opt):
            self._dict(held, f"{path}.state")


def _shorter(path: str) -> str:
    return path.rsplit(".", 1)[0] if "." in path else "self"


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Names that code may look up in its globals, those of functions inside it too."""
    found = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= set(_names(const))
    return tuple(found)


def _is_users_module(m: types.ModuleType) -> bool:
    file = getattr(m, "__file__", None)
    return file is not None and not any(file.startswith(folder) for folder in _LIBRARIES)


def _is_users(v: Any) -> bool:
    """Whether an object is worth looking into: of a class of the user's, or one of torch's that holds state."""
    from torch.optim.lr_scheduler import LRScheduler

    if isinstance(v, torch.amp.GradScaler | LRScheduler):
        return True
    root = type(v).__module__.partition(".")[0]
    if root in ("torch", "torch_pjrt", "numpy", "builtins") or root in sys.stdlib_module_names:
        return False
    return not callable(v) or hasattr(v, "__dict__")
