"""``torch.optim.swa_utils.AveragedModel`` inside a trace: it counts its updates, and copies the model at the first.

torch asks for the count on the host. Inside a trace the count lives on the device; torch's own code then averages as it
does from the second update on, and where the count is zero the model's values are put in the place of what it gave.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from . import _native
from ._numbers import Followed


def settle(models: list[AveragedModel]) -> bool:
    """Moves the counts of models on the device there. True if any was moved."""
    moved = False
    for m in models:
        first = next(m.module.parameters(), None)
        if first is not None and first.device.type == "pjrt" and m.n_averaged.device.type == "cpu":
            m._buffers["n_averaged"] = m.n_averaged.to("pjrt")
            moved = True
    return moved


class _Count:
    """The count as torch's code sees it: not zero."""

    def __init__(self, count: torch.Tensor, average: Any) -> None:
        self._count = count
        # torch's own averages take it as a number.
        theirs = average is None or average.__module__ == AveragedModel.__module__
        self._given: Any = Followed(_native.trace_read(count.float())) if theirs else count

    def __eq__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]

    def to(self, device: Any) -> Any:
        return self._given

    def __iadd__(self, other: int) -> torch.Tensor:
        return self._count.add_(other)


@functools.cache
def register() -> None:
    """Makes every AveragedModel follow its count inside a trace."""
    outside = AveragedModel.update_parameters

    def update_parameters(self: AveragedModel, model: torch.nn.Module) -> None:
        count = self.n_averaged
        if not _native.tracing() or count.device.type != "pjrt":
            outside(self, model)
            return
        first = count == 0
        self._buffers["n_averaged"] = _Count(count, self.multi_avg_fn or self.avg_fn)  # type: ignore[assignment]
        try:
            outside(self, model)
        finally:
            self._buffers["n_averaged"] = count
        pairs: Any = zip(self.module.parameters(), model.parameters(), strict=False)
        if self.use_buffers:
            pairs = itertools.chain(pairs, zip(self.module.buffers(), model.buffers(), strict=False))
        with torch.no_grad():
            for averaged, p in pairs:
                averaged.copy_(torch.where(first, p.detach(), averaged))

    AveragedModel.update_parameters = update_parameters  # type: ignore[method-assign]
