"""Memory that nobody wrote yet."""

from __future__ import annotations

from typing import Any

import torch

from . import _native

_CHANNELS_LAST = {torch.channels_last: (0, 2, 3, 1), torch.channels_last_3d: (0, 2, 3, 4, 1)}


def _check(op: str, layout: Any, device: Any, pin_memory: Any) -> None:
    if layout is not None and layout != torch.strided:
        raise NotImplementedError(f"{op}: argument `layout`: got {layout}, expected torch.strided on the pjrt device")
    if pin_memory:
        raise RuntimeError(f"{op}: argument `pin_memory`: only dense CPU tensors can be pinned, got a pjrt tensor")
    index = torch.device(device).index if device is not None else None
    if index not in (None, 0):
        raise RuntimeError(f"{op}: argument `device`: got pjrt:{index}, expected pjrt:0, the only device of this process")


def empty(
    size: list[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    _check("empty", layout, device, pin_memory)
    strides = None
    order = _CHANNELS_LAST.get(memory_format)  # type: ignore[arg-type]
    if order is not None:
        if len(size) != len(order):
            raise RuntimeError(f"required rank {len(order)} tensor to use {memory_format} format")
        strides, step = [0] * len(size), 1
        for d in reversed(order):
            strides[d] = step
            step *= max(size[d], 1)
    return _native.empty(list(size), strides, dtype or torch.get_default_dtype())


def empty_strided(
    size: list[int],
    stride: list[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    _check("empty_strided", layout, device, pin_memory)
    return _native.empty(list(size), list(stride), dtype or torch.get_default_dtype())


KERNELS = {"empty.memory_format": empty, "empty_strided": empty_strided}
