"""Indexing with masks and with tensors of the host, in front of the kernels that take integer tensors of the device."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from . import _native

_MASKS = (torch.bool, torch.uint8)


def _plain(indices: list[torch.Tensor | None]) -> bool:
    """Whether every index is an integer tensor on the device already."""
    for t in indices:
        if t is not None and (t.dtype in _MASKS or t.is_cpu):
            return False
    return True


def _check_mask(self: torch.Tensor, mask: torch.Tensor, at: int) -> None:
    for k in range(mask.dim()):
        if at + k >= self.dim() or mask.shape[k] != self.shape[at + k]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape of the indexed tensor "
                f"{list(self.shape)} at index {at + k}"
            )


def _as_mask(t: torch.Tensor) -> torch.Tensor:
    if t.dtype == torch.uint8:
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.", stacklevel=4
        )
    return t


def _places(self: torch.Tensor, indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Masks as the integer tensors of their nonzero places, one for each dim of the mask; host tensors uploaded."""
    found: list[torch.Tensor | None] = []
    for t in indices:
        if t is None:
            found.append(None)
        elif t.dtype in _MASKS:
            _check_mask(self, t, len(found))
            where = torch.ops.aten.nonzero(_as_mask(t))
            found.extend(where[:, k].to(self.device) for k in range(t.dim()))
        else:
            found.append(t.to(self.device) if t.is_cpu else t)
    return found


class _Kernel:
    """A native kernel, made on first use."""

    def __init__(self, name: str, row: str, form: str) -> None:
        self.make = (name, row, form)
        self.made: Any = None

    def __call__(self, *args: Any) -> Any:
        if self.made is None:
            self.made = _native.kernel(*self.make)
        return self.made(*args)


def _reader(name: str) -> Any:
    kernel = _Kernel(name, name, "functional")

    def index(self: torch.Tensor, indices: list[torch.Tensor | None]) -> torch.Tensor:
        if _plain(indices):
            return kernel(self, indices)
        return kernel(self, _places(self, indices))

    return index


def _blend(
    self: torch.Tensor, indices: list[torch.Tensor | None], values: torch.Tensor, accumulate: bool
) -> torch.Tensor | None:
    """The result of assigning to one mask values whose shape does not depend on how many places are set, or None.

    Nothing has to be counted then, so nothing is waited for: it is a select.
    """
    given = [(k, t) for k, t in enumerate(indices) if t is not None]
    if len(given) != 1 or given[0][1].dtype not in _MASKS or given[0][1].dim() == 0:
        return None
    at, mask = given[0]
    _check_mask(self, mask, at)
    after = self.dim() - at - mask.dim()
    lead = values.dim() - after - 1
    if values.dtype != self.dtype or (lead >= 0 and values.shape[lead] != 1):
        return None
    mask = _as_mask(mask).to(device=self.device, dtype=torch.bool)
    if lead >= 0:
        values = values.reshape(*values.shape[:lead], *[1] * mask.dim(), *values.shape[lead + 1 :])
    mask = mask.reshape(*mask.shape, *[1] * after)
    if values.device != self.device and values.dim() > 0:
        return None
    if accumulate:
        return torch.where(mask, self + values, self)
    return torch.where(mask, values, self)


def _writer(name: str, row: str, in_place: bool) -> Any:
    kernel = _Kernel(name, row, "inplace" if in_place else "functional")

    def index_put(
        self: torch.Tensor,
        indices: list[torch.Tensor | None],
        values: torch.Tensor,
        accumulate: bool = False,
        unsafe: bool = False,
    ) -> torch.Tensor:
        rest = (unsafe,) if row == "_index_put_impl" else ()
        if _plain(indices):
            return kernel(self, indices, values, accumulate, *rest)
        blended = _blend(self, indices, values, accumulate)
        if blended is not None:
            if blended.shape != self.shape:
                raise RuntimeError(
                    f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result"
                )
            return self.copy_(blended) if in_place else blended
        return kernel(self, _places(self, indices), values, accumulate, *rest)

    return index_put


KERNELS = {
    "index.Tensor": _reader("index.Tensor"),
    "_unsafe_index.Tensor": _reader("_unsafe_index.Tensor"),
    "index_put": _writer("index_put", "index_put", False),
    "index_put_": _writer("index_put_", "index_put", True),
    "_index_put_impl": _writer("_index_put_impl", "_index_put_impl", False),
    "_index_put_impl_": _writer("_index_put_impl_", "_index_put_impl", True),
    "_unsafe_index_put": _writer("_unsafe_index_put", "_unsafe_index_put", False),
}
