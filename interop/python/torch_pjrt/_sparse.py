"""Sparse COO tensors on the device: made, copied, taken apart, made dense. Other sparse layouts do not exist on it."""

from __future__ import annotations

from typing import Any

import torch

from . import _native
from ._jit_errors import refusal
from ._lazy_kernel import Kernel
from ._sparse_entry import no_layout
from ._sparse_parts import dense_add_, indices_of, is_padded, made, merged, put, shown, structural, values_of

_bag_backward = Kernel("_embedding_bag_backward", "_embedding_bag_backward", "functional")


def to_sparse_dims(self: torch.Tensor, sparse_dim: int) -> torch.Tensor:
    dims = self.dim()
    if not 0 <= sparse_dim <= dims:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{dims}] range, but {sparse_dim} is given"
        )
    if sparse_dim == 0 and dims > 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if dims == 0:
        n = int((self != 0).item())
        indices = torch.empty((0, n), dtype=torch.int64, device=self.device)
        return made(indices, self.reshape(1)[:n].clone(), (), True)
    there = self != 0
    if sparse_dim < dims:
        there = there.flatten(sparse_dim).any(-1)
    if _native.tracing() and self.numel():
        return _everywhere(self, there)
    places = there.nonzero()
    values = self[tuple(places.unbind(1))]
    return made(places.t().contiguous(), values, self.shape, True)


def _everywhere(self: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
    """``self`` as a sparse tensor with an entry for every place, which is padding where nothing is ``there``."""
    size = there.shape
    rest = torch.arange(there.numel(), device=self.device)
    columns = []
    for n in reversed(size[1:]):
        columns.append(rest % n)
        rest = rest // n
    columns.append(torch.where(there.flatten(), rest, size[0]))
    values = self.reshape(-1, *self.shape[there.dim() :])
    return made(torch.stack(columns[::-1]), values.clone(), self.shape, True, padded=True)


def to_sparse(
    self: torch.Tensor, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> torch.Tensor:
    if layout not in (None, torch.sparse_coo):
        raise no_layout("to_sparse", layout)
    if blocksize is not None:
        raise RuntimeError("to_sparse: conversion from Strided to Sparse does not use specified blocksize")
    return to_sparse_dims(self, self.dim() - (dense_dim or 0))


def to_dense(self: torch.Tensor, dtype: Any = None, masked_grad: bool | None = None) -> torch.Tensor:
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    out = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
    return dense_add_(out, indices_of(self), values_of(self), 1, is_padded(self))  # type: ignore[no-any-return]


def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if not (self.is_sparse and src.is_sparse):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {self.type()} and src "
            f"type = {src.type()}"
        )
    return put(self, src)


def clone(self: torch.Tensor, *, memory_format: Any = None) -> torch.Tensor:
    if memory_format not in (None, torch.preserve_format):
        raise RuntimeError(f"unsupported memory format option {memory_format}")
    return made(
        indices_of(self).clone(), values_of(self).clone(), self.shape, self.is_coalesced(), padded=is_padded(self)
    )


def permute(self: torch.Tensor, dims: list[int]) -> torch.Tensor:
    k = self.sparse_dim()
    order = [d % self.dim() if -self.dim() <= d < self.dim() else d for d in dims]
    if sorted(order) != list(range(self.dim())):
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {self.dim()} is not equal to len(dims) = {len(dims)}"
            if len(order) != self.dim()
            else f"permute(): got dims {list(dims)}, expected each dim of the tensor once"
        )
    if sorted(order[:k]) != list(range(k)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only "
            "transpositions within sparse and dense dimensions are supported."
        )
    if is_padded(self) and order[0] != 0:
        raise refusal("sparse", ": permute")
    indices = torch.stack([indices_of(self)[d] for d in order[:k]]) if k else indices_of(self).clone()
    values = values_of(self).permute([0, *(d - k + 1 for d in order[k:])]).contiguous()
    size = [self.shape[d] for d in order]
    coalesced = self.is_coalesced() and order[:k] == list(range(k))
    return made(indices, values, size, coalesced, padded=is_padded(self))


def embedding_sparse_backward(
    grad: torch.Tensor, indices: torch.Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> torch.Tensor:
    """Torch leaves the entries of the padding row out; a trace cannot, there they become padding."""
    if not _native.tracing() or padding_idx == -1 or scale_grad_by_freq or not indices.numel():
        op = torch.ops.aten.embedding_sparse_backward.default
        return op.decompose(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
    width = grad.shape[-1]
    padding = indices.reshape(-1) == padding_idx
    places = torch.where(padding, num_weights, indices.reshape(-1)).unsqueeze(0)
    values = torch.where(padding.unsqueeze(1), 0, grad.reshape(-1, width))
    return made(places, values, (num_weights, width), padded=True)


def embedding_bag_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    bag_size: torch.Tensor,
    maximum_indices: torch.Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None = None,
    padding_idx: int = -1,
) -> torch.Tensor:
    if not sparse:
        return _bag_backward(  # type: ignore[no-any-return]
            grad,
            indices,
            offsets,
            offset2bag,
            bag_size,
            maximum_indices,
            num_weights,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            padding_idx,
        )
    return torch.ops.aten._embedding_bag_sparse_backward(
        grad,
        indices,
        offsets,
        offset2bag,
        bag_size,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )


KERNELS = {
    "_to_sparse": to_sparse,
    "_to_sparse.sparse_dim": to_sparse_dims,
    "embedding_sparse_backward": embedding_sparse_backward,
    "_embedding_bag_backward": embedding_bag_backward,
}

# Those of torch's kernels that read no element.
_STRUCTURAL = (
    "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "_dimI",
    "_dimV",
    "sparse_dim",
    "dense_dim",
    "is_coalesced",
    "_coalesced_",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "resize_as_sparse_",
    "copy_sparse_to_sparse_",
    "empty.memory_format",
    "empty_like",
    "unsqueeze",
    "cat",
    "zero_",
    "zeros.out",
    "_to_sparse",
    "_to_sparse.sparse_dim",
)

SPARSE_KERNELS = {
    **{name: structural(name) for name in _STRUCTURAL},
    **{name: shown(name, structural(name)) for name in ("_indices", "_values", "_nnz", "indices", "values")},
    "_coalesce": merged,
    "_to_dense": to_dense,
    "copy_": copy_,
    "clone": clone,
    "permute": permute,
}
