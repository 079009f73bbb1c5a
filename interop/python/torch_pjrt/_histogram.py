"""Histograms: what torch checks of their arguments, and their edges and sums as two kernels."""

from __future__ import annotations

import torch

from ._copy import into
from ._lazy_kernel import Kernel

_edges = Kernel("_bin_edges", "_bin_edges", "functional")
_sums = Kernel("_bin_sums", "_bin_sums", "functional")
_Two = tuple[torch.Tensor, torch.Tensor]


def _check(
    name: str, self: torch.Tensor, count: int, weight: torch.Tensor | None, edges: list[torch.Tensor] | None
) -> None:
    if not self.is_floating_point():
        kind = str(self.dtype).removeprefix("torch.")
        raise NotImplementedError(f'"histogram_cpu" not implemented for {kind}: expected a floating point tensor')
    if self.dim() < 2:
        raise RuntimeError(f"{name}: input tensor should have at least 2 dimensions, but got {self.dim()}")
    if count != self.size(-1):
        raise RuntimeError(
            f"{name}: expected {self.size(-1)} sequences of bin edges for a {self.size(-1)}-dimensional histogram but "
            f"got {count}"
        )
    for edge in edges or ():
        if edge.dtype != self.dtype:
            raise RuntimeError(
                f"{name}: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{self.dtype} and bins with dtype {edge.dtype}"
            )
        if edge.dim() != 1 or edge.numel() == 0:
            raise RuntimeError(f"{name}: bins tensor should have one dimension and elements, but got {edge.shape}")
    if weight is not None and weight.dtype != self.dtype:
        raise RuntimeError(
            f"{name}: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
            f"input(dtype={self.dtype}) and weight(dtype={weight.dtype})"
        )
    if weight is not None and weight.shape != self.shape[:-1]:
        raise RuntimeError(
            f"{name}: if weight tensor is provided it should have the same shape as the input tensor excluding its "
            f"innermost dimension, but got input with shape {list(self.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )


def _rows(self: torch.Tensor) -> torch.Tensor:
    """The points, a row each."""
    return self.reshape(-1, self.size(-1)) if self.numel() else self.new_empty((0, self.size(-1)))


def _bin_edges(name: str, self: torch.Tensor, bins: list[int], bounds: list[float] | None) -> list[torch.Tensor]:
    if any(n <= 0 for n in bins):
        raise RuntimeError(f"{name}(): bins must be > 0, but got {min(bins)}")
    if bounds is not None:
        if len(bounds) != 2 * len(bins):
            raise RuntimeError(
                f"{name}: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements"
            )
        for low, high in zip(bounds[::2], bounds[1::2], strict=True):
            if not low <= high:
                raise RuntimeError(f"{name}: min should not exceed max, but got min {low} max {high}")
    rows = _rows(self)
    return [
        _edges(rows[:, d], n, None if bounds is None else list(bounds[2 * d : 2 * d + 2])) for d, n in enumerate(bins)
    ]


def _fill(self: torch.Tensor, edges: list[torch.Tensor], weight: torch.Tensor | None, density: bool) -> torch.Tensor:
    return _sums(_rows(self), edges, _column(weight), density)


def bin_edges(
    self: torch.Tensor,
    bins: list[int],
    *,
    range: list[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> list[torch.Tensor]:
    _check("torch.histogramdd", self, len(bins), weight, None)
    return _bin_edges("torch.histogramdd", self, bins, range)


def from_bin_counts(
    self: torch.Tensor,
    bins: list[int],
    *,
    range: list[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> torch.Tensor:
    return _fill(self, bin_edges(self, bins, range=range, weight=weight), weight, density)


def from_bin_tensors(
    self: torch.Tensor, bins: list[torch.Tensor], *, weight: torch.Tensor | None = None, density: bool = False
) -> torch.Tensor:
    _check("torch.histogramdd", self, len(bins), weight, bins)
    return _fill(self, bins, weight, density)


def _column(t: torch.Tensor | None) -> torch.Tensor | None:
    return None if t is None else t.reshape(-1)


def histogram(
    self: torch.Tensor, bins: torch.Tensor, *, weight: torch.Tensor | None = None, density: bool = False
) -> _Two:
    column = self.reshape(-1, 1)
    _check("torch.histogramdd", column, 1, _column(weight), [bins])
    return _fill(column, [bins], _column(weight), density), bins.clone()


def histogram_of_count(
    self: torch.Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> _Two:
    column = self.reshape(-1, 1)
    _check("torch.histogramdd", column, 1, _column(weight), None)
    edges = _bin_edges("torch.histogram", column, [bins], range)
    return _fill(column, edges, _column(weight), density), edges[0]


KERNELS = {
    "_histogramdd_bin_edges": bin_edges,
    "_histogramdd_from_bin_cts": from_bin_counts,
    "_histogramdd_from_bin_tensors": from_bin_tensors,
    "histogram.bins_tensor": histogram,
    "histogram.bins_tensor_out": into("histogram.bins_tensor_out", histogram, "hist", "bin_edges"),
    "histogram.bin_ct": histogram_of_count,
    "histogram.bin_ct_out": into("histogram.bin_ct_out", histogram_of_count, "hist", "bin_edges"),
}
