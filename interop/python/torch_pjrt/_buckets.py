"""Lengths that vary from call to call, padded to a few: one program for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree


def powers_of_two(n: int) -> int:
    """The next power of two: 1, 2, 4, 8, ..."""
    return 1 << max(n - 1, 0).bit_length()


class Buckets:
    """Pads arguments and cuts results, for ``jit(pad_batch=...)``."""

    def __init__(self, fn: Callable[..., Any], dims: int | Mapping[str, int], bucket: Callable[[int], int]) -> None:
        target = fn.forward if isinstance(fn, torch.nn.Module) else fn
        self.signature = inspect.signature(target)
        self.dims, self.bucket = dims, bucket
        self.takes_valid = "valid" in self.signature.parameters

    def _dim(self, name: str) -> int | None:
        return self.dims if isinstance(self.dims, int) else self.dims.get(name)

    def pad(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], int, int]:
        """The padded call, its length and its bucket. Padding is done on the host, where it needs no program."""
        bound = self.signature.bind_partial(*args, **kwargs)
        length = None
        for name, value in bound.arguments.items():
            dim = self._dim(name)
            if dim is not None and isinstance(value, torch.Tensor) and value.dim() > dim:
                if length is not None and value.shape[dim] != length:
                    raise ValueError(
                        f"jit: pad_batch: argument `{name}`: got length {value.shape[dim]} in dim {dim}, expected "
                        f"{length} like the arguments before it"
                    )
                length = value.shape[dim]
        if length is None:
            raise ValueError("jit: pad_batch: got no tensor to pad, expected at least one")
        size = self.bucket(length)
        if size < length:
            raise ValueError(f"jit: pad_batch: the bucket of length {length} is {size}, expected at least {length}")
        for name, value in bound.arguments.items():
            dim = self._dim(name)
            if dim is not None and isinstance(value, torch.Tensor) and value.dim() > dim:
                if value.requires_grad and torch.is_grad_enabled():
                    raise ValueError(
                        f"jit: pad_batch: argument `{name}` requires a gradient, which does not pass the padding; "
                        "expected data. Way out: detach() it, or pad it outside and do not list it"
                    )
                host = value.detach().cpu()
                shape = list(host.shape)
                shape[dim] = size
                padded = host.new_zeros(shape)
                padded.narrow(dim, 0, length).copy_(host)
                bound.arguments[name] = padded.to("pjrt")
        if self.takes_valid:
            bound.arguments["valid"] = (torch.arange(size) < length).to("pjrt")
        return bound.args, bound.kwargs, length, size

    def pads(self, name: str, rank: int) -> bool:
        """Whether :meth:`pad` makes a copy of the argument of this name."""
        dim = self._dim(name)
        return dim is not None and rank > dim

    def cut(self, out: Any, length: int, size: int) -> Any:
        """Results without the padding: tensors whose padded dim has the bucket's size."""
        if length == size:
            return out
        dims = {self.dims} if isinstance(self.dims, int) else set(self.dims.values())

        cut: dict[int, torch.Tensor] = {}

        def one(t: torch.Tensor) -> torch.Tensor:
            for d in dims:
                if t.dim() > d and t.shape[d] == size:
                    if id(t) not in cut:
                        cut[id(t)] = t.narrow(d, 0, length)
                    return cut[id(t)]
            return t

        return pytree.tree_map_only(torch.Tensor, one, out)
