"""Sparse tensors at the border of a trace: taken apart into the two tensors that a program reads, or put together.

A sparse tensor that was there before (a gradient of the last call, say) is read, and not written to: another number of
entries would be another program at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ._jit_errors import error, place_of
from ._sparse_parts import is_padded, looked_at, made, put, raw_indices, raw_values
from ._storage import slot_of


class Known:
    """A sparse tensor that a function can reach, as it is before the trace."""

    def __init__(self, t: torch.Tensor, path: str) -> None:
        self.tensor, self.path = t, path
        self.indices, self.values = raw_indices(t), raw_values(t)
        self.coalesced = t.is_coalesced()

    def kind(self) -> tuple[Any, ...]:
        return kind(self.tensor)

    @property
    def slots(self) -> tuple[int, int]:
        return slot_of(self.indices), slot_of(self.values)

    def written(self) -> bool:
        now = (slot_of(raw_indices(self.tensor)), slot_of(raw_values(self.tensor)))
        return now != self.slots or self.tensor.is_coalesced() != self.coalesced

    def restore(self) -> None:
        """Takes back what a trace wrote to it."""
        if self.written():
            put(self.tensor, made(self.indices, self.values, self.tensor.shape, self.coalesced))

    def in_use(self, used: set[int | None]) -> bool:
        """Whether the program reads it, or the function has asked how many entries it has. ``used`` are cells."""
        return not all(self.slots) or looked_at(self.indices) or any(s in used for s in self.slots)


def restore(known: Iterable[Known]) -> None:
    """Takes back what a trace wrote to sparse tensors from outside."""
    for k in known:
        k.restore()


def kind(t: torch.Tensor) -> tuple[Any, ...]:
    """What must be the same for a sparse tensor to take another's place."""
    return tuple(t.shape), t.dtype, t.sparse_dim(), t.is_coalesced()


def refuse_written(known: list[Known], place: str) -> None:
    """Refuses a function that wrote to sparse tensors from outside, and takes that back."""
    written = [k for k in known if k.written()]
    for k in written:
        k.restore()
    if written:
        raise error(
            f"the sparse tensor {written[0].path} from outside was written to (a gradient or a momentum "
            "buffer was added to, scaled or zeroed, say), which gives it another number of entries. Way out: "
            "zero_grad(set_to_none=True) in the function before backward, an optimizer without sparse state "
            "(SparseAdam, Adagrad, SGD without momentum), or leave what writes to it outside.",
            place,
        )


def refuse_argument(t: torch.Tensor, fn: Callable[..., Any], name: str) -> None:
    """Refuses sparse tensors as arguments."""
    if t.layout is not torch.strided:
        raise error(
            f"got an argument with layout {str(t.layout).removeprefix('torch.')}, expected "
            "strided. Way out: pass its indices and values, and make the sparse tensor of them in the function.",
            place_of(fn) + name,
        )


def parts(t: Any) -> Any:
    """Kind, indices and values of a sparse tensor of the device, for the guard; ``None`` for anything else."""
    if not isinstance(t, torch.Tensor) or not t.is_sparse or t.device.type != "pjrt" or t.requires_grad:
        return None
    return kind(t), raw_indices(t), raw_values(t)


def refuse_result(results: list[torch.Tensor], place: str) -> None:
    """Refuses sparse results of which somebody outside may ask gradients."""
    if any(t.is_sparse for t in results):
        raise error(
            "a result is a sparse tensor that requires grad, whose gradient a trace cannot take from outside. Way "
            "out: return x.to_dense() or x.detach(), or call backward inside the function.",
            place,
        )


def halves(t: torch.Tensor) -> list[torch.Tensor]:
    """Indices and values."""
    return [raw_indices(t), raw_values(t)]


def about(t: torch.Tensor) -> tuple[Any, ...]:
    """What :func:`assemble` takes besides the two halves."""
    return tuple(t.shape), t.is_coalesced(), is_padded(t)


def spec(t: torch.Tensor, of: Any) -> tuple[Any, ...]:
    """Where a sparse tensor that leaves the function comes from; ``of`` tells that of a tensor."""
    return ("sparse", *map(of, halves(t)), about(t))


def assemble(indices: torch.Tensor, values: torch.Tensor, kind: tuple[Any, ...]) -> torch.Tensor:
    """The sparse tensor of what a program gave; padding is left out, for which its number is read."""
    shape, coalesced, padded = kind
    if padded:
        places = (indices[0] < shape[0]).nonzero().squeeze(1)
        indices, values = indices.index_select(1, places), values.index_select(0, places)
    return made(indices, values, shape, coalesced)


def trim(made_and_specs: list[tuple[Any, Any]]) -> None:
    """Leaves the padding out of the tensors that a trace made, once the program has run."""
    for t, s in made_and_specs:
        if s[0] == "sparse" and s[3][2]:
            put(t, assemble(raw_indices(t), raw_values(t), s[3]))


def flat(specs: list[Any]) -> list[Any]:
    """Specs of the tensors of the device among and in ``specs``."""
    found: list[Any] = []
    for s in specs:
        inner = {"sparse": s[1:3], "pack": s[1:2] and s[1], "bits": s[1:2], "dressed": (s[1], *s[3:])}.get(s[0])
        found += [s] if inner is None else flat([x for x in inner if x is not None])
    return found


def meta(t: torch.Tensor) -> torch.Tensor:
    """What stands for a result that was not computed."""
    if t.is_sparse:
        return torch.empty(t.shape, dtype=t.dtype, layout=torch.sparse_coo, device="meta")
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
