"""What a call does in Python once its program ran: floats that the function stores, schedules that it steps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from ._floats import evaluate, expression_of
from ._jit_errors import refusal
from ._later import Later
from ._state import Walk


class Afterwards:
    """Made while the trace is there, from what it found in the places of its numbers."""

    def __init__(self, before: Walk) -> None:
        self._numbers = [n for n in before.numbers if n.container is not None]
        self._stored = [(n, _expression(value)) for n, value in before.stored]
        self._steps = list(before.steps)
        asked = before.asked
        bound = {n.path for i, n in enumerate(before.numbers) if not n.ours and (asked is None or i in asked)}
        self.unsteady = [n.path for n, _ in before.stored if n.path in bound]
        """Places that the function changes, where the program is bound to what it found there."""

    def __bool__(self) -> bool:
        return bool(self._stored or self._steps)

    def numbers(self, floats: list[float]) -> list[float]:
        """All numbers of a call with these float arguments."""
        return [*floats, *(n.read() for n in self._numbers)]

    def happen(self, numbers: list[float]) -> None:
        """Does it, for a call with these numbers."""
        for n, value in [(n, _value(e, numbers)) for n, e in self._stored]:
            n.whole_place().put(value)
        for step in self._steps:
            step()


def _expression(value: Any) -> Any:
    if isinstance(value, tuple):
        return ("tuple", [expression_of(v) for v in value])
    return expression_of(value)


def _value(e: Any, numbers: list[float]) -> Any:
    return tuple(evaluate(v, numbers) for v in e[1]) if e[0] == "tuple" else evaluate(e, numbers)


@contextlib.contextmanager
def postponed(before: Walk) -> Iterator[None]:
    """A schedule that the function steps is stepped after each run of the program, which has the learning rate as an
    input. What it would change is out of reach for the rest of the function."""
    before.steps.clear()
    changed = []
    try:
        for s in before.schedules:
            for name, method in (("step", _postpone(s, before)), ("get_last_lr", _last_lr(s))):
                s.__dict__[name] = method
                changed.append((s, name))
        yield
    finally:
        for s, name in changed:
            s.__dict__.pop(name, None)
        for s in before.schedules:
            for group in s.optimizer.param_groups:
                for key, v in group.items():
                    if isinstance(v, Later):
                        group[key] = v.held


def _postpone(s: LRScheduler, before: Walk) -> Callable[..., None]:
    def step(*args: Any, **kwargs: Any) -> None:
        if any(
            isinstance(a, torch.Tensor) or type(a).__module__ == "torch_pjrt._floats" for a in (*args, *kwargs.values())
        ):
            raise refusal("schedule", f": {type(s).__name__}.step")
        before.steps.append(functools.partial(type(s).step, s, *args, **kwargs))
        for group in s.optimizer.param_groups:
            for key in ("lr", "momentum", "betas"):
                if key in group:
                    group[key] = Later(group[key], type(s).__name__)

    return step


def _last_lr(s: LRScheduler) -> Callable[[], list[Any]]:
    def get_last_lr() -> list[Any]:
        rates = [group["lr"] for group in s.optimizer.param_groups]
        for r in rates:
            if isinstance(r, Later):
                r.refuse()
        return rates

    return get_last_lr
