"""``torch.utils.checkpoint`` inside a trace: the second computation really happens.

Equal operations of a program are one, so what checkpoint computes again would be found and kept instead. The inputs of
the second computation therefore go through a barrier, and it draws the random numbers that the first drew.
"""

from __future__ import annotations

import functools
import inspect
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


def _again(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` as it is computed a second time, with the random numbers that come next now."""
    state = _native.trace_rng_save()

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _behind_barrier((args, kwargs))
        now = _native.trace_rng_save()
        _native.trace_rng_load(state)
        try:
            return fn(*args, **kwargs)
        finally:
            _native.trace_rng_load(now)

    return call


@functools.cache
def register() -> None:
    """Makes torch's checkpoint ask for its second computation in this way, inside a trace."""
    name = "_checkpoint_without_reentrant_generator"
    if hasattr(theirs, f"{name}_impl"):  # newer torch calls this one
        name += "_impl"
    generator = getattr(theirs, name)
    function = theirs.CheckpointFunction

    signature = inspect.signature(generator)

    def without_reentrant(*args: Any, **kwargs: Any) -> Any:
        if not _native.tracing():
            return generator(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.arguments["preserve_rng_state"] = False
        first = next(iter(bound.arguments))
        bound.arguments[first] = _again(bound.arguments[first])
        return generator(*bound.args, **bound.kwargs)

    class Reentrant(function):  # type: ignore[misc, valid-type]
        """The variant that calls backward inside backward; in a trace it is the other one."""

        @classmethod
        def apply(cls, fn: Any, preserve: bool, *args: Any) -> Any:
            if _native.tracing():
                return theirs.checkpoint(fn, *args, use_reentrant=False, preserve_rng_state=preserve)
            return function.apply(fn, preserve, *args)

    setattr(theirs, name, without_reentrant)
    theirs.CheckpointFunction = Reentrant  # type: ignore[misc]
