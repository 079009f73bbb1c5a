"""Which tensors a function wrote to, as autograd counts it."""

from __future__ import annotations

import torch

from ._state import Walk


class Versions:
    """Autograd's counts of writes to the tensors that a function reaches."""

    def __init__(self, before: Walk) -> None:
        self.tensors = [t for t, _, _ in before.tensors]
        # Those of inference mode have none.
        self.were = [None if t.is_inference() else t._version for t in self.tensors]

    def written(self) -> list[int]:
        """Indices of the tensors that were written to since."""
        pairs = enumerate(zip(self.tensors, self.were, strict=True))
        return [i for i, (t, was) in pairs if was is not None and t._version != was]

    def restore(self) -> None:
        """Takes back what was counted since."""
        found = [(self.tensors[i], self.were[i]) for i in self.written()]
        if found:
            torch._C._autograd._unsafe_set_version_counter(*map(tuple, zip(*found, strict=True)))
