"""Settings of the process that decide what a function computes."""

from __future__ import annotations

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


def modes() -> tuple[Any, ...]:
    """The settings, in the order of ``NAMES``."""
    return (
        _C.is_grad_enabled(),
        _C._is_inference_mode_enabled()
        if hasattr(_C, "_is_inference_mode_enabled")
        else torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("pjrt"),
        torch.get_autocast_dtype("pjrt"),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        _C._get_deterministic_algorithms(),
        torch.is_anomaly_enabled(),
    )
