"""``torch.amp.GradScaler`` inside a trace: the optimizer always steps, and the step is taken back where a gradient was
infinite. Outside it reads a number from the device to decide."""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import _native


@functools.cache
def register() -> None:
    """Makes every GradScaler decide on the device inside a trace."""
    from torch.amp import GradScaler

    outside = GradScaler._maybe_opt_step

    def maybe_step(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        found = list(state["found_inf_per_device"].values())
        if not _native.tracing() or any(f.device.type != "pjrt" for f in found):
            return outside(self, optimizer, state, *args, **kwargs)
        infinite = torch.stack([f.reshape(()) for f in found]).sum() > 0
        _native.trace_watch()
        result = optimizer.step(*args, **kwargs)
        _native.trace_choose(infinite)
        return result

    GradScaler._maybe_opt_step = maybe_step  # type: ignore[method-assign, assignment]
