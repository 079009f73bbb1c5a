"""Memory that nobody wrote yet, and sequences whose length follows from their bounds."""

from __future__ import annotations

from typing import Any

import torch

from . import _native
from ._copy import store_out

_CHANNELS_LAST = {torch.channels_last: (0, 2, 3, 1), torch.channels_last_3d: (0, 2, 3, 4, 1)}


def _check(op: str, layout: Any, device: Any, pin_memory: Any) -> None:
    if layout is not None and layout != torch.strided:
        raise NotImplementedError(f"{op}: argument `layout`: got {layout}, expected torch.strided on the pjrt device")
    if pin_memory:
        raise RuntimeError(f"{op}: argument `pin_memory`: only dense CPU tensors can be pinned, got a pjrt tensor")
    index = torch.device(device).index if device is not None else None
    if index not in (None, 0):
        raise RuntimeError(
            f"{op}: argument `device`: got pjrt:{index}, expected pjrt:0, the only device of this process"
        )


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
    return _filled(_native.empty(list(size), strides, dtype or torch.get_default_dtype()))


def _filled(fresh: torch.Tensor) -> torch.Tensor:
    """Memory that nobody wrote, with what torch puts there when asked for deterministic algorithms."""
    if fills():
        fill_unwritten(fresh)
    return fresh


def fills() -> bool:
    """Whether memory that nobody wrote is to be filled."""
    return bool(torch._C._get_deterministic_algorithms() and torch._C._get_deterministic_fill_uninitialized_memory())


def fill_unwritten(t: torch.Tensor) -> None:
    """NaN, or the greatest integer."""
    if t.dtype.is_floating_point or t.dtype.is_complex:
        t.fill_(float("nan"))
    else:
        t.fill_(True if t.dtype == torch.bool else torch.iinfo(t.dtype).max)


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
    return _filled(_native.empty(list(size), list(stride), dtype or torch.get_default_dtype()))


_arange_kernel: Any = None


def _sequence(n: int, start: Any, step: Any, dtype: torch.dtype) -> torch.Tensor:
    """``n`` numbers from ``start`` on, ``step`` apart; neither is part of the compiled program."""
    global _arange_kernel
    if _arange_kernel is None:
        _arange_kernel = _native.kernel("_arange", "_arange", "functional")
    return _arange_kernel(n, start, step, dtype=dtype)


def arange_start_step(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    _check("arange", layout, device, pin_memory)
    plan = torch.arange(start, end, step, dtype=dtype, device="meta")
    if not plan.dtype.is_floating_point:
        start, step = int(start), int(step)
    return _sequence(plan.numel(), start, step, plan.dtype)


def arange_start(start: Any, end: Any, **options: Any) -> torch.Tensor:
    return arange_start_step(start, end, 1, **options)


def arange(end: Any, **options: Any) -> torch.Tensor:
    return arange_start_step(0, end, 1, **options)


def arange_start_out(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    return _stored("arange", out, arange_start_step(start, end, step, dtype=out.dtype))


def _stored(op: str, out: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    store_out(op, out, result)
    return out


def range_step(
    start: Any, end: Any, step: Any = 1, *, dtype: torch.dtype | None = None, **options: Any
) -> torch.Tensor:
    _check("range", options.get("layout"), options.get("device"), options.get("pin_memory"))
    plan = torch.empty(0, dtype=dtype, device="meta")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    n = int((end - start) / step) + 1
    return _sequence(n, start, step, plan.dtype)


def range_(start: Any, end: Any, **options: Any) -> torch.Tensor:
    return range_step(start, end, 1, **options)


def range_out(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    return _stored("range", out, range_step(start, end, step, dtype=out.dtype))


def linspace_out(start: Any, end: Any, steps: int, *, out: torch.Tensor) -> torch.Tensor:
    return _stored("linspace", out, torch.linspace(start, end, steps, dtype=out.dtype, device=out.device))


def logspace_out(start: Any, end: Any, steps: int, base: float = 10.0, *, out: torch.Tensor) -> torch.Tensor:
    return _stored("logspace", out, torch.logspace(start, end, steps, base, dtype=out.dtype, device=out.device))


def _triangle(name: str) -> Any:
    """Indices of a triangle: known before anything runs, so they are computed on the host."""

    def kernel(
        row: int,
        col: int,
        offset: int = 0,
        *,
        dtype: torch.dtype | None = torch.int64,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool | None = None,
    ) -> torch.Tensor:
        _check(name, layout, device, pin_memory)
        return _native.upload(getattr(torch, name)(row, col, offset, dtype=dtype, device="cpu"))

    return kernel


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """A window, computed on the host as the indices of a triangle are: torch's own kernel knows no other device."""
    _check("kaiser_window", layout, device, pin_memory)
    return _native.upload(torch.kaiser_window(window_length, periodic, beta, dtype=dtype, device="cpu"))


def efficient_zeros(
    size: list[int],
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Autograd's zero tensor, which other devices keep without memory: here zeros like any other."""
    return torch.zeros(size, dtype=dtype, layout=layout, device=device or "pjrt", pin_memory=pin_memory)


KERNELS = {
    "_efficientzerotensor": efficient_zeros,
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "arange": arange,
    "arange.start": arange_start,
    "arange.start_step": arange_start_step,
    "arange.start_out": arange_start_out,
    "range": range_,
    "range.step": range_step,
    "range.out": range_out,
    "kaiser_window": kaiser_window,
    "kaiser_window.periodic": kaiser_window,
    "kaiser_window.beta": kaiser_window,
    "linspace.out": linspace_out,
    "logspace.out": logspace_out,
    "tril_indices": _triangle("tril_indices"),
    "triu_indices": _triangle("triu_indices"),
}
