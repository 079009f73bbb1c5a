"""What a tensor that leaves a function is besides its values: a parameter, a leaf, a kind of the user's."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from ._flatten import flatten
from ._floats import Result, result
from ._jit_errors import error
from ._opened import Same, opened
from ._state import Walk

About = tuple[type, bool, tuple[list[Any], Any]]


def about(t: torch.Tensor, before: Walk) -> About | None:
    """The class of ``t``, whether it is a leaf that requires a gradient, its attributes taken apart; ``None`` for a
    plain tensor. Raises ``JitError`` where an attribute is a tensor or a number that differs from call to call, and for
    a leaf with hooks, which would be of the first call alone."""
    is_leaf = t.requires_grad and t.is_leaf
    if is_leaf and (t._backward_hooks or t._post_accumulate_grad_hooks):
        raise error(
            "a tensor that requires grad, which the function makes and leaves, has a hook. Way out: register the hook "
            "outside on what is returned, or take the hook off (handle.remove()) at the end."
        )
    attributes = dict(getattr(t, "__dict__", {}))
    if type(t) is torch.Tensor and not is_leaf and not attributes:
        return None
    for name, value in attributes.items():
        if any(isinstance(x, torch.Tensor) or type(result(x)) is Result for x in _apart(value, before)[0]):
            raise error(
                f"a tensor that leaves the function has an attribute `{name}` with a value that is computed at each "
                "call. Way out: return it, or keep it in an object of its own."
            )
    return type(t), is_leaf, _apart(attributes, before)


def _apart(value: Any, before: Walk) -> tuple[list[Any], Any]:
    """Leaves and structure: what the function made, each call makes anew."""
    leaves, spec = flatten(opened(value, before, ""))
    return [x.it if type(x) is Same else x for x in leaves], spec


def without_graph(t: torch.Tensor) -> torch.Tensor:
    """``t``, or what is the same in all but the graph."""
    if t.grad_fn is None:
        return t
    with torch._C.DisableTorchFunctionSubclass():
        plain = t.detach()
    if type(t) is not torch.Tensor:
        plain = torch.Tensor._make_subclass(type(t), plain)
    if attributes := getattr(t, "__dict__", None):
        vars(plain).update(attributes)
    return plain


def copy(t: torch.Tensor, about: About | None) -> torch.Tensor:
    """A tensor of another device that a function makes: each call has its own."""
    return t.clone() if about is None else dress(t.clone(), about, None)


def dress(t: torch.Tensor, about: About, grad: torch.Tensor | None) -> torch.Tensor:
    """A tensor over the memory of ``t`` that is what ``about`` says."""
    kind, is_leaf, attributes = about
    made: torch.Tensor = torch.Tensor._make_subclass(kind, t, is_leaf)
    leaves, spec = attributes
    if leaves or spec.num_nodes > 1:
        vars(made).update(pytree.tree_unflatten(leaves, spec))
    made.grad = grad
    return made
