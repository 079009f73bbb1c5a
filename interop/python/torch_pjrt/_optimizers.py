"""Optimizers of torch.optim inside a trace, unmodified.

Their numbers (lr, betas, weight decay) become inputs of the program. What they read from the device with ``.item()``
(the step count) is followed too, and the counts that they keep on the CPU, or in
Python, move to the device.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
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


def _item(t: torch.Tensor) -> Any:
    return Followed(_native.trace_read(t)) if t.device.type == "pjrt" else _tensor_item(t)


class _Steps:
    """Hooks around every ``step`` of an optimizer of torch's: what it reads from the device is followed."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], Any]] = []

    def before(self, opt: Optimizer, args: Any, kwargs: Any) -> None:
        if isinstance(opt, torch.optim.LBFGS) or not type(opt).__module__.startswith("torch.optim"):
            return
        context = torch.device("pjrt")
        context.__enter__()
        self.undo.append(lambda: context.__exit__(None, None, None))
        torch.Tensor.item = _item  # type: ignore[method-assign, assignment]
        self.undo.append(_restore_item)
        scope = inspect.unwrap(type(opt).step).__globals__
        for name, function in (("min", min), ("max", max)):
            if name not in scope:
                scope[name] = extremum(name, function)
                self.undo.append(functools.partial(scope.pop, name))
        if isinstance(opt, torch.optim.SparseAdam):
            self._follow_sparse_adam()
        if type(opt).__name__ in _BRANCHING:
            for group in opt.param_groups:
                if group.get("capturable") is False:
                    group["capturable"] = True
                    self.undo.append(functools.partial(group.update, capturable=False))

    def _follow_sparse_adam(self) -> None:
        """Its function takes the counts of steps as numbers, and their bias corrections to ``math.sqrt``."""
        from torch.optim import _functional

        scope: dict[str, Any] = vars(_functional)
        theirs, numbers = scope["sparse_adam"], scope["math"]

        def sparse_adam(*args: Any, **kwargs: Any) -> None:
            *first, steps = args
            read = [_item(s) if isinstance(s, torch.Tensor) else s for s in steps]
            theirs(*first, read, **kwargs)

        def sqrt(x: Any) -> Any:
            return x**0.5 if isinstance(x, Followed) else numbers.sqrt(x)

        scope.update(sparse_adam=sparse_adam, math=types.SimpleNamespace(sqrt=sqrt))
        self.undo.append(functools.partial(scope.update, sparse_adam=theirs, math=numbers))

    def after(self, opt: Optimizer, args: Any, kwargs: Any) -> None:
        self.leave()

    def leave(self) -> None:
        while self.undo:
            self.undo.pop()()


def _restore_item() -> None:
    if "item" in vars(torch.Tensor):
        del torch.Tensor.item


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
    steps = _Steps()
    hooks = []
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
            hooks = [register_optimizer_step_pre_hook(steps.before), register_optimizer_step_post_hook(steps.after)]
        with _lbfgs.replaced(walk.optimizers, stepped):
            yield arguments
    finally:
        steps.leave()
        for hook in hooks:
            hook.remove()
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
