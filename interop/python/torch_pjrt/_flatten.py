"""Pytrees, with dataclasses among their nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
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


def distinct_tensors(leaves: list[Any]) -> list[torch.Tensor]:
    """The tensors among the leaves, each once."""
    return list({id(x): x for x in leaves if isinstance(x, torch.Tensor)}.values())


def is_leaf(x: Any) -> bool:
    """Whether an object is one leaf that is no tensor."""
    if isinstance(x, torch.Tensor) or (dataclasses.is_dataclass(x) and not isinstance(x, type)):
        return False
    leaves, _ = pytree.tree_flatten(x)
    return len(leaves) == 1 and leaves[0] is x


def template(leaves: list[Any], spec: Any, tensor: object) -> Any:
    """The structure of a result for ``_native.Fast``, where ``tensor`` stands for a tensor among the leaves; ``None``
    where it has other nodes than tuples, lists and dicts."""

    def build(x: Any) -> Any:
        if type(x) is tuple or type(x) is list:
            return ("tuple" if type(x) is tuple else "list", [build(i) for i in x])
        if type(x) is dict:
            return ("dict", list(x.keys()), [build(i) for i in x.values()])
        if type(x) is not int:
            raise TypeError
        return ("tensor",) if leaves[x] is tensor else ("always", leaves[x])

    try:
        return build(pytree.tree_unflatten(list(range(len(leaves))), spec))
    except Exception:  # other nodes may refuse to hold numbers
        return None
