"""Settings of the process that decide what a function computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
)


def _first(*names: str) -> Callable[[], Any]:
    """The function of torch that has one of these names; a search at each call would cost as much as all of them."""
    return next(f for name in names for module in (_C, torch) if (f := getattr(module, name, None)) is not None)


_is_inference_mode_enabled = _first("_is_inference_mode_enabled", "is_inference_mode_enabled")
_get_float32_matmul_precision = _first("_get_float32_matmul_precision", "get_float32_matmul_precision")


def modes() -> tuple[Any, ...]:
    """The settings, in the order of ``NAMES``."""
    return (
        _C.is_grad_enabled(),
        _is_inference_mode_enabled(),
        _C.is_autocast_enabled("pjrt"),
        _C.get_autocast_dtype("pjrt"),
        _C.is_autocast_cache_enabled(),
        _C.get_default_dtype(),
        _get_float32_matmul_precision(),
        _C._get_deterministic_algorithms(),
        _C.is_anomaly_enabled(),
    )
