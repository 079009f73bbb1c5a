"""One trace: from a Python function to a program with what it reads, writes and takes for granted."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import _checkpoint, _control, _differentiable, _native, _scaler, debug
from ._flatten import flatten
from ._jit_errors import JitError, refusal
from ._numbers import real
from ._optimizers import followed, settle
from ._state import Change, Walk, brief, changes, generator_state, missing, settle_renewed, undo

_SLOT_BITS = 40


def slot_of(t: torch.Tensor) -> int:
    """The cell behind a pjrt tensor; 0 for one without elements."""
    return t.data_ptr() >> _SLOT_BITS


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
    ) -> None:
        self.name, self.native, self.program, self.backward = name, native, program, backward
        self.gradients, self._prints = gradients, prints
        self.lasting = ""
        """What the function changed in Python; such a program cannot serve another call."""
        self._out_spec, self._out_static = out_spec, out_static

    def run(self, leaves: list[Any], tensors: list[torch.Tensor], floats: list[float]) -> Any:
        """The function's result, or in a string why this program does not fit."""
        if self.backward is not None:
            from ._differentiable import run

            return run(self, tensors, floats)
        out = self.native.call(tensors, floats)
        if type(out) is str:
            return out
        return self.result(out[0])

    def result(self, tensors: list[Any]) -> Any:
        """Puts result tensors into the structure that the function returned."""
        it = iter(tensors)
        leaves = [next(it) if x is _TENSOR else x for x in self._out_static]
        if self._prints and tensors and tensors[0].device.type != "meta":
            debug.show(self._prints, list(it))
        return pytree.tree_unflatten(leaves, self._out_spec)


_TENSOR = object()


class _Randomness:
    """Notices random numbers that Python code draws on the host."""

    def __init__(self) -> None:
        self.before = self._state()

    @staticmethod
    def _state() -> tuple[Any, ...]:
        numpy = sys.modules.get("numpy")
        n = numpy.random.get_state() if numpy is not None else None
        return (
            random.getstate(),
            torch.default_generator.get_state().numpy().tobytes(),
            (n[1].tobytes(), n[2]) if n is not None else None,
        )

    def check(self, name: str) -> None:
        for library, was, now in zip(
            ("random", "torch on the CPU", "numpy.random"), self.before, self._state(), strict=True
        ):
            if was != now:
                raise JitError(
                    f"jit: {name}: random numbers of {library} were drawn on the host inside the function; they would "
                    "be the same at every call. Way out: draw them on the device (torch.rand(..., device='pjrt')), or "
                    "draw "
                    "them outside and pass them as arguments."
                )


def trace(
    call: Callable[[list[Any]], Any],
    *,
    name: str,
    roots: list[tuple[Any, str]],
    leaves: list[Any],
    names: list[str],
    options: list[tuple[str, Any]],
    unsteady: dict[str, int],
    run: bool,
) -> tuple[Traced | None, Any]:
    """Traces ``call(leaves)`` and, if ``run``, runs the program once. Returns it (``None`` when it cannot serve again)
    and the function's result; without ``run`` the result is made of meta tensors and everything is as before."""
    arguments = [(x, n) for x, n in zip(leaves, names, strict=True) if isinstance(x, torch.Tensor)]
    objects = [(x, n) for x, n in zip(leaves, names, strict=True) if not isinstance(x, torch.Tensor)]

    def walk() -> Walk:
        w = Walk(arguments)
        for value, path in (*roots, *objects):
            w.root(value, path)
        return w

    _control.register()
    _checkpoint.register()
    _scaler.register()
    debug.take()
    before = walk()
    if settle(before.optimizers):
        before = walk()
    stand_ins = [_stand_in(x) if isinstance(x, torch.Tensor) else x for x in leaves]
    randomness = _Randomness()
    # Casts that autocast keeps are of one side of the trace or the other.
    torch.clear_autocast_cache()
    _native.trace_keep()
    _native.trace_begin(name, 1)
    try:
        # A trace is the calling thread's: so backward has to run on it.
        with torch.autograd.set_multithreading_enabled(False):
            with followed(before):
                out = call(stand_ins)
            randomness.check(name)
            _check_hosts(before)
            _check_generators(before, name)
            gradients = _differentiable.joint(out, before, stand_ins) if torch.is_grad_enabled() else None
        return _finish(out, before, gradients, name, options, unsteady, run)
    except BaseException:
        _native.trace_abort()
        undo(before)
        raise
    finally:
        torch.clear_autocast_cache()


def _stand_in(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the middle of somebody's graph is traced as a leaf, so that the trace's graph ends there."""
    return x.detach().requires_grad_() if x.requires_grad and not x.is_leaf else x


def _check_hosts(before: Walk) -> None:
    for t, version, path in before.hosts:
        if t._version != version:
            raise refusal("host", f": {path}")


def _check_generators(before: Walk, name: str) -> None:
    for generator, state, path in before.generators:
        if generator_state(generator) != state:
            raise JitError(
                f"jit: {name}: random numbers were drawn on the host from {path} inside the function; they would be "
                "the same at every call. Way out: draw them on the device (torch.rand(..., device='pjrt')), or draw "
                "them outside and pass them as arguments."
            )


class _Specs:
    """Where each tensor that leaves the function comes from."""

    def __init__(self, before: Walk) -> None:
        self.before = before
        self.known = {id(t): i for i, (t, _, _) in enumerate(before.tensors)}
        self.by_slot: dict[int, int] = {}
        for i, (t, _, _) in enumerate(before.tensors):
            if (s := slot_of(t)) and s not in self.by_slot:
                self.by_slot[s] = i
        self.new: list[int] = []

    def of(self, t: torch.Tensor) -> tuple[Any, ...]:
        if id(t) in self.known:
            return ("known", self.known[id(t)])
        if t.device.type != "pjrt":
            return ("object", t)
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
    out: Any,
    before: Walk,
    gradients: Any,
    name: str,
    options: list[tuple[str, Any]],
    unsteady: dict[str, int],
    run: bool,
) -> tuple[Traced | None, Any]:
    out_leaves, out_spec = flatten(out)
    results = [t for t in out_leaves if isinstance(t, torch.Tensor)]
    out_static = [_TENSOR if isinstance(t, torch.Tensor) else real(t) for t in out_leaves]
    specs = _Specs(before)
    results = [t.detach() if t.grad_fn is not None else t for t in results]
    prints = debug.take()
    results += [v for _, values in prints for v in values if isinstance(v, torch.Tensor)]
    result_specs = [specs.of(t) for t in results]
    settle_renewed(before)
    effects, lasting = [], []
    for c in changes(before):
        if c.assigns_tensor:
            spec = specs.of(c.after) if isinstance(c.after, torch.Tensor) else ("object", None)
            effects.append((c.site.container, c.site.kind == "attr", c.key, spec, _replaced(c, specs)))
        else:
            lasting.append(c)
    if run:
        _check_steady(lasting, unsteady, name)
        for t in _tensors_in(lasting):
            specs.of(t)
    else:
        meta = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in results]
    places: dict[int, int] = {}
    table = []
    for t, path, leaf in before.tensors:
        s = slot_of(t)
        table.append((t, path, places.setdefault(s, len(places)) if s else None, leaf))
    kept = [t.detach() for s, t in _native.trace_keep() if s not in places and not _native.trace_is_born(s)]
    request = (gradients.mark, gradients.slots) if gradients is not None else None
    slot_names: dict[int, str] = {}
    for t, path, _ in before.tensors:
        slot_names.setdefault(slot_of(t), path)
    number_names = [path for _, _, _, path in before.numbers]
    finished = _native.trace_finish(
        name, list(places.items()), slot_names, number_names, specs.new, request, [], options
    )  # fmt: skip
    if gradients is not None:
        gradients.alive.clear()
    drop = _idle_gradients(before, effects, places, set(finished.used))
    sites = [(s.kind, s.container, s.keys, s.items, s.path) for s in before.sites if s not in drop]
    if not run:
        undo(before)
    native = _native.Entry(
        finished.forward, table, sites, len(places), len(before.numbers), finished.conditions, result_specs, effects,
        finished.residuals, gradients is not None, kept,
    )  # fmt: skip
    traced = Traced(name, native, finished.forward, finished.backward, out_spec, out_static, gradients, prints)
    if not run:
        return traced, traced.result(meta)
    numbers = [value for _, _, value, _ in before.numbers]
    residuals = native.first(list(places), numbers, specs.new)
    if gradients is not None:
        results = _differentiable.attach(traced, [t for t, _, _ in before.tensors], results, residuals)
    traced.lasting = ", ".join(sorted({c.path() for c in lasting}))
    return traced, traced.result(results)


def _idle_gradients(before: Walk, effects: list[Any], places: dict[int, int], used: set[int]) -> set[Any]:
    """The ``grad`` of tensors, where the function neither reads nor writes one nor can tell whether there is one."""
    gradients = {s for s in before.sites if s.kind == "attr" and s.keys == ["grad"]}
    touched = {id(e[0]) for e in effects}
    for s in gradients:
        g = s.values[0]
        in_use = isinstance(g, torch.Tensor) and g.device.type == "pjrt" and places.get(slot_of(g)) in used
        if in_use or id(s.container) in touched:
            return set()
    return set() if before.names_gradients else gradients


def _check_steady(lasting: list[Change], unsteady: dict[str, int], name: str) -> None:
    """A value that Python code changes at every call cannot be part of a program; a change that happens once can."""
    by_path = {c.path(): c for c in lasting}
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


def _replaced(c: Change, specs: _Specs) -> int | None:
    """Which of the known tensors an effect puts another in the place of."""
    return specs.known.get(id(c.before)) if isinstance(c.before, torch.Tensor) else None


def _tensors_in(lasting: list[Change]) -> list[torch.Tensor]:
    w = Walk([])
    for c in lasting:
        if not missing(c.after):
            w.root(c.after, c.path())
    return [t for t, _, _ in w.tensors]
