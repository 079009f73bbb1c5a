"""Settings of the process that decide what a function computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._device import DeviceContext

_C = torch._C
NAMES = (
    "grad mode",
    "inference mode",
    "autocast",
    "autocast dtype",
    "autocast cache",
    "default dtype",
    "matmul precision",
    "deterministic algorithms",
    "anomaly mode",
    "function modes",
    "dispatch modes",
    "saved tensors hooks",
)


def _first(*names: str) -> Callable[[], Any]:
    """The function of torch that has one of these names; a search at each call would cost as much as all of them."""
    return next(f for name in names for module in (_C, torch) if (f := getattr(module, name, None)) is not None)


_is_inference_mode_enabled = _first("_is_inference_mode_enabled", "is_inference_mode_enabled")
_top_hooks = _C._autograd._top_saved_tensors_default_hooks
_get_float32_matmul_precision = _first("_get_float32_matmul_precision", "get_float32_matmul_precision")


def _autocast() -> tuple[Any, ...]:
    """The devices for which autocast is on; tensors of the others are met in a function too."""
    return tuple((d, _C.get_autocast_dtype(d)) for d in ("pjrt", "cpu", "cuda") if _C.is_autocast_enabled(d))


def _function_modes() -> tuple[Any, ...]:
    """What stands between a function of torch and its call. Two of the default device are equal."""
    stack = [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]
    return tuple(("default device", str(m.device)) if type(m) is DeviceContext else m for m in stack)


def _dispatch_modes() -> tuple[Any, ...]:
    return tuple(_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack()))


def _code(f: Any) -> Any:
    """A function's code: ``torch.utils.checkpoint`` makes its hooks anew at each call."""
    return getattr(f, "__code__", f)


def modes() -> tuple[Any, ...]:
    """The settings, in the order of ``NAMES``."""
    return (
        _C.is_grad_enabled(),
        _is_inference_mode_enabled(),
        _C._is_any_autocast_enabled() and _autocast(),
        _C.get_autocast_dtype("pjrt"),
        _C.is_autocast_cache_enabled(),
        _C.get_default_dtype(),
        _get_float32_matmul_precision(),
        _C._get_deterministic_algorithms(),
        _C.is_anomaly_enabled(),
        _C._len_torch_function_stack() and _function_modes(),
        _C._len_torch_dispatch_stack() and _dispatch_modes(),
        (hooks := _top_hooks(True)) and tuple(map(_code, hooks)),
    )
