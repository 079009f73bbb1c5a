"""Ops without a kernel run on the CPU: counted, warned of once each, forbidden by ``TORCH_PJRT_FALLBACK=error``."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from . import _judge, _native

counts: Counter[str] = Counter()


def _name(op: Any) -> str:
    base = op._schema.name.removeprefix("aten::")
    overload = op._schema.overload_name
    return f"{base}.{overload}" if overload else base


def by_name(name: str, why: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The fallback for a call that a kernel has no lowering for; ``why`` says what is missing."""
    from ._registry import overload

    if not hasattr(torch.ops.aten, name.partition(".")[0]):
        raise NotImplementedError(f"{name}: {why}")
    return run(overload(name), args, kwargs, why)


def run(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], why: str = "") -> Any:
    """Copies the arguments to the CPU, runs ``op`` there, and copies results and mutated arguments back.

    Raises ``NotImplementedError`` when fallbacks are forbidden.
    """
    name = _name(op)
    reason = f" ({why})" if why else ""
    if _native.tracing():
        from ._jit_errors import refusal

        _judge.raise_as_cpu(op, args, kwargs, NotImplementedError)
        kind = "fallback" if op.namespace == "aten" else "custom"
        raise refusal(kind, f": {name}{reason}")
    if os.environ.get("TORCH_PJRT_FALLBACK", "").lower() == "error":
        _judge.raise_as_cpu(op, args, kwargs)
        raise NotImplementedError(
            f"{name}: no kernel on the pjrt device{reason}, and TORCH_PJRT_FALLBACK=error forbids the CPU. "
            "Move the tensors with .cpu(), or unset the variable"
        )
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def to_host(t: torch.Tensor) -> torch.Tensor:
        if t.device.type != "pjrt":
            return t
        if id(t) not in moved:
            moved[id(t)] = (t, t.detach().cpu())
        return moved[id(t)][1]

    host_args, host_kwargs = _judge.on_host(args, kwargs, to_host)
    # What torch CPU has no kernel for either is an error as it is there, not a fallback.
    result = op(*host_args, **host_kwargs)
    counts[name] += 1
    if counts[name] == 1:
        warnings.warn(f"torch_pjrt: {name} has no kernel{reason} and falls back to CPU", UserWarning, stacklevel=4)
    back = {id(host): device for device, host in moved.values()}
    for spec, value in zip(op._schema.arguments, _in_order(op, args, kwargs), strict=False):
        if spec.alias_info is not None and spec.alias_info.is_write:
            tree_map_only(torch.Tensor, lambda t: _write_back(t, moved), value)
    return tree_map_only(torch.Tensor, lambda t: back[id(t)] if id(t) in back else t.to("pjrt"), result)


def _in_order(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    names = [a.name for a in op._schema.arguments]
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)]


def _write_back(t: torch.Tensor, moved: dict[int, tuple[torch.Tensor, torch.Tensor]]) -> None:
    if id(t) in moved:
        host = moved[id(t)][1]
        if t.shape != host.shape and not t.is_sparse:
            t.resize_(host.shape)
        t.copy_(host)


_library: Any = None


def register() -> None:
    """Catches every op that has no kernel of ours and no composite one of torch's."""
    global _library
    _library = torch._C._dispatch_library("IMPL", "_", "")
    _library.fallback("PrivateUse1", _caught, False)


def register_sparse() -> None:
    """The same for sparse tensors."""
    _library.fallback("SparsePrivateUse1", _caught, False)


def _caught(op: Any, *args: Any, **kwargs: Any) -> Any:
    return run(op, args, kwargs)
