"""Ops whose results are as long as the data says: the length is read first, then a kernel of a fixed size runs.

Fixed sizes are rounded up, to a power of two, so that a changing count does not mean a new program each time; the
result is the beginning of what the kernel returned.
"""

from __future__ import annotations

import torch

from ._copy import into
from ._lazy_kernel import Kernel

_aten = torch.ops.aten
_nonzero_static = Kernel("nonzero_static", "nonzero_static", "functional")
_masked_select = Kernel("_masked_select", "_masked_select", "functional")
_index_mask = Kernel("_index_mask", "_index_mask", "functional")
_repeat_index = Kernel("_repeat_index", "_repeat_index", "functional")
_equal = Kernel("_equal", "_equal", "functional")
_unique_sort = Kernel("_unique_sort", "_unique_sort", "functional")
_unique_slices = Kernel("_unique_slices", "_unique_slices", "functional")
_runs = Kernel("_runs", "_runs", "functional")
_pick_runs = Kernel("_pick_runs", "_pick_runs", "functional")


def _rounded(count: int, most: int) -> int:
    """The next power of two, but no more than there can be."""
    return min(1 << (count - 1).bit_length(), most) if count > 0 else 0


def _count(mask: torch.Tensor) -> int:
    return int(_aten.count_nonzero(mask).item())


def nonzero(self: torch.Tensor) -> torch.Tensor:
    if self.numel() == 0:
        return torch.empty((0, self.dim()), dtype=torch.int64, device=self.device)
    n = _count(self)
    return _nonzero_static(self, size=_rounded(n, self.numel()))[:n]


def masked_select(self: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    most = 1
    for size in shape:
        most *= size
    if most == 0:
        return torch.empty(0, dtype=self.dtype, device=self.device)
    n = _count(mask if mask.shape == shape else mask.expand(shape))
    return _masked_select(self, mask, _rounded(n, most))[:n]


def index_mask(self: torch.Tensor, mask: torch.Tensor, dim: int) -> torch.Tensor:
    """``self`` indexed by one mask, which covers its dims from ``dim`` on."""
    n = _count(mask) if mask.numel() else 0
    found = _index_mask(self, mask, dim, _rounded(n, mask.numel())).narrow(dim, 0, n)
    return found if dim == 0 else found.contiguous()


def repeat_interleave(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.dtype not in (torch.int32, torch.int64):
        name = str(repeats.dtype).removeprefix("torch.")
        raise NotImplementedError(f'"repeat_interleave_cpu" not implemented for {name}: expected int32 or int64')
    if repeats.numel() == 0:
        return torch.empty(0, dtype=repeats.dtype, device=repeats.device)
    if output_size is not None:
        return _repeat_index(repeats, output_size)
    if bool((repeats < 0).any().item()):
        raise RuntimeError("repeats can not be negative")
    n = int(repeats.sum().item())
    return _repeat_index(repeats, 1 << (n - 1).bit_length())[:n] if n else repeats[:0].clone()


def equal(self: torch.Tensor, other: torch.Tensor) -> bool:
    if self.device != other.device:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{self.device} and {other.device}!"
        )
    if self.shape != other.shape:
        return False
    return self.numel() == 0 or bool(_equal(self, other).item())


def is_set_to(self: torch.Tensor, tensor: torch.Tensor) -> bool:
    return bool(
        self.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def _finish(
    marked: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], inverse: bool, counts: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values, inverse and counts from marked runs; what is not asked for is empty, as torch has it."""
    values, starts, where, total = marked
    n = int(total.item())
    picked, lengths = _pick_runs(values, starts, _rounded(n, starts.numel()))
    nothing = torch.empty(0, dtype=torch.int64, device=values.device)
    return picked[:n], where if inverse else nothing, lengths[:n] if counts else nothing


def _no_elements(self: torch.Tensor, inverse: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    where = torch.empty(self.shape if inverse else 0, dtype=torch.int64, device=self.device)
    return torch.empty(0, dtype=self.dtype, device=self.device), where, torch.empty_like(where)[:0]


def unique2(
    self: torch.Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if self.numel() == 0:
        return _no_elements(self, return_inverse)
    return _finish(_unique_sort(self), return_inverse, return_counts)


def unique(self: torch.Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return unique2(self, sorted, return_inverse)[:2]


def _along(
    self: torch.Tensor, dim: int, inverse: bool, counts: bool, consecutive: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    dim = dim % self.dim()
    if self.numel() == 0:
        if self.shape[dim] != 0:
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
        nothing = torch.empty(0, dtype=torch.int64, device=self.device)
        return torch.empty_like(self), nothing, nothing.clone()
    marked = _runs(self, dim) if consecutive else _unique_slices(self, dim)
    values, where, lengths = _finish(marked, inverse, counts)
    return values.movedim(0, dim), where, lengths


def unique_dim(
    self: torch.Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _along(self, dim, return_inverse, return_counts, consecutive=False)


def unique_consecutive(
    self: torch.Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if dim is not None and not (self.dim() == 0 or (self.dim() == 1 and self.numel() == 0)):
        return _along(self, dim, return_inverse, return_counts, consecutive=True)
    if self.numel() == 0:
        return _no_elements(self, return_inverse)
    return _finish(_runs(self, None), return_inverse, return_counts)


KERNELS = {
    "nonzero.out": into("nonzero.out", nonzero, "out"),
    "masked_select.out": into("masked_select.out", masked_select, "out"),
    "nonzero": nonzero,
    "masked_select": masked_select,
    "repeat_interleave.Tensor": repeat_interleave,
    "equal": equal,
    "is_set_to": is_set_to,
    "_unique2": unique2,
    "_unique": unique,
    "unique_dim": unique_dim,
    "unique_consecutive": unique_consecutive,
}
