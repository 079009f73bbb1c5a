"""``torch.UntypedStorage`` on the device, for what torch does on storages: copy, deepcopy, load.

torch's constructor asks a C++ allocator for memory, which a device made from Python does not have. Here a storage comes
from a tensor of bytes; the first tensor with another dtype over it gives it that dtype (``_native.retype``).
"""

from __future__ import annotations

from typing import Any

import torch

from . import _native

_SLOT_BITS = 40


def slot_of(t: torch.Tensor) -> int:
    """The cell behind a tensor of the device; 0 for one without elements."""
    return t.data_ptr() >> _SLOT_BITS


def install() -> None:
    """Lets ``torch.UntypedStorage(size, device="pjrt")`` make one; other devices go to torch as before."""
    theirs = torch.UntypedStorage.__new__

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "pjrt":
            return theirs(cls, *args, **kwargs)
        size = args[0] if args else kwargs.get("size", 0)
        if isinstance(size, int):
            return _native.empty_flat(size, torch.uint8).untyped_storage()
        return torch.tensor(list(size), dtype=torch.uint8, device="pjrt").untyped_storage()

    torch.UntypedStorage.__new__ = make  # type: ignore[method-assign,assignment]
    plain_clone: Any = torch.UntypedStorage.clone

    def clone(self: torch.UntypedStorage) -> torch.UntypedStorage:
        if self.device.type != "pjrt" or self.nbytes() == 0:
            return plain_clone(self)
        return _native.clone_storage(self.data_ptr()).untyped_storage()

    torch.UntypedStorage.clone = clone  # type: ignore[method-assign, assignment]
    plain_resize: Any = torch.UntypedStorage.resize_

    def resize_(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        if self.device.type != "pjrt":
            return plain_resize(self, size)
        if size == self.nbytes():
            return self
        raise NotImplementedError(
            f"UntypedStorage.resize_: got size {size}, expected {self.nbytes()}: a storage on pjrt keeps its size. "
            "tensor.resize_(sizes) makes a longer one; tensor.data = torch.empty(0, device='pjrt') frees one"
        )

    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]
