"""``module.to("pjrt")`` keeps its parameters: the same objects, tied where they were tied, known to their optimizers.

torch moves a parameter between its built-in devices by ``param.data = moved``, and makes a new ``Parameter`` where it
deems the two kinds of tensor incompatible, as it does for every device outside its own list. It can swap the tensors
instead, by a process-wide switch. That switch is set here for the one conversion that crosses to or from this device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

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


def _cut_computed_weights(module: torch.nn.Module) -> None:
    """Weights that ``torch.nn.utils.weight_norm`` and ``spectral_norm`` compute before each ``forward`` hold the
    parameters that they were last computed from, which could not be swapped: they become constants until then."""
    for m in module.modules():
        for hook in m._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm | SpectralNorm):
                weight = m.__dict__.get(hook.name)
                if isinstance(weight, torch.Tensor) and weight.grad_fn is not None:
                    setattr(m, hook.name, weight.detach())


def install() -> None:
    """Wraps ``torch.nn.Module._apply``; conversions that do not cross to or from the device run as before."""
    theirs = torch.nn.Module._apply

    def _apply(self: torch.nn.Module, fn: Callable[..., Any], recurse: bool = True) -> torch.nn.Module:
        if getattr(_inside, "applying", False) or torch.__future__.get_swap_module_params_on_conversion():
            return theirs(self, fn, recurse)
        _inside.applying = True
        try:
            if not _crosses(self, fn):
                return theirs(self, fn, recurse)
            lazy = _uninitialized(self)
            _cut_computed_weights(self)
            torch.__future__.set_swap_module_params_on_conversion(True)
            try:
                result = theirs(self, fn, recurse)
                for table, name, value in lazy:
                    table[name] = torch.nn.UninitializedParameter(  # type: ignore[call-arg]
                        value.requires_grad, device=value.device, dtype=value.dtype
                    )
                return result
            finally:
                torch.__future__.set_swap_module_params_on_conversion(False)
        finally:
            _inside.applying = False

    torch.nn.Module._apply = _apply  # type: ignore[method-assign]
