"""Optimizers of torch.optim inside a trace, unmodified.

Their numbers (lr, betas, weight decay) become inputs of the program. What they read from the device with ``.item()``
(the step count) is followed too, and the counts that they keep on the CPU, or in
Python, move to the device.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import _lbfgs, _native
from ._floats import Run
from ._lbfgs_state import Frozen
from ._numbers import Followed, extremum
from ._replaced import put
from ._sites import NOTHING, Number
from ._state import Walk


def settle(optimizers: list[Optimizer]) -> bool:
    """Moves step counts and learning rates that are 0-d CPU tensors to the device. True if any was moved."""
    moved: dict[int, Any] = {}

    def to_device(v: torch.Tensor) -> torch.Tensor:
        # What was one tensor stays one: LBFGS keeps its learning rate as the length of the last step.
        if id(v) not in moved:
            moved[id(v)] = v, v.to("pjrt")
        return moved[id(v)][1]

    def is_host(v: Any) -> bool:
        return isinstance(v, torch.Tensor) and v.device.type == "cpu" and v.dim() == 0

    for opt in optimizers:
        if not any(p.device.type == "pjrt" for g in opt.param_groups for p in g["params"]):
            continue
        for state in list(opt.state.values()):
            for key, v in state.items() if isinstance(state, dict) and type(state) is not Frozen else ():
                if is_host(v):
                    state[key] = to_device(v)
                elif key == "step" and type(v) is int and isinstance(opt, torch.optim.SparseAdam):
                    # It counts in Python, which a program cannot.
                    state[key] = to_device(torch.tensor(float(v)))
        for group in opt.param_groups:
            for key, v in group.items():
                if is_host(v):
                    group[key] = to_device(v)
    return bool(moved)


# Optimizers whose plain form branches on the step count; their capturable form does the same without.
_BRANCHING = ("ASGD", "RAdam")
_tensor_item = torch.Tensor.item
_DEVICE_LOCK = threading.Lock()
_current = threading.local()
"""``steps`` of the trace of this thread, ``depth`` while it is in one."""


@functools.lru_cache(maxsize=4)
def _reading(theirs: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """For ``Tensor.item``: a number of the device is followed in the steps of this thread's trace."""

    @functools.wraps(theirs)
    def item(self: torch.Tensor) -> Any:
        return _read(self) if getattr(_current, "depth", 0) else theirs(self)

    return item


def _read(t: torch.Tensor) -> Any:
    return Followed(_native.trace_read(t)) if t.device.type == "pjrt" else _tensor_item(t)


@functools.lru_cache(maxsize=4)
def _sparse_adam(theirs: Callable[..., None]) -> Callable[..., None]:
    """torch's function takes the counts of steps as numbers."""

    @functools.wraps(theirs)
    def sparse_adam(*args: Any, **kwargs: Any) -> None:
        *first, steps = args
        if getattr(_current, "depth", 0):
            steps = [_read(s) if isinstance(s, torch.Tensor) else s for s in steps]
        theirs(*first, steps, **kwargs)

    return sparse_adam


@functools.lru_cache(maxsize=4)
def _roots(theirs: Any) -> Any:
    """``math`` as that function finds it, which gives bias corrections to ``math.sqrt``."""

    def sqrt(x: Any) -> Any:
        return x**0.5 if isinstance(x, Followed) else theirs.sqrt(x)

    return types.SimpleNamespace(**{**vars(theirs), "sqrt": sqrt})


def _places(opt: Optimizer) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """What is another function while an optimizer steps."""
    yield torch.Tensor, "item", _reading
    scope = inspect.unwrap(type(opt).step).__globals__
    for name in ("min", "max"):
        yield scope, name, functools.partial(extremum, name)
    if isinstance(opt, torch.optim.SparseAdam):
        from torch.optim import _functional

        yield _functional, "sparse_adam", _sparse_adam
        yield _functional, "math", _roots


def _default_device() -> Callable[[], None]:
    """Makes the device this thread's default. Gives what ends that."""
    context = torch.device("pjrt")
    _without_notice(context.__enter__)
    return functools.partial(_without_notice, context.__exit__, None, None, None)


def _without_notice(change: Callable[..., Any], *args: Any) -> None:
    # torch notes the device in a variable of all threads too, which each puts back as it was when it came.
    with _DEVICE_LOCK:
        noted = torch.utils._device.CURRENT_DEVICE
        change(*args)
        torch.utils._device.CURRENT_DEVICE = noted


class _Steps:
    """Every ``step`` of an optimizer of torch's in one trace: what it reads from the device is followed."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], Any]] = []

    def before(self, opt: Optimizer) -> None:
        if isinstance(opt, torch.optim.LBFGS) or not type(opt).__module__.startswith("torch.optim"):
            return
        self.undo.append(_default_device())
        self.undo.append(put(_places(opt)))
        _current.depth = 1
        self.undo.append(functools.partial(setattr, _current, "depth", 0))
        if type(opt).__name__ in _BRANCHING:
            for group in opt.param_groups:
                if group.get("capturable") is False:
                    group["capturable"] = True
                    self.undo.append(functools.partial(group.update, capturable=False))

    def leave(self) -> None:
        while self.undo:
            self.undo.pop()()


def _before(opt: Optimizer, args: Any, kwargs: Any) -> None:
    if (steps := getattr(_current, "steps", None)) is not None:
        steps.before(opt)


def _after(opt: Optimizer, args: Any, kwargs: Any) -> None:
    if (steps := getattr(_current, "steps", None)) is not None:
        steps.leave()


@functools.cache
def register() -> None:
    """Hooks around the steps of all optimizers, once for all threads: they do nothing where none traces."""
    register_optimizer_step_pre_hook(_before)
    register_optimizer_step_post_hook(_after)


def _input(number: Number, run: Run | None) -> Any:
    """What stands for a number in the trace."""
    if number.ours:
        return Followed(_native.number_input(number.value, False))
    if run is not None:
        return run.input(number.value)
    bound = _native.number_specialize(_native.number_input(number.value, False))
    return int(bound) if type(number.value) is int else bound


@contextlib.contextmanager
def followed(walk: Walk, run: Run | None, stepped: list[Optimizer]) -> Iterator[dict[int, Any]]:
    """Puts followed numbers where the optimizers keep theirs, while the trace runs; gives those of the arguments, by
    leaf. Without ``run``, only numbers of torch's own optimizers are followed: the program is bound to the others.
    ``stepped`` gets the optimizers whose state has a form of its own for programs."""
    arguments: dict[int, Any] = {}
    changed: list[tuple[Number, Any, Any]] = []
    steps, outer = _Steps(), getattr(_current, "steps", None)
    walk.stored.clear()
    walk.asked = None if run is None else run.asked
    try:
        tuples: dict[tuple[int, Any], list[Any]] = {}
        for n in walk.numbers:
            number = _input(n, run)
            if n.container is None:
                arguments[n.key] = number
            elif isinstance(n.key, tuple):
                whole = n.whole_place()
                parts = tuples.setdefault((id(n.container), whole.key), [])
                parts.append(number)
                if len(parts) == len(old := whole.get()):
                    _exchange(whole, old, tuple(parts), changed)
            else:
                _exchange(n, n.value, number, changed)
        if walk.optimizers:
            register()
            _current.steps = steps
        with _lbfgs.replaced(walk.optimizers, stepped):
            yield arguments
    finally:
        _current.steps = outer
        steps.leave()
        for n, old, given in changed:
            now = n.get()
            if now is NOTHING or not _is_number(now):
                continue
            if now is not given:
                walk.stored.append((n, now))
            n.put(old)


def _exchange(n: Number, old: Any, new: Any, changed: list[tuple[Number, Any, Any]]) -> None:
    changed.append((n, old, new))
    n.put(new)


def _is_number(x: Any) -> bool:
    """Whether it is what a program can store: a number, or a tuple of numbers."""
    return all(map(_is_number, x)) if type(x) is tuple else isinstance(x, float | int) and not isinstance(x, bool)
