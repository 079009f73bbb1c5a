"""Pytrees, with dataclasses among their nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils import _pytree as pytree


def _register_dataclasses(leaves: list[Any]) -> bool:
    new = {type(x) for x in leaves if dataclasses.is_dataclass(x) and not isinstance(x, type)}
    for cls in new:
        pytree.register_dataclass(cls)
    return bool(new)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Leaves and structure; dataclasses count as structure."""
    leaves, spec = pytree.tree_flatten(tree)
    while _register_dataclasses(leaves):
        leaves, spec = pytree.tree_flatten(tree)
    return leaves, spec
