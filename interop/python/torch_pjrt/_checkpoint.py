"""``torch.utils.checkpoint`` inside a trace: the second computation really happens.

Equal operations of a program are one, so what checkpoint computes again would be found and kept instead. The inputs of
the second computation therefore go through a barrier, and it draws the random numbers that the first drew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as theirs

from . import _native


def _behind_barrier(args: Any) -> Any:
    leaves, spec = pytree.tree_flatten(args)
    at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.device.type == "pjrt" and x.numel()]
    moved = _native.trace_barrier([leaves[i].detach() for i in at]) if at else []
    for i, t in zip(at, moved, strict=True):
        leaves[i] = t.requires_grad_(leaves[i].requires_grad)
    return pytree.tree_unflatten(leaves, spec)


def _twice(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn``, whose calls after the first are computations of their own with the same random numbers."""
    state: list[int] = []

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _native.tracing():
            return fn(*args, **kwargs)
        if not state:
            state.append(_native.trace_rng_save())
            return fn(*args, **kwargs)
        args, kwargs = _behind_barrier((args, kwargs))
        now = _native.trace_rng_save()
        _native.trace_rng_load(state[0])
        try:
            return fn(*args, **kwargs)
        finally:
            _native.trace_rng_load(now)

    return call


@functools.cache
def register() -> None:
    """Makes torch's checkpoint ask for its second computation in this way, inside a trace."""
    generator = theirs._checkpoint_without_reentrant_generator
    function = theirs.CheckpointFunction

    def without_reentrant(fn: Any, preserve_rng_state: bool = True, *rest: Any, **kwargs: Any) -> Any:
        if _native.tracing():
            fn, preserve_rng_state = _twice(fn), False
        return generator(fn, preserve_rng_state, *rest, **kwargs)

    class Reentrant(function):  # type: ignore[misc, valid-type]
        """The variant that calls backward inside backward; in a trace it is the other one."""

        @classmethod
        def apply(cls, fn: Any, preserve: bool, *args: Any) -> Any:
            if _native.tracing():
                return theirs.checkpoint(fn, *args, use_reentrant=False, preserve_rng_state=preserve)
            return function.apply(fn, preserve, *args)

    theirs._checkpoint_without_reentrant_generator = without_reentrant
    theirs.CheckpointFunction = Reentrant  # type: ignore[misc]
