"""Ops over lists, and comparisons of whole tensors, that are more than one native call."""

from __future__ import annotations

from typing import Any

import torch

from . import _native


def _by_values(name: str, in_place: bool) -> Any:
    """A foreach op that takes its numbers as one tensor: the numbers are read, and are inputs of the program."""
    op = getattr(torch.ops.aten, f"_foreach_{name}_" if in_place else f"_foreach_{name}").ScalarList

    def kernel(
        self: list[torch.Tensor], tensor1: list[torch.Tensor], tensor2: list[torch.Tensor], scalars: torch.Tensor
    ) -> Any:
        if scalars.device.type != "cpu":
            raise RuntimeError(f"Expected scalars to be on CPU, got {scalars.device} instead.")
        if scalars.dim() != 1:
            raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.dim()} instead.")
        if len(scalars) != len(self):
            raise RuntimeError(
                f"Expected length of scalars to match input of length {len(self)} but got {len(scalars)} instead."
            )
        return op(self, tensor1, tensor2, scalars.tolist())

    return kernel


_copies: Any = None


def foreach_copy_(self: list[torch.Tensor], src: list[torch.Tensor], non_blocking: bool = False) -> None:
    """Copies on the device are one program; what comes from elsewhere is copied item by item."""
    global _copies
    if len(self) == len(src) and all(t.device.type == "pjrt" for t in (*self, *src)):
        if _copies is None:
            _copies = _native.kernel("_foreach_copy_", "copy", "foreach_inplace")
        _copies(self, src, non_blocking)
        return
    if len(self) != len(src):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(self)} and {len(src)}")
    for target, source in zip(self, src, strict=True):
        target.copy_(source, non_blocking)


def equal(self: torch.Tensor, other: torch.Tensor) -> bool:
    if self.device != other.device:
        raise RuntimeError(f"Cannot compare two tensors on different devices. Got: {self.device} and {other.device}")
    if self.dtype != other.dtype:
        raise RuntimeError(
            f"Expected object of data type {self.dtype} but got data type {other.dtype} for argument 'other'"
        )
    if self.shape != other.shape:
        return False
    return self.numel() == 0 or bool((self == other).all())


def on_several_devices(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A foreach op whose lists have tensors of several devices: item by item, as torch does it elsewhere (an optimizer
    has new counts of steps on the CPU beside older ones on the device). ``NotImplemented`` for other calls."""
    lists = [a for a in args if isinstance(a, list | tuple)]
    devices = {t.device for items in lists for t in items if isinstance(t, torch.Tensor)}
    method = getattr(torch.Tensor, name.split(".")[0].removeprefix("_foreach_"), None)
    if len(devices) < 2 or method is None or len({len(items) for items in lists}) > 1:
        return NotImplemented
    if "addc" in name and len(args) > 3:
        args, kwargs = args[:3], {**kwargs, "value": args[3]}
    n = len(lists[0])
    values = {k: v if isinstance(v, list | tuple) else [v] * n for k, v in kwargs.items()}
    made = [
        method(*(a[i] if isinstance(a, list | tuple) else a for a in args), **{k: v[i] for k, v in values.items()})
        for i in range(n)
    ]
    return None if name.split(".")[0].endswith("_") else made


KERNELS = {
    "_foreach_addcmul.Tensor": _by_values("addcmul", in_place=False),
    "_foreach_addcmul_.Tensor": _by_values("addcmul", in_place=True),
    "_foreach_addcdiv.Tensor": _by_values("addcdiv", in_place=False),
    "_foreach_addcdiv_.Tensor": _by_values("addcdiv", in_place=True),
    "_foreach_copy_": foreach_copy_,
    "equal": equal,
}
