"""Seeds from the generators that users pass."""

from __future__ import annotations

import torch

from . import _native
from ._jit_errors import refusal


def draw_seed(generator: torch.Generator) -> int:
    """64 bits drawn from a CPU generator, which advances it: the seed of one call."""
    if _native.tracing():
        raise refusal("generator")
    if generator.device.type != "cpu":
        raise RuntimeError(f"generator: got one on {generator.device}, expected a CPU generator as the source of seeds")
    low, high = torch.randint(0, 1 << 32, (2,), generator=generator, device="cpu", dtype=torch.int64).tolist()
    return int(low | high << 32)
