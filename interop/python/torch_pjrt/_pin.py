"""``tensor.pin_memory()`` where pjrt is the accelerator: a PJRT plugin takes any host memory, so none is pinned.

Without this torch would ask a C++ hook for an allocator of pinned memory and fail, in data loaders with
``pin_memory=True`` above all. The result is a copy, as torch promises, and ``is_pinned()`` says False.
"""

from __future__ import annotations

from typing import Any

import torch


def _pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    if device is not None and torch.device(device).type != "pjrt":
        raise RuntimeError(f"pin_memory: device: got {device}, expected pjrt, which is this process's accelerator")
    return self.clone()


def register() -> Any:
    """Registers the kernel for CPU tensors. The returned library must stay alive."""
    library = torch._C._dispatch_library("IMPL", "aten", "")
    library.impl("_pin_memory", "CPU", _pin_memory)
    return library
