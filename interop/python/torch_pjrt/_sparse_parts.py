"""Sparse COO tensors as torch has them on every device: indices and values, here two tensors of ours.

What touches only that structure is torch's own code, which it registers for the CPU and which reads no element.

Inside a trace nobody knows how many entries are left once those of one place are summed. The result there is *padded*
(see ``bridge/src/aten/rows/sparse.rs``): what is computed with it is exact; whoever asks for its entries is refused.
Padding belongs to the indices, which copies of such a tensor share.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import _native
from ._lazy_kernel import Kernel
from ._storage import slot_of

_aten = torch.ops.aten
_theirs: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU)
dense_add = Kernel("_sparse_add", "_sparse_add", "functional")
dense_add_ = Kernel("_sparse_add_", "_sparse_add", "inplace")
take = Kernel("_sparse_take", "_sparse_take", "functional")
_merge = Kernel("_sparse_merge", "_sparse_merge", "functional")


def structural(name: str) -> Callable[..., Any]:
    """Torch's own kernel of the overload ``name`` for sparse tensors."""
    base, _, which = name.partition(".")
    op: Any = None

    def kernel(*args: Any, **kwargs: Any) -> Any:
        nonlocal op
        if op is None:
            op = getattr(getattr(_aten, base), which or "default")
        return op.redispatch(_theirs, *args, **kwargs)

    return kernel


raw_indices, raw_values, _nnz = structural("_indices"), structural("_values"), structural("_nnz")
_with_parts = structural("_sparse_coo_tensor_with_dims_and_tensors")
_copy = structural("copy_sparse_to_sparse_")


class _Marks(threading.local):
    """What a trace, which is its thread's, remembers of sparse tensors, by the cells of their indices."""

    def __init__(self) -> None:
        self.padded: dict[int, torch.Tensor] = {}
        self.looked_at: set[int] = set()
        self.copying = False


_marks = _Marks()


def forget() -> None:
    """The trace is over: its padded tensors with it."""
    _marks.padded.clear()
    _marks.looked_at.clear()


def is_padded(x: torch.Tensor) -> bool:
    """Whether entries of ``x`` are not there."""
    return bool(_marks.padded) and slot_of(raw_indices(x)) in _marks.padded


def looked_at(indices: torch.Tensor) -> bool:
    """Whether a function that is traced has asked for the entries of the sparse tensor with these indices."""
    return slot_of(indices) in _marks.looked_at


def _look(x: torch.Tensor) -> None:
    if _native.tracing():
        _marks.looked_at.add(slot_of(raw_indices(x)))


def indices_of(x: torch.Tensor) -> torch.Tensor:
    """The indices of a sparse tensor, padding included."""
    _look(x)
    return raw_indices(x)  # type: ignore[no-any-return]


def values_of(x: torch.Tensor) -> torch.Tensor:
    """The values of a sparse tensor, those of padding included."""
    _look(x)
    return raw_values(x)  # type: ignore[no-any-return]


def entries(x: torch.Tensor) -> int:
    """The number of entries, padding included."""
    _look(x)
    return int(_nnz(x))


def live_values(x: torch.Tensor) -> torch.Tensor:
    """The values, zero where there is no entry."""
    values = values_of(x)
    if not is_padded(x):
        return values
    there = indices_of(x)[0] < x.shape[0]
    return torch.where(there.reshape(-1, *[1] * (values.dim() - 1)), values, 0)


def made(
    indices: torch.Tensor, values: torch.Tensor, size: Any, coalesced: bool = False, padded: bool = False
) -> torch.Tensor:
    """A sparse tensor of these parts."""
    k = indices.shape[0]
    x = _with_parts(
        k,
        values.dim() - 1,
        list(size),
        indices,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=values.device,
    )
    x._coalesced_(coalesced)
    if padded:
        own = raw_indices(x)
        _marks.padded[slot_of(own)] = own
    return x  # type: ignore[no-any-return]


def like(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Other values at the places of ``x``."""
    return made(indices_of(x).clone(), values, x.shape, x.is_coalesced(), is_padded(x))


def put(self: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Makes ``self`` what ``x`` is; its dtype and device stay."""
    if self is not x:
        padded = is_padded(x)
        _marks.copying = True
        try:
            _copy(self, x)
        finally:
            _marks.copying = False
        if padded:
            own = raw_indices(self)
            _marks.padded[slot_of(own)] = own
    return self


def merged(x: torch.Tensor) -> torch.Tensor:
    """``x`` with its entries in order, those of one place summed."""
    indices, values = indices_of(x), values_of(x)
    k, n = indices.shape
    padded = is_padded(x)
    if n < 2 and not padded:
        return made(indices.clone(), values.clone(), x.shape, True)
    indices, values, count = _merge(indices, values, list(x.shape[:k]))
    if not _native.tracing():
        n = int(count.item())
        return made(indices[:, :n].contiguous(), values[:n], x.shape, True)
    return made(indices, values, x.shape, True, padded=True)


# Who may see padding: what torch does with the entries there is exact for padding too.
_KNOWING = tuple(
    str(Path(torch.__file__).parent / part) for part in ("optim", "autograd/graph.py", "amp/grad_scaler.py")
)
# `torch.sparse.sum` sums the values of a coalesced tensor, for which those of padding have to be zero.
_SUM = str(Path(torch.__file__).parent / "sparse/__init__.py")
# What is between those who ask and the kernel.
_BETWEEN = (str(Path(__file__).parent), str(Path(torch.__file__).parent / "utils/_device.py"))


def _asker() -> str:
    """The file of the code that has called into torch."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return frame.f_code.co_filename


def shown(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """``kernel``, which shows the entries of a sparse tensor: those of a padded one only to who knows of padding."""

    def asked(self: torch.Tensor) -> Any:
        _look(self)
        if is_padded(self) and not _marks.copying and not (asker := _asker()).startswith(_KNOWING):
            if name == "values" and asker == _SUM:
                return live_values(self)
            from ._jit_errors import refusal

            raise refusal("sparse", f": {name}")
        return kernel(self)

    return asked
