"""What a function can reach: its closure, the globals that it names, and through them modules, optimizers, containers.

A :class:`Walk` lists the containers (sites) with what is in them, so that a traced program can be checked against them
before each run, and changes that the function makes to them can be found, repeated and undone.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import operator
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel

from . import _native
from ._code_walk import CodeWalk
from ._lbfgs_state import Frozen, tensors_held
from ._names import (
    Bare,
    always_read,
    is_disguised,
    is_foreign,
    is_users,
    is_users_class,
    is_users_module,
    names_gradients,
    read_by_name,
    slots_of,
)
from ._questions import Files
from ._sites import NOTHING, SCALARS, UNREAD, Number, Site, is_pack, itself
from ._sites import brief as brief  # this and the next: the native guard looks for them here
from ._sites import same as same
from ._varying import Varying
from ._watched import Watch, file_behind, generator_state, is_array, is_map, is_pointer, position, watch

# What a walk does not look into.
_WHOLE = (*SCALARS, Frozen)
# Numbers in a container with more items are constants: none of them is followed as an input.
_LARGE = 4096
_LEAVES = {int, float, complex, str, bytes, bool, type(None)}
# What reads attributes that no code names.
_GETTERS = (operator.attrgetter, operator.methodcaller)
_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
# What code may read of a generator without drawing from it.
_OF_GENERATORS = {"initial_seed", "get_state", "getstate", "state"}
# What code may read of a schedule; without it, that a schedule is at another place is no other program.
_OF_SCHEDULES = {"last_epoch", "base_lrs", "_last_lr", "get_lr", "_step_count", "_get_closed_form_lr", "num_bad_epochs"}


class Walk(CodeWalk):
    """Everything reachable from the roots. ``arguments`` are tensors that come first in ``tensors``, ``floats`` those
    that come first in ``numbers``."""

    def __init__(
        self,
        arguments: list[tuple[torch.Tensor, str]],
        floats: Iterable[Number] = (),
        varying: Varying | None = None,
    ) -> None:
        super().__init__()
        self.tensors: list[tuple[torch.Tensor, str, bool]] = []
        self.index: dict[int, int] = {}
        self.sites: list[Site] = []
        self.hosts: list[tuple[torch.Tensor, tuple[int, int], str]] = []
        """CPU tensors, with their version and a hash of their memory."""
        self.numbers: list[Number] = list(floats)
        self.optimizers: list[Optimizer] = []
        self.sparse: dict[int, Any] = {}
        self.with_hooks: set[int] = set()
        self.with_attributes: set[int] = set()
        """Tensors that have such, by their index."""
        self.objects: list[tuple[Any, str, Any]] = []
        """Those whose class decides what their methods do."""
        self.generators: list[tuple[Any, Any, str]] = []
        self.iterators: list[tuple[Any, Any, str]] = []
        self.caches: list[tuple[Any, int]] = []
        self.pointers: list[tuple[Any, str]] = []
        self.partials: list[functools.partial[Any]] = []
        self.schedules: list[LRScheduler] = []
        self.averaged: list[AveragedModel] = []
        self.stored: list[tuple[Number, Any]] = []
        """What a trace left in the places of numbers."""
        self.asked: set[int] | None = None
        """Those numbers whose value the trace asked for; ``None`` where it had to ask for all."""
        self.steps: list[Callable[[], Any]] = []
        """What a trace postponed; see ``_afterwards.py``."""
        self.files = Files()
        """What a trace asked the file system."""
        self._varying = varying
        self._unread: list[Site] = []
        self._places: dict[tuple[int, Any, bool], Any] = {}
        for t, path in arguments:
            self.index.setdefault(id(t), len(self.tensors))
            self.tensors.append((t, path, t.is_leaf))
        for i, (t, path) in enumerate(arguments):
            self._belongings(t, i, path)

    # --- roots

    def root(self, value: Any, path: str) -> None:
        """Walks from ``value``, which is the same object at every call."""
        self._item(value, path)
        while self._read_on():
            pass
        if not self.names.isdisjoint(_OF_GENERATORS):
            for v, _, place in self.generators:
                if id(v) not in self._seen:
                    self._seen.add(id(v))
                    self._watched(v, Watch(v), place)

    def _reads(self, key: Any, owner: type | None) -> bool:
        """Whether code that was met may read the attribute ``key``."""
        return self.reads_all or key in self.names or owner is None or always_read(key, owner)

    def _read_on(self) -> bool:
        """Looks at attributes that code may read which was met after them. False if there are none."""
        found = False
        waiting, self._unread = self._unread, []
        for site in waiting:
            for i, key in enumerate(site.keys):
                if site.items[i] is UNREAD and self._reads(key, site.owner):
                    found = True
                    site.items[i] = None
                    site.items[i] = self._place(site, i)
            if any(i is UNREAD for i in site.items):
                self._unread.append(site)
        parts, self._unread_parts = self._unread_parts, []
        for key, part, owner, path in parts:
            if self._reads(key, owner):
                found = True
                self._item(part, path)
            else:
                self._unread_parts.append((key, part, owner, path))
        if not self.names.isdisjoint(_OF_SCHEDULES):
            for v in self.schedules:
                if id(v.__dict__) not in self._seen:
                    found = True
                    self._object(v, "schedule")
        for m in self._modules:
            found = self._globals(vars(m), self.names | self.doubtful, self.doubtful) or found
        return found

    def knows(self, v: Any) -> bool:
        """Whether ``v`` was met: a container or an object that is there at every call."""
        return id(v) in self._seen

    # --- items

    def _item(self, v: Any, path: str) -> Any:
        if is_disguised(v):
            return self._disguised(v, path)
        if isinstance(v, torch.Tensor):
            return self._tensor(v, path)
        if isinstance(v, _WHOLE):
            if isinstance(v, enum.Enum) and not isinstance(v.value, SCALARS):
                self._item(v.value, f"{path}.value")
            return ("const", v)
        if isinstance(v, types.BuiltinFunctionType):
            return ("const", v)
        self.reads_all = self.reads_all or is_foreign(v) or isinstance(v, _GETTERS)
        if isinstance(v, types.ModuleType):
            if is_users_module(v) and all(m is not v for m in self._modules):
                self._modules.append(v)
            return ("const", v)
        if isinstance(v, type):
            self._class(v, path)
            return ("const", v)
        state = generator_state(v)
        if state is not None:
            self.generators.append((v, state, path))
            return ("const", v)
        if id(v) not in self._seen:
            self._seen.add(id(v))
            self._alive.append(v)
            at = position(v)
            if at is not None:
                self.iterators.append((v, at, path))
            if at is None or is_map(v):
                self._enter(v, path)
        return ("const", v)

    def _disguised(self, v: Any, path: str) -> Any:
        """What an object holds that may answer anything: all of it, as its code may read what it does not name."""
        if id(v) not in self._seen:
            self._seen.add(id(v))
            self._alive.append(v)
            self.reads_all = self.reads_all or not is_users_class(type(v))
            bare = Bare(v)
            if isinstance(held := getattr(bare, "__dict__", None), dict):
                self._dict(held, f"{path}.__dict__")
            if slots := bare.slots():
                self._site("attr", bare, list(slots), list(slots.values()), path)
            self._class(type(v), path)
        return ("const", v)

    def _enter(self, v: Any, path: str) -> None:
        if isinstance(v, Optimizer):
            self.optimizers.append(v)
            self._optimizer(v, path)
        elif isinstance(v, LRScheduler):
            self.schedules.append(v)
        elif isinstance(v, torch.nn.Module):
            self._hooks_of_all_modules()
            if not is_users_class(type(v)):
                self.libraries.module(type(v))
            if isinstance(v, AveragedModel):
                self.averaged.append(v)
            self.objects.append((v, path, _native.dict_of(v)))
            self._dict(v.__dict__, f"{path}.__dict__", type(v) if read_by_name(v) else None)
            self._class(type(v), path)
        elif isinstance(v, dict):
            if isinstance(v, collections.defaultdict):
                self._site("attr", v, ["default_factory"], [v.default_factory], path)
            self._dict(v, path)
        elif isinstance(v, list):
            self._site("list", v, list(range(len(v))), list(v), path)
        elif isinstance(v, tuple):
            self._site("tuple", v, list(range(len(v))), list(v), path)
        elif is_pointer(v):
            self.pointers.append((v, path))
        elif isinstance(v, _WEAK):
            self._item(v.data, path)  # type: ignore[union-attr]
        elif isinstance(v, weakref.ProxyTypes):
            with contextlib.suppress(ReferenceError):
                # A method of the proxy's is one of what it stands for.
                self._item(v.__reduce_ex__.__self__, path)
        elif (watched := watch(v)) is not None:
            self._watched(v, watched, path)
        elif isinstance(v, types.FunctionType):
            if itself(v) is v:
                self._function(v, path)
        elif isinstance(v, types.MethodType):
            self._item(v.__self__, _shorter(path))
            self._item(v.__func__, path)
        elif isinstance(v, functools.partial):
            self.partials.append(v)
            self._item(v.func, path)
            self._item(v.args, f"{path}.args")
            self._item(v.keywords, f"{path}.keywords")
        elif type(v).__module__ == "torch_pjrt._jit" and hasattr(v, "__wrapped__"):
            self._item(v.__wrapped__, path)
        elif type(v).__name__ == "_lru_cache_wrapper":
            self.caches.append((v, v.cache_info().misses))
            self._item(v.__wrapped__, path)
        elif (file := file_behind(v)) is not None:
            self._item(file, path)
        elif isinstance(v, threading.local):
            self._site("attr", v, list(v.__dict__), list(v.__dict__.values()), path)
        elif is_users(v):
            self._object(v, path)
        if isinstance(v, dict | list | tuple) and is_users_class(type(v)):
            self._object(v, path)

    def _object(self, v: Any, path: str) -> None:
        """Attributes of an object."""
        owner = type(v) if read_by_name(v) else None
        self.objects.append((v, path, _native.dict_of(v)))
        if isinstance(getattr(v, "__dict__", None), dict):
            self._dict(v.__dict__, f"{path}.__dict__", owner)
        slots = [s for c in type(v).__mro__ for s in slots_of(c) if s not in ("__dict__", "__weakref__")]
        if slots:
            self._site("attr", v, slots, [getattr(v, s, NOTHING) for s in slots], path, owner)
        self._class(type(v), path)

    def _watched(self, v: Any, watched: Watch, path: str) -> None:
        if not isinstance(v, frozenset):
            self._site("attr", watched, list(watched.keys), [getattr(watched, k) for k in watched.keys], path)
        if is_array(v) and getattr(v, "__dict__", None):
            self._dict(v.__dict__, f"{path}.__dict__")
        if isinstance(v, set | frozenset):
            for x in v:
                if not isinstance(x, torch.Tensor):
                    self._item(x, f"{path} (item)")

    def _site(
        self, kind: str, container: Any, keys: list[Any], values: list[Any], path: str, owner: type | None = None
    ) -> Site:
        """A container; with an ``owner``, of its items only those are looked at that code may read."""
        site = Site(kind, container, keys, values, path)
        self.sites.append(site)
        site.owner = owner
        site.items = [UNREAD] * len(keys)
        large = len(keys) > _LARGE
        for i, k in enumerate(keys):
            if large and type(values[i]) in _LEAVES:
                site.items[i] = ("const", values[i])
            elif self._reads(k, owner):
                site.items[i] = self._place(site, i)
        if any(i is UNREAD for i in site.items):
            self._unread.append(site)
        return site

    def _place(self, site: Site, i: int) -> Any:
        """What is at one place of a container."""
        key, v = site.keys[i], site.values[i]
        if v is NOTHING:
            return ("absent",)
        if type(v) in (float, int) and self._varying is not None and site.kind != "tuple":
            container, place = site.container, (id(site.container), key, site.kind == "attr")
            if place in self._places:
                return self._places[place]
            if not isinstance(container, Watch) and self._varying.varies(container, key, v):
                self.numbers.append(Number(container, key, v, site.name(key), False, site.kind == "attr"))
                item = self._places[place] = ("number" if type(v) is float else "count", len(self.numbers) - 1)
                return item
        if is_pack(v):
            return ("pack", [self._tensor(t, f"{site.name(key)}[{j}]") for j, t in enumerate(v)])
        return self._item(v, site.name(key))

    def _dict(self, d: dict[Any, Any], path: str, owner: type | None = None) -> None:
        self._seen.add(id(d))
        self._alive.append(d)
        self._site("dict", d, list(d.keys()), list(d.values()), path, owner)

    def _tensor(self, t: torch.Tensor, path: str) -> Any:
        if t.device.type != "pjrt":
            self.hosts.append((t, _native.host_seen(t), path))
            return ("host", t)
        if t.is_sparse:
            return self._sparse(t, path)
        i = self.index.get(id(t))
        if i is None:
            i = self.index[id(t)] = len(self.tensors)
            self.tensors.append((t, path, t.is_leaf))
            self._belongings(t, i, path)
        return i

    def _belongings(self, t: torch.Tensor, i: int, path: str) -> None:
        """What belongs to tensor ``i``: its gradient, its hooks, its attributes."""
        self._grad(t, path)
        for name in ("_backward_hooks", "_post_accumulate_grad_hooks") if t.is_leaf else ():
            if (hooks := getattr(t, name, None)) is not None:
                self.with_hooks.add(i)
                self._item(hooks, f"{path}.{name}")
        if t.__dict__:
            self.with_attributes.add(i)
            self._dict(t.__dict__, f"{path}.__dict__", type(t))

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
        return bool(self.optimizers) or names_gradients(self.names)

    def _grad(self, t: torch.Tensor, path: str) -> None:
        if t.is_leaf and (t.requires_grad or isinstance(t, torch.nn.Parameter) or t.grad is not None):
            self._site("attr", t, ["grad"], [t.grad], path)

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
