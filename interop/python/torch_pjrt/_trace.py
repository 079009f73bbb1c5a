"""One trace: from a Python function to a program with what it reads, writes and takes for granted."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import (
    _blind,
    _checkpoint,
    _clock,
    _control,
    _differentiable,
    _donation,
    _native,
    _scaler,
    _sparse_jit,
    _sparse_parts,
    _traceable,
    debug,
)
from ._afterwards import Afterwards, postponed
from ._arguments import Static
from ._changes import Change, changes, missing, settle_numbers, settle_renewed, tensors_in, undo
from ._flatten import flatten, template
from ._floats import OnHost, Result, Run, result
from ._host_random import Randomness, check_generators
from ._jit_errors import JitError, refusal
from ._lbfgs_state import NotFrozenError, fill, freeze, tensors_held
from ._moved import Moved
from ._optimizers import followed, settle
from ._state import Number, Walk, brief
from ._storage import slot_of
from ._taken import check_iterators, drop_cached
from ._varying import Varying
from ._versions import Versions


class Traced:
    """A program with all that a call of it needs."""

    def __init__(
        self,
        name: str,
        native: Any,
        program: Any,
        backward: Any,
        out_spec: Any,
        out_static: list[Any],
        gradients: Any,
        prints: list[Any],
        afterwards: Afterwards,
    ) -> None:
        self.name, self.native, self.program, self.backward = name, native, program, backward
        self.gradients, self._prints, self.afterwards = gradients, prints, afterwards
        self.stepped: list[torch.optim.Optimizer] = []
        """Optimizers whose state has a form of its own for programs: ``_lbfgs_state.ready`` before each run."""
        self.writes: set[int] = set()
        """Leaves that it writes to."""
        self.lasting = ""
        """What the function changed in Python; such a program cannot serve another call."""
        self._out_spec, self._out_static = out_spec, out_static

    def run(self, leaves: list[Any], tensors: list[torch.Tensor], floats: list[float]) -> Any:
        """The function's result, or in a string why this program does not fit."""
        out = self.native.call(tensors, floats)
        if type(out) is str:
            return out
        results, residuals, known = out
        return self.complete(results, residuals, known, floats)

    def complete(self, results: list[Any], residuals: Any, known: list[Any], floats: list[float]) -> Any:
        """The function's result, from what a run gave."""
        if self.backward is not None:
            results = _differentiable.attach(self, known, results, residuals)
        return self._end(results, floats)

    def _end(self, results: list[Any], floats: list[float]) -> Any:
        numbers = self.afterwards.numbers(floats)
        out = self.result(results, numbers)
        self.afterwards.happen(numbers)
        return out

    @functools.cached_property
    def template(self) -> Any:
        """The structure of the result, where nothing but the tensors differs from call to call."""
        varies = (
            self.backward is not None
            or self._prints
            or self.afterwards
            or any(type(x) is Result for x in self._out_static)
        )
        return None if varies else template(self._out_static, self._out_spec, _TENSOR)

    def result(self, tensors: list[Any], floats: list[float]) -> Any:
        """Puts result tensors into the structure that the function returned."""
        it = iter(tensors)
        leaves = [next(it) if x is _TENSOR else x.at(floats) if type(x) is Result else x for x in self._out_static]
        if self._prints and tensors and tensors[0].device.type != "meta":
            debug.show(self._prints, list(it))
        return pytree.tree_unflatten(leaves, self._out_spec)


_TENSOR = object()


@dataclasses.dataclass
class Request:
    """What is to be traced."""

    call: Callable[[list[Any]], Any]
    """The function, of the leaves of its arguments."""
    name: str
    roots: list[tuple[Any, str]]
    leaves: list[Any]
    names: list[str]
    """How the user calls each leaf."""
    donated: set[int]
    """Which leaves are donated."""
    hosts: set[int]
    """Which leaves are copies: of CPU tensors, or padded."""
    options: list[tuple[str, Any]]
    unsteady: dict[str, int]
    varying: Varying
    run: bool

    def walk(self) -> Walk:
        """What the function can reach now."""
        named = list(zip(self.leaves, self.names, strict=True))
        floats = [Number(None, i, x, n, False) for i, (x, n) in enumerate(named) if type(x) is float]
        w = Walk([(x, n) for x, n in named if isinstance(x, torch.Tensor)], floats, self.varying)
        for value, path in self.roots:
            w.root(value, path)
        for x, n in named:
            if isinstance(x, Static):
                for v in x.itself():
                    w.root(v, n)
            elif not isinstance(x, torch.Tensor | float):
                w.root(x, n)
        return w

    @property
    def floats(self) -> list[float]:
        return [x for x in self.leaves if type(x) is float]

    @property
    def donated_tensors(self) -> set[int]:
        """The donated leaves as indices among the tensors."""
        tensors = [i for i, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)]
        return {k for k, i in enumerate(tensors) if i in self.donated}


def trace(request: Request, frozen: tuple[Any, ...] = ()) -> tuple[Traced | None, Any]:
    """Traces a function and, if asked to, runs the program once. Returns it (``None`` when it cannot serve again) and
    the function's result; without a run the result is made of meta tensors and everything is as before."""
    _control.register()
    _checkpoint.register()
    _scaler.register()
    _traceable.register()
    before = request.walk()
    if settle(before.optimizers):
        before = request.walk()
    for o in before.optimizers:
        if request.run and tensors_held(o):
            fill(o)
    _donation.check(before, request.donated_tensors, request.name)
    try:
        return _attempts(request, before)
    except NotFrozenError as error:
        if any(error.optimizer is o for o in frozen):
            raise JitError(f"jit: {request.name}: the state of an LBFGS was replaced while it was traced") from None
        freeze(error.optimizer, request.run)
        return trace(request, (*frozen, error.optimizer))


def _attempts(request: Request, before: Walk) -> tuple[Traced | None, Any]:
    error: Exception | None = None
    # With numbers that are followed, or, if the function does not work with them, without.
    for follow in (True, False) if any(not n.ours for n in before.numbers) else (False,):
        for blind in (False, True):
            try:
                return _attempt(request, before, Run() if follow else None, blind)
            except _Stopped as stopped:
                if not (blind and isinstance(stopped.error, JitError) and stopped.error.looked):
                    error = stopped.error
            if not (isinstance(error, JitError) and error.looked):
                break
            # Perhaps it was not the function that looked at a value, but torch in a formula of its own.
    try:
        assert error is not None
        raise error
    finally:
        # Frames that an exception keeps alive keep guards of torch's alive; this one would keep the exception alive.
        del error


class _Stopped(Exception):
    """A function that was being traced raised ``error``."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _attempt(request: Request, before: Walk, run: Run | None, blind: bool) -> tuple[Traced | None, Any]:
    stepped: list[torch.optim.Optimizer] = []
    stand_ins = [_stand_in(x) if isinstance(x, torch.Tensor) else x for x in request.leaves]
    versions = Versions(before)
    moved = Moved(before)
    randomness = Randomness()
    debug.take()
    # Casts that autocast keeps are of one side of the trace or the other.
    torch.clear_autocast_cache()
    _native.trace_keep()
    _native.trace_begin(request.name)
    traced = False
    try:
        # A trace is the calling thread's: so backward has to run on it.
        with torch.autograd.set_multithreading_enabled(False), contextlib.ExitStack() as modes:
            if run is not None:
                modes.enter_context(OnHost())
            copies = modes.enter_context(_blind.blind()) if blind else None
            modes.enter_context(_clock.refused(before))
            with followed(before, run, stepped) as numbers, postponed(before):
                for i, number in numbers.items():
                    stand_ins[i] = number
                out = request.call(stand_ins)
            moved.put_back()
            if copies is not None:
                copies.finish(out)
            randomness.check(request.name)
            _check_hosts(before)
            writes = _written_arguments(request, versions)
            _check_gradients(request, stand_ins)
            check_generators(before, request.name)
            check_iterators(before, request.name)
            _sparse_jit.refuse_written(list(before.sparse.values()), request.name)
            gradients = _differentiable.joint(out, before, stand_ins) if torch.is_grad_enabled() else None
        traced = True
        program, value = _finish(request, out, before, gradients, versions, moved)
        program.stepped, program.writes = stepped, writes | program.writes
        return program, value
    except BaseException as error:
        _native.trace_abort()
        _sparse_jit.restore(before.sparse.values())
        undo(before)
        moved.put_back()
        versions.restore()
        if not traced and isinstance(error, Exception):
            raise _Stopped(error) from error
        raise
    finally:
        torch.clear_autocast_cache()
        drop_cached(before)
        _sparse_parts.forget()
        if run is not None:
            run.end()


def _stand_in(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the middle of somebody's graph is traced as a leaf, so that the trace's graph ends there."""
    return x.detach().requires_grad_() if x.requires_grad and not x.is_leaf else x


def _check_hosts(before: Walk) -> None:
    for t, version, path in before.hosts:
        if t._version != version:
            raise refusal("host", f": {path}")


def _written_arguments(request: Request, versions: Versions) -> set[int]:
    """The leaves that were written to, of which none may be a copy."""
    places = [i for i, x in enumerate(request.leaves) if isinstance(x, torch.Tensor)]
    found = {places[k] for k in versions.written() if k < len(places)}
    for i in sorted(found & request.hosts):
        raise refusal("argument", f": {request.names[i]}")
    return found


def _check_gradients(request: Request, stand_ins: list[Any]) -> None:
    """Beyond an argument that stands for a tensor of the middle of a graph there is more to be differentiated."""
    for x, s, name in zip(request.leaves, stand_ins, request.names, strict=True):
        if isinstance(x, torch.Tensor) and s is not x and s.grad is not None:
            raise refusal("backward", f": {name}")


class _Specs:
    """Where each tensor that leaves the function comes from."""

    def __init__(self, before: Walk) -> None:
        self.before = before
        self.known = {id(t): i for i, (t, _, _) in enumerate(before.tensors)}
        self.slots = [slot_of(t) for t, _, _ in before.tensors]
        self.shares = Counter(self.slots)
        self.by_slot: dict[int, int] = {}
        for i, s in enumerate(self.slots):
            if s:
                self.by_slot.setdefault(s, i)
        self.new: list[int] = []

    def of(self, t: torch.Tensor) -> tuple[Any, ...]:
        if id(t) in self.known:
            return ("known", self.known[id(t)])
        if t.device.type != "pjrt":
            return ("object", t)
        if t.is_sparse:
            return _sparse_jit.spec(t, self.of)
        shape, strides = list(t.shape), list(t.stride())
        slot = slot_of(t)
        if slot == 0:
            return ("empty", t.dtype, shape, strides)
        if slot in self.by_slot:
            i = self.by_slot[slot]
            base = self.before.tensors[i][0]
            if base.dtype == t.dtype:
                return ("view", i, shape, strides, t.storage_offset() - base.storage_offset())
        if _native.trace_is_born(slot):
            if slot not in self.new:
                self.new.append(slot)
            return ("new", self.new.index(slot), shape, strides, t.storage_offset())
        return ("object", t)


def _finish(
    request: Request, out: Any, before: Walk, gradients: Any, versions: Versions, moved: Moved
) -> tuple[Traced, Any]:
    name, run = request.name, request.run
    out_leaves, out_spec = flatten(out)
    results = [t for t in out_leaves if isinstance(t, torch.Tensor)]
    out_static = [_TENSOR if isinstance(t, torch.Tensor) else result(t) for t in out_leaves]
    afterwards = Afterwards(before)
    specs = _Specs(before)
    results = [t.detach() if t.grad_fn is not None else t for t in results]
    prints = debug.take()
    results += [v for _, values in prints for v in values if isinstance(v, torch.Tensor)]
    result_specs = [specs.of(t) for t in results]
    settle_renewed(before)
    effects, lasting, assigned = [], [], []
    for c in changes(before):
        if c.assigns_tensor:
            spec = specs.of(c.after) if isinstance(c.after, torch.Tensor) else ("object", None)
            replaced = _donation.replaced(before, specs.shares, c.before, c.after) if spec[0] == "new" else None
            effects.append((c.site.container, c.site.kind == "attr", c.key, spec, replaced))
            assigned.append((c.after, spec))
        else:
            lasting.append(c)
    effects += [(t, True, "data", specs.of(new), None) for t, new in moved.now]
    lasting = settle_numbers(lasting)
    kept_for_good, sparse = tensors_in(lasting)
    sparse_specs = [_sparse_jit.spec(t, specs.of) for t in sparse]
    if run:
        _check_steady(lasting, request.unsteady, name)
        for t in kept_for_good:
            specs.of(t)
    else:
        meta = [_sparse_jit.meta(t) for t in results]
    places: dict[int, int] = {}
    table = []
    slot_names: dict[int, str] = {}
    for s, (t, path, leaf) in zip(specs.slots, before.tensors, strict=True):
        table.append((t, path, places.setdefault(s, len(places)) if s else None, leaf))
        slot_names.setdefault(s, path)
    kept = [t.detach() for s, t in _native.trace_keep() if s not in places and not _native.trace_is_born(s)]
    all_specs = _sparse_jit.flat([*result_specs, *(e[3] for e in effects)])
    donated = _donation.given_away(before, request.donated_tensors, all_specs, kept_for_good, name)
    finished = _native.trace_finish(
        name,
        list(places.items()),
        slot_names,
        [n.path for n in before.numbers],
        specs.new,
        (gradients.mark, gradients.slots) if gradients is not None else None,
        donated,
        _donation.renewed(before, effects, all_specs),
        request.options,
    )
    # Autograd does not count what is written through ``.data``.
    leaves = [(i, slot_of(x)) for i, x in enumerate(request.leaves) if isinstance(x, torch.Tensor)]
    replaced_data = {id(t) for t, _ in moved.now}
    writes = {i for i, s in leaves if places.get(s) in finished.written or id(request.leaves[i]) in replaced_data}
    for i in sorted(writes & request.hosts):
        raise refusal("argument", f": {request.names[i]}")
    if gradients is not None:
        gradients.alive.clear()
    read = set(finished.used)
    used = {s for s, place in places.items() if place in read}
    used |= {slot_of(before.tensors[spec[1]][0]) for spec in all_specs if spec[0] in ("known", "view")}
    drop = _idle_gradients(before, effects, used)
    sites = [s.row(used) for s in before.sites if s not in drop]
    gone = {s for s, _ in donated}
    written = [i for i, s in enumerate(specs.slots) if s in gone]
    written = sorted({*written, *versions.written()})
    if not run:
        undo(before)
        versions.restore()
    native = _native.Entry(
        finished.forward,
        table,
        sites,
        len(places),
        [n.path for n in before.numbers],
        result_specs,
        effects,
        written,
        len(specs.new),
        gradients is not None,
        kept,
    )
    traced = Traced(
        name, native, finished.forward, finished.backward, out_spec, out_static, gradients, prints, afterwards
    )
    traced.writes = writes
    if not run:
        return traced, traced.result(meta, afterwards.numbers(request.floats))
    residuals = native.first(list(places), [n.value for n in before.numbers], specs.new)
    moved.again()
    _sparse_jit.trim([*zip(results, result_specs, strict=True), *assigned, *zip(sparse, sparse_specs, strict=True)])
    if gradients is not None:
        results = _differentiable.attach(traced, [t for t, _, _ in before.tensors], results, residuals)
    traced.lasting = ", ".join(sorted({c.path() for c in lasting}))
    return traced, traced._end(results, request.floats)


def _idle_gradients(before: Walk, effects: list[Any], used: set[int]) -> set[Any]:
    """The ``grad`` of tensors, where the function neither reads nor writes one nor can tell whether there is one.
    ``used`` are the cells that the program reads."""
    gradients = {s for s in before.sites if s.kind == "attr" and s.keys == ["grad"]}
    touched = {id(e[0]) for e in effects}
    for s in gradients:
        g = s.values[0]
        if isinstance(g, torch.Tensor) and g.is_sparse and g.device.type == "pjrt":
            in_use = before.sparse[id(g)].in_use(used)
        else:
            in_use = isinstance(g, torch.Tensor) and g.device.type == "pjrt" and slot_of(g) in used
        if in_use or id(s.container) in touched:
            return set()
    return set() if before.names_gradients else gradients


def _check_steady(lasting: list[Change], unsteady: dict[str, int], name: str) -> None:
    """A value that Python code changes at every call cannot be part of a program; a change that happens once can."""
    by_path = {c.site.path if missing(c.before) and c.site.kind == "list" else c.path(): c for c in lasting}
    for path, c in by_path.items():
        unsteady[path] = unsteady.get(path, 0) + 1
        if unsteady[path] > 2:
            was = "nothing" if missing(c.before) else brief(c.before)
            now = "nothing" if missing(c.after) else brief(c.after)
            raise JitError(
                f"jit: {name}: {path} is changed by the function at every call (now from {was} to {now}), which the "
                "program would not do. Way out: make it a tensor on the device (a buffer, changed in place), or change "
                "it outside the function."
            )
    for path in [p for p in unsteady if p not in by_path]:
        del unsteady[path]
