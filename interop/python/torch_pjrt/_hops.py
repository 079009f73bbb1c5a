"""What torch's higher-order operators have to know about the device before anything is traced.

``flex_attention`` refuses devices that are not in a list of its own, although its dense form consists of ordinary ops.
There is no registration for that list, so the one function that compares with it is replaced, in the module that has
it, once somebody imports that module.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

import torch

_Key = torch._C.DispatchKey
_AUTOCAST: Any = _Key.AutocastPrivateUse1  # type: ignore[attr-defined]
_FLEX = "torch.nn.attention.flex_attention"


def install() -> None:
    """Autocast passes over these operators, as on other devices: it applies to what their functions do."""
    ops: Any = torch._ops
    getattr(ops, "_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS", []).append(_AUTOCAST)
    for op in ops._higher_order_ops.values():
        op.fallthrough(_AUTOCAST)
    if _FLEX in sys.modules:
        _admit(sys.modules[_FLEX])
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module as it would be found anyway, and runs :func:`_admit` on it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != _FLEX:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs

    def create_module(self, spec: Any) -> Any:
        return self.theirs.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.theirs.exec_module(module)
        _admit(module)

    def __getattr__(self, name: str) -> Any:  # what readers of sources ask: get_source, get_data, path
        return getattr(self.theirs, name)


def _admit(module: Any) -> None:
    """Lets tensors of the device pass, and autocast cast them as on other devices."""
    theirs = getattr(module, "_validate_device", None)
    if theirs is None:
        return

    def validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "pjrt":
            theirs(query, key, value)

    module._validate_device = validate
    from torch._higher_order_ops.flex_attention import flex_attention

    hop: Any = flex_attention

    def cast(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("pjrt")
        tensors = [
            t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 else t for t in (query, key, value)
        ]
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
            return hop(*tensors, *rest, **kwargs)

    hop.py_impl(_AUTOCAST)(cast)
