"""What of the host's memory a program reads before each run, to see whether it is still the same."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch

from . import _native
from ._jit_errors import error
from ._retraces import outside
from ._watched import Watch, size_of

if TYPE_CHECKING:
    from ._state import Walk

_MUCH_MEMORY, _MANY_ITEMS = 64 << 20, 1 << 17


def parts(t: torch.Tensor) -> list[torch.Tensor]:
    """What a CPU tensor that is not simply memory is made of: tensors that are. One without memory has none."""
    if t.layout is torch.sparse_coo:
        return [t._indices(), t._values()]
    if t.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [t.crow_indices(), t.col_indices(), t.values()]
    if t.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [t.ccol_indices(), t.row_indices(), t.values()]
    return [t.int_repr()] if t.is_quantized else []


def copies(before: Walk) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
    """CPU tensors, each with a copy of its values if it has any."""
    return [(t, t.detach().clone() if _has_values(t) else None) for t, _, _ in before.hosts]


def _has_values(t: torch.Tensor) -> bool:
    """Whether there is memory for all elements: a storage may have been made smaller, or freed."""
    if t.device.type != "cpu" or t.layout is not torch.strided:
        return t.device.type == "cpu" and all(map(_has_values, parts(t)))
    try:
        held = t.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return False
    last = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1
    return bool(t.numel() == 0 or last * t.element_size() <= held)


def put_back(before: Walk, copies: list[tuple[torch.Tensor, torch.Tensor | None]]) -> None:
    """Gives CPU tensors that the function wrote to the values that they had."""
    for (t, was), (_, seen, _) in zip(copies, before.hosts, strict=True):
        if was is not None and _native.host_seen(t) != seen and t.shape == was.shape and _has_values(t):
            t.detach().copy_(was)


def check_pointers(before: Walk, place: str) -> None:
    """Refuses addresses that the function reads: what is there may be another thing at each call."""
    for v, path in before.pointers:
        raise error(
            f"{path}, a {type(v).__name__} of ctypes, holds an address, and a change of what is there would not be "
            "seen. Way out: pass what is there as an argument, as a number or a tensor.",
            place,
        )


def warn_if_much(before: Walk, place: str) -> None:
    """Says so if each call will take long to see that everything is still the same."""
    memory = [(t.numel() * t.element_size(), path) for t, _, path in before.hosts]
    memory += [(size_of(s.container.target), s.path) for s in before.sites if isinstance(s.container, Watch)]
    items = [(len(s.keys), s.path) for s in before.sites]
    for found, limit, what in (
        (memory, _MUCH_MEMORY, "{:,} bytes of memory of the host"),
        (items, _MANY_ITEMS, "{:,} items of containers"),
    ):
        total = sum(n for n, _ in found)
        if total > limit:
            warnings.warn(
                f"jit: {place}: each call looks at {what.format(total)}, most of it in {max(found)[1]}, to see whether "
                "it has changed. Way out: pass what the function needs of it as an argument, or keep it on the device.",
                stacklevel=outside(),
            )
