"""Batch normalization with ``momentum=None`` inside a trace: torch counts the batches on the device and asks for the
count on the host, to weigh the last batch by it. Here the weight is a tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from . import _native
from ._state import Walk


def places(before: Walk) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """What lets modules that the walk met average over all batches."""
    if any(isinstance(m, _BatchNorm) and m.momentum is None for m, *_ in before.objects):
        yield _BatchNorm, "forward", _averaging
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            yield torch.nn.SyncBatchNorm, "forward", _averaging


@functools.lru_cache(maxsize=4)
def _averaging(theirs: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(theirs)
    def forward(self: Any, input: torch.Tensor) -> torch.Tensor:
        count = self.num_batches_tracked
        averages = self.momentum is None and self.training and self.track_running_stats and count is not None
        if not (averages and _native.tracing() and count.device.type == "pjrt"):
            return theirs(self, input)
        self._check_input_dim(input)
        mean, var = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        out = torch.nn.functional.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        with torch.no_grad():
            weight = 1.0 / count.add_(1).double()
            for running, of_batch in ((self.running_mean, mean), (self.running_var, var)):
                running.copy_((1 - weight) * running + weight * of_batch)
        return out

    return forward
