"""torch CPU is the judge of calls that a kernel refuses: what it says of them is what is raised."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from . import _native

# Calls with more bytes than this are not tried on the CPU for the sake of an error.
_TRIED_UP_TO = 1 << 26
_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


class _Trying(threading.local):
    now = False


_trying = _Trying()


def by_name(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises what torch CPU raises for a call that a kernel refuses as a mistake; nothing if it would take it."""
    from ._registry import overload

    if hasattr(torch.ops.aten, name.partition(".")[0]):  # some rows are ops of ours
        raise_as_cpu(overload(name), args, kwargs)


def on_host(args: tuple[Any, ...], kwargs: dict[str, Any], to_host: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The arguments with what ``to_host`` gives for their tensors, and the CPU for the device."""
    if isinstance(kwargs.get("device"), torch.device) and kwargs["device"].type == "pjrt":
        kwargs = {**kwargs, "device": torch.device("cpu")}
    return tree_map_only(torch.Tensor, to_host, (args, kwargs))


def raise_as_cpu(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: type[Exception] = Exception) -> None:
    """Raises torch CPU's error of this kind for these arguments, if it has one.

    In a trace, whose tensors have no values, it is tried with zeros of their shapes.
    """
    leaves = tree_leaves((args, kwargs))
    tensors = [t for t in leaves if isinstance(t, torch.Tensor) and t.device.type == "pjrt"]
    sparse = any(t.layout != torch.strided for t in tensors)
    if _trying.now or sparse or op.namespace != "aten" or sum(t.nbytes for t in tensors) > _TRIED_UP_TO:
        return
    traced = _native.tracing()
    if traced and not all(isinstance(x, torch.Tensor) or type(x) in _PLAIN for x in leaves):
        return

    def to_host(t: torch.Tensor) -> torch.Tensor:
        if t.device.type != "pjrt":
            return t.detach().clone()  # what is tried changes nothing of the caller's
        return torch.zeros(t.shape, dtype=t.dtype, device="cpu") if traced else t.detach().cpu()

    theirs: Exception | None = None
    _trying.now = True
    try:
        host_args, host_kwargs = on_host(args, kwargs, to_host)
        with torch.random.fork_rng(devices=()):
            try:
                op(*host_args, **host_kwargs)
            except Exception as error:
                theirs = error
    finally:
        _trying.now = False
    if isinstance(theirs, kind) and not (traced and type(theirs).__name__ == "_LinAlgError"):
        raise theirs
