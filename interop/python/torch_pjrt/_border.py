"""Where the autograd graph of a trace meets graphs from outside: at tensors of closures that were computed before.

What is beyond is of one call: a program must not hold the gradients that the graph of the trace's own call has there.
So a gradient from outside goes to the tensor at the border, and on from there in the graph that it has at each call; a
backward() inside is refused.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from ._jit_errors import refusal
from ._state import Walk


class Border:
    """The tensors known to a trace that are in the middle of somebody's graph. A context: hooks wait there."""

    def __init__(self, before: Walk) -> None:
        known = [(t, path) for t, path, _ in before.tensors if t.grad_fn is not None]
        # Nodes are kept, so that no other one gets the address of one of them.
        self._nodes: dict[Any, str] = {t.grad_fn: path for t, path in known}
        self._tensors = {(t.grad_fn, t.output_nr): t for t, _ in known}
        self._handles: list[Any] = []
        self._cut = False

    def __enter__(self) -> Border:
        for node, path in self._nodes.items():
            self._handles.append(node.register_prehook(self._hook(path)))
        return self

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()

    def _hook(self, path: str) -> Any:
        def hook(gradients: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if not self._cut:
                raise refusal("backward", f": {path}")
            return tuple(None for _ in gradients)

        return hook

    def tensor(self, node: Any, output: int) -> torch.Tensor | None:
        """The tensor at the border that is this output of this node."""
        return self._tensors.get((node, output))

    @contextlib.contextmanager
    def cut(self) -> Iterator[bool]:
        """No gradient goes beyond the border; gives whether there is one."""
        self._cut = True
        try:
            yield bool(self._nodes)
        finally:
            self._cut = False


@functools.lru_cache(maxsize=1024)
def _saved_by(kind: type) -> tuple[str, ...]:
    """Attributes of a kind of node that raise once a backward has taken what it had saved."""
    return tuple(name for name in dir(kind) if name.startswith("_saved_") or name == "saved_tensors")


def is_spent(t: torch.Tensor) -> bool:
    """Whether a backward went through the graph of ``t`` and took what it had saved: no other one can."""
    seen: set[Any] = set()
    queue = [t.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in _saved_by(type(node)):
            try:
                getattr(node, name)
            except RuntimeError as error:
                # Hooks of the user's may raise too.
                if "second time" in str(error):
                    return True
        queue.extend(n for n, _ in node.next_functions)
    return False
