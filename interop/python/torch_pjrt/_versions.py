"""Which tensors a function wrote to."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ._jit_errors import refusal
from ._moved import Moved
from ._request import Request
from ._state import Walk
from ._storage import slot_of


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


def written_leaves(request: Request, versions: Versions, moved: Moved, cells: Collection[int] = ()) -> set[int]:
    """The leaves that the function wrote to, of which none may be a copy. ``cells`` are those that its program writes:
    autograd does not count what is written through ``.data``, and a tensor without elements has no cell."""
    counted, replaced = set(versions.written()), {id(t) for t, _ in moved.now}
    tensors = [(i, x) for i, x in enumerate(request.leaves) if isinstance(x, torch.Tensor)]
    found = {i for k, (i, x) in enumerate(tensors) if k in counted or id(x) in replaced or slot_of(x) in cells}
    for i in sorted(found & request.hosts):
        raise refusal("argument", f": {request.names[i]}")
    return found
