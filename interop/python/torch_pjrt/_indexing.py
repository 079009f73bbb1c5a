"""Indexing with masks and with tensors of the host, in front of the kernels that take integer tensors of the device."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from . import _dynamic
from ._copy import into
from ._lazy_kernel import Kernel as _Kernel

_MASKS = (torch.bool, torch.uint8)


def _plain(indices: list[torch.Tensor | None]) -> bool:
    """Whether every index is an integer tensor on the device already."""
    return not any(t is not None and (t.dtype in _MASKS or t.is_cpu) for t in indices)


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


def _reader(name: str) -> Any:
    kernel = _Kernel(name, name, "functional")

    def index(self: torch.Tensor, indices: list[torch.Tensor | None]) -> torch.Tensor:
        if _plain(indices):
            return kernel(self, indices)
        one = _only_mask(self, indices)
        if one is not None:
            return _dynamic.index_mask(self, one[1], one[0])
        return kernel(self, _places(self, indices))

    return index


def _only_mask(self: torch.Tensor, indices: list[torch.Tensor | None]) -> tuple[int, torch.Tensor] | None:
    """The one index that is given, if it is a mask: the dim that it begins at, and the mask, on the device."""
    given = [(k, t) for k, t in enumerate(indices) if t is not None]
    if len(given) != 1 or given[0][1].dtype not in _MASKS or given[0][1].dim() == 0:
        return None
    at, mask = given[0]
    _check_mask(self, mask, at)
    return at, _as_mask(mask).to(device=self.device, dtype=torch.bool)


_put_mask = _Kernel("_masked_put", "_masked_put", "functional")


def _masked(
    self: torch.Tensor, at: int, mask: torch.Tensor, values: torch.Tensor, accumulate: bool
) -> torch.Tensor | None:
    """``self`` with ``values`` assigned where one mask is set, without waiting for the number of set places; or None.

    Values whose shape does not depend on that number are a select. Values for each place, in order, are picked by the
    running count of the mask.
    """
    after = self.dim() - at - mask.dim()
    lead = values.dim() - after - 1
    if values.dtype != self.dtype or (values.device != self.device and values.dim() > 0):
        return None
    if lead >= 0 and values.shape[lead] != 1:
        fits = (
            lead == 0
            and at == 0
            and all(n in (1, m) for n, m in zip(values.shape[1:], self.shape[mask.dim() :], strict=False))
        )
        return _put_mask(self, mask, values, accumulate) if fits else None
    if lead >= 0:
        values = values.reshape(*values.shape[:lead], *[1] * mask.dim(), *values.shape[lead + 1 :])
    mask = mask.reshape(*mask.shape, *[1] * after)
    return torch.where(mask, self + values if accumulate else values, self)


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
        one = _only_mask(self, indices)
        result = None if one is None else _masked(self, *one, values, accumulate)
        if result is not None:
            if result.shape != self.shape:
                raise RuntimeError(
                    f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result"
                )
            return self.copy_(result) if in_place else result
        return kernel(self, _places(self, indices), values, accumulate, *rest)

    return index_put


_index = _reader("index.Tensor")


KERNELS = {
    "index.Tensor_out": into("index.Tensor_out", _index, "out"),
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _reader("_unsafe_index.Tensor"),
    "index_put": _writer("index_put", "index_put", False),
    "index_put_": _writer("index_put_", "index_put", True),
    "_index_put_impl": _writer("_index_put_impl", "_index_put_impl", False),
    "_index_put_impl_": _writer("_index_put_impl_", "_index_put_impl", True),
    "_unsafe_index_put": _writer("_unsafe_index_put", "_unsafe_index_put", False),
}
