"""View ops that need more than new sizes and strides."""

from __future__ import annotations

from typing import Any

import torch

from . import _native
from ._factories import fill_unwritten, fills

_cpu: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def alias(self: torch.Tensor, size: list[int], stride: list[int], offset: int) -> torch.Tensor:
    """A view ``offset`` elements further on, by torch's own kernel, which touches metadata only."""
    return torch.ops.aten.as_strided.default.redispatch(_cpu, self, size, stride, self.storage_offset() + offset)


def part(base: torch.Tensor, size: list[int], stride: list[int], offset: int) -> torch.Tensor:
    """A view ``offset`` elements further on, whose writes autograd counts as those to ``base``."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        return torch.ops.aten.as_strided.default(base, size, stride, int(base.storage_offset()) + offset)


def cast(base: torch.Tensor, dtype: torch.dtype, size: list[int], stride: list[int], offset: int) -> torch.Tensor:
    """A view of the memory of ``base`` as another dtype, ``offset`` elements from where it begins."""
    count = base.untyped_storage().nbytes() // dtype.itemsize * dtype.itemsize // base.element_size()
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        whole = torch.ops.aten.as_strided.default(base, [count], [1], 0)
        return torch.ops.aten.as_strided.default(torch.ops.aten.view.dtype(whole, dtype), size, stride, offset)


def _redispatch(op: Any) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return op.redispatch(_cpu, *args, **kwargs)

    return kernel


def resize_(self: torch.Tensor, size: list[int], *, memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """Gives ``self`` new sizes; storage that is too small gives way to a longer one that begins with the old values."""
    size = list(size)
    if list(self.shape) == size:
        return self
    meta = torch.empty(size, dtype=self.dtype, device="meta", memory_format=memory_format or torch.contiguous_format)
    offset = int(self.storage_offset())
    need = offset + meta.numel()
    have = self.untyped_storage().nbytes() // self.element_size()
    if meta.numel() > 0 and need > have:
        longer = _native.empty_flat(need, self.dtype)
        if have > 0:
            old = torch.empty(0, dtype=self.dtype, device=self.device)
            old = _set(old, self.untyped_storage(), 0, [have], [1])
            longer[:have].copy_(old)
            tail = longer[have:]
        else:
            tail = longer
        if fills():
            fill_unwritten(tail)
        _set(self, longer.untyped_storage(), offset, size, list(meta.stride()))
    else:
        _set(self, self.untyped_storage(), offset, size, list(meta.stride()))
    return self


def _set(
    self: torch.Tensor, storage: Any, offset: int, size: list[int], stride: list[int] | tuple[()] = ()
) -> torch.Tensor:
    op = torch.ops.aten.set_.source_Storage_storage_offset
    op.redispatch(_cpu, self, storage, offset, size, stride)
    _native.retype(self)
    return self


def set_tensor(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return _set(self, source.untyped_storage(), int(source.storage_offset()), list(source.shape), list(source.stride()))


def set_nothing(self: torch.Tensor) -> torch.Tensor:
    empty = _native.empty([0], None, self.dtype)
    return _set(self, empty.untyped_storage(), 0, [0], [1])


def set_storage(self: torch.Tensor, source: Any) -> torch.Tensor:
    n = source.nbytes() // self.element_size()
    return _set(self, source, 0, [n], [1])


KERNELS = {
    "resize_": resize_,
    "set_.source_Storage_storage_offset": _set,
    "set_.source_Tensor": set_tensor,
    "set_.source_Storage": set_storage,
    "set_": set_nothing,
    "view_as_real": _redispatch(torch.ops.aten.view_as_real.default),
    "view_as_complex": _redispatch(torch.ops.aten.view_as_complex.default),
    "view.dtype": _redispatch(torch.ops.aten.view.dtype),
    "unfold": _redispatch(torch.ops.aten.unfold.default),
}
