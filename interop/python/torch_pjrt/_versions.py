"""Which tensors a function wrote to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from ._border import is_spent
from ._jit_errors import error, refusal
from ._marks import Marks
from ._moved import Moved
from ._request import Request
from ._state import Walk
from ._storage import slot_of


class Versions:
    """Autograd's counts of writes to the tensors that a function reaches."""

    def __init__(self, before: Walk) -> None:
        self.tensors = [t for t, _, _ in before.tensors]
        self._paths = [path for _, path, _ in before.tensors]
        # Those of inference mode have none.
        self.were = [None if t.is_inference() else t._version for t in self.tensors]
        # A view's own node is made anew when it is asked for after a write.
        self._bases = [t if t._base is None else t._base for t in self.tensors]
        self._nodes = [t.grad_fn for t in self._bases]
        self._own = [t.grad_fn for t in self.tensors]
        self._required = [t.requires_grad for t in self.tensors]
        self._marks = Marks(self.tensors)

    def written(self) -> list[int]:
        """Indices of the tensors that were written to since."""
        pairs = enumerate(zip(self.tensors, self.were, strict=True))
        return [i for i, (t, was) in pairs if was is not None and t._version != was]

    def check_graphs(self) -> None:
        """Refuses writes of what has a gradient: the tensor would be part of this trace's graph from now on. A sum of
        losses, say, through which no gradient goes any more, may grow."""
        for i, (t, node) in enumerate(zip(self.tensors, self._own, strict=True)):
            if node is not None and t.grad_fn is None:
                raise error(
                    f"`{self._paths[i]}` left the graph that it was in (`detach_()`), for good, which a call cannot "
                    "repeat. Way out: `detach()`, which makes a new tensor, or do it outside."
                )
        for i in self.written():
            t, node = self._bases[i], self._nodes[i]
            if t.grad_fn is node:
                continue
            harmless = node is None and is_spent(t)
            if node is None:
                t.detach_()
            if not harmless:
                raise refusal("in place", f": {self._paths[i]}")

    def required_grad(self, i: int) -> bool:
        """Whether tensor ``i`` did, when the function was called."""
        return self._required[i]

    def marked(self) -> list[Any]:
        """What a call does to leaves that the function lets require a gradient, or not, as ``Entry`` takes it."""
        pairs = [(t, was) for t, was in zip(self.tensors, self._required, strict=True) if t.is_leaf]
        return [
            (t, True, "requires_grad", ("object", t.requires_grad), None) for t, was in pairs if t.requires_grad != was
        ]

    def restore(self) -> None:
        """Takes back what was counted since, and what autograd was told of the tensors."""
        self._marks.restore()
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
        raise refusal("argument", f": {request.names[i]}", request.place)
    return found
