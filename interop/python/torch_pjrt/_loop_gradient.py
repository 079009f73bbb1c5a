"""The gradient of ``torch.while_loop`` inside a trace.

Its number of rounds is known to the device alone, so no tensor can hold what each round began with. A fixed number of
evenly spaced rounds is kept, and the others are run again from the kept one before: with as many rounds as fit, each
is run twice more, with ``s`` times as many about ``s / 2 + 2`` times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _control, _native
from ._jit_errors import no_graph

_LEAST, _MOST, _BYTES = 16, 1024, 1 << 26  # rounds that are kept, within so much memory where possible


class Loop(torch.autograd.Function):
    """``torch.while_loop`` over tensors: the results of the last round."""

    @staticmethod
    def forward(ctx: Any, condition: Callable[..., Any], body: Callable[..., Any], count: int, *values: Any) -> Any:
        carried, additional = values[:count], values[count:]

        def counted(rounds: torch.Tensor, *carry: Any) -> Any:
            return rounds + 1, *body(*carry, *additional)

        start = (_integer(0), *carried)
        rounds, *out = _control.loop(lambda _, *carry: condition(*carry, *additional), counted, start)
        tensors = [v for v in (rounds, *values) if isinstance(v, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.values = [None if isinstance(v, torch.Tensor) else v for v in values]
        ctx.body, ctx.count = body, count
        ctx.mark_non_differentiable(*(t for t in out if not _varies(t)))
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_graph("while_loop")
        rounds, *saved = ctx.saved_tensors
        tensors = iter(saved)
        values = [next(tensors) if v is None else v for v in ctx.values]
        carried = [v if isinstance(v, torch.Tensor) else _integer(v) for v in values[: ctx.count]]
        additional = values[ctx.count :]
        step = _Step(ctx.body, carried, additional)
        start = [g for g, t in zip(grads, carried, strict=True) if _varies(t)]
        start = [*start, *(torch.zeros_like(t) for t in step.others)]
        found = iter(_backwards(step, rounds, carried, start))
        return None, None, None, *(next(found) if _varies(v) else None for v in values)


class _Step:
    """A round and its gradient."""

    def __init__(self, body: Callable[..., Any], carried: list[torch.Tensor], additional: list[Any]) -> None:
        self.body, self.additional = body, additional
        self.count = sum(map(_varies, carried))
        self.others = [v for v in additional if _varies(v)]

    def __call__(self, carry: Any) -> Any:
        return self.body(*carry, *self.additional)

    def back(self, carry: Any, grads: Any) -> list[torch.Tensor]:
        """From the gradients of what the round gives, then of the additional inputs, to those of what it began with."""
        with torch.enable_grad():
            given = [v.detach().requires_grad_() if _varies(v) else v for v in (*carry, *self.additional)]
            out = [o for o in self.body(*given) if _varies(o)]
        leaves = [v for v in given if _varies(v)]
        pairs = [(o, g) for o, g in zip(out, grads[: self.count], strict=True) if o.requires_grad]
        made: Any = [None] * len(leaves)
        if pairs:
            outputs, seeds = zip(*pairs, strict=True)
            made = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
        made = [torch.zeros_like(v) if g is None else g for g, v in zip(made, leaves, strict=True)]
        return [*made[: self.count], *(a + b for a, b in zip(made[self.count :], grads[self.count :], strict=True))]


def _backwards(step: _Step, rounds: torch.Tensor, carried: list[torch.Tensor], grads: list[torch.Tensor]) -> Any:
    """The gradients before the first round."""
    size = sum(t.numel() * t.element_size() for t in carried)
    slots = max(_LEAST, min(_MOST, _BYTES // max(size, 1)))
    stride = torch.div(rounds + (slots - 1), slots, rounding_mode="floor").clamp(min=1)

    def keep(i: torch.Tensor, *rest: torch.Tensor) -> Any:
        carry, kept = rest[: len(carried)], rest[len(carried) :]
        place = torch.where(i % stride == 0, i // stride, slots)  # the last slot is for what is not kept
        for table, value in zip(kept, carry, strict=True):
            _native.trace_set_row(table, place, value)
        return i + 1, *step(carry), *kept

    empty = [t.new_zeros((slots + 1, *t.shape)) for t in carried]
    made = _control.loop(lambda i, *_: i < rounds, keep, (_integer(0), *carried, *empty))
    kept = made[1 + len(carried) :]

    def back(i: torch.Tensor, *grads: torch.Tensor) -> Any:
        place = i // stride
        carry = [_native.trace_row(k, place) for k in kept]
        again = lambda k, *carry: (k + 1, *step(carry))
        _, *carry = _control.loop(lambda k, *_: k < i, again, (place * stride, *carry))
        return i - 1, *step.back(carry, grads)

    return _control.loop(lambda i, *_: i >= 0, back, (rounds - 1, *grads))[1:]


def _varies(v: Any) -> bool:
    """Whether it can have a gradient."""
    return isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex())


def _integer(n: int) -> torch.Tensor:
    return torch.full((), n, dtype=torch.int64, device="pjrt")
