"""``module.to("pjrt")`` keeps its parameters: the same objects, tied where they were tied, known to their optimizers.

torch moves a parameter between its built-in devices by ``param.data = moved``, and makes a new ``Parameter`` where it
deems the two kinds of tensor incompatible, as it does for every device outside its own list. It can swap the tensors
instead, by a process-wide switch. That switch is set here for the one conversion that crosses to or from this device,
and the swap is one of its own: torch's exchanges attributes and hooks as well, so that the parameter loses them, and
refuses a tensor that a graph has saved. ``param.data = moved`` does neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

_inside = threading.local()


def _crosses(module: torch.nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Whether ``fn`` moves this module's parameters to or from the device; tried on an empty tensor like the first."""
    first = next(module.parameters(), None)
    if first is None or first.device.type == "meta":
        return False
    with torch.no_grad():
        probe = fn(torch.empty(0, dtype=first.dtype, device=first.device))
    kinds = {first.device.type, probe.device.type} if isinstance(probe, torch.Tensor) else set()
    return len(kinds) == 2 and "pjrt" in kinds


def _uninitialized(module: torch.nn.Module) -> list[tuple[dict[str, Any], str, Any]]:
    """Parameters of lazy modules that have no shape yet: they are made anew, for there is nothing to move."""
    tables = [m._parameters for m in module.modules()]
    return [(t, k, p) for t in tables for k, p in t.items() if isinstance(p, torch.nn.UninitializedParameter)]


def _refuse_backward(_: Any) -> None:
    raise RuntimeError(
        "backward: the graph leads to a parameter that its module has moved to another device since the forward pass; "
        "move the module (`.to`, `.cpu`) before the forward pass or after the backward pass"
    )


def _take(tensor: torch.Tensor, moved: torch.Tensor) -> None:
    """Gives ``tensor`` what ``moved`` holds; it stays the same object with the same attributes and hooks.

    A graph that was made before keeps the old values, which it may have saved; a gradient that it would add to them is
    lost to the parameter, so there it raises.
    """
    hooks, after = tensor._backward_hooks, getattr(tensor, "_post_accumulate_grad_hooks", None)
    if tensor.requires_grad and tensor.is_leaf and tensor._use_count() > 1:  # type: ignore[attr-defined]
        torch.autograd.graph.get_gradient_edge(tensor).node.register_prehook(_refuse_backward)
    torch._C._swap_tensor_impl(tensor, moved)  # type: ignore[attr-defined]
    # They are known to what was swapped away.
    if hooks is not None:
        tensor._backward_hooks = hooks
    if after is not None:
        tensor._post_accumulate_grad_hooks = after  # type: ignore[attr-defined]


def install() -> None:
    """Wraps ``torch.nn.Module._apply``; conversions that do not cross to or from the device run as before."""
    theirs = torch.nn.Module._apply
    swap = torch.utils.swap_tensors

    def swap_tensors(t1: torch.Tensor, t2: torch.Tensor) -> None:
        wrapper = is_traceable_wrapper_subclass(t1) or is_traceable_wrapper_subclass(t2)
        if getattr(_inside, "crossing", False) and not wrapper:
            _take(t1, t2)
        else:
            swap(t1, t2)

    torch.utils.swap_tensors = swap_tensors

    def _apply(self: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> torch.nn.Module:
        if getattr(_inside, "applying", False) or torch.__future__.get_swap_module_params_on_conversion():
            return theirs(self, fn, recurse)
        _inside.applying = True
        try:
            if not _crosses(self, fn):
                return theirs(self, fn, recurse)
            lazy = _uninitialized(self)
            torch.__future__.set_swap_module_params_on_conversion(True)
            _inside.crossing = True
            try:
                result = theirs(self, fn, recurse)
                for table, name, value in lazy:
                    table[name] = torch.nn.UninitializedParameter(  # type: ignore[call-arg]
                        value.requires_grad, device=value.device, dtype=value.dtype
                    )
                return result
            finally:
                _inside.crossing = False
                torch.__future__.set_swap_module_params_on_conversion(False)
        finally:
            _inside.applying = False

    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
