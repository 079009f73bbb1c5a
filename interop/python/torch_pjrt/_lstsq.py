"""Least squares: which of the results a driver gives, as torch CPU has it."""

from __future__ import annotations

import torch

from . import _native
from ._copy import into
from ._jit_errors import refusal
from ._lazy_kernel import Kernel

_lstsq = Kernel("_lstsq", "_lstsq", "functional")
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")
_Results = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _check(a: torch.Tensor, b: torch.Tensor, vectors: bool, driver: str) -> None:
    if a.dim() < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if b.dim() < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if not 0 <= a.dim() - b.dim() <= 1:
        raise RuntimeError(
            "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) "
            f"<= 1, got {a.dim()} and {b.dim()}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {a.dtype} and "
            f"other's dtype {b.dtype}"
        )
    if a.dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise RuntimeError(f"linalg.lstsq: Expected a floating point or complex tensor as input. Got {a.dtype}")
    if a.shape[-2] != b.shape[-1 if vectors else -2]:
        raise RuntimeError(f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vectors else -2})")
    if driver not in _DRIVERS:
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of {_DRIVERS}, got {driver!r}")


def lstsq(self: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None) -> _Results:
    driver = "gelsy" if driver is None else driver.lower()
    vectors = b.dim() == self.dim() - 1
    _check(self, b, vectors, driver)
    m, n = self.shape[-2:]
    right = b.unsqueeze(-1) if vectors else b
    if rcond is None:
        rcond = torch.finfo(self.dtype).eps * max(m, n)
    real = self.real.dtype if self.is_complex() else self.dtype
    nothing = torch.empty(0, dtype=real, device=self.device)
    batch = torch.broadcast_shapes(self.shape[:-2], right.shape[:-2])
    if 0 in (m, n) or right.numel() == 0 or 0 in batch:
        x = torch.zeros((*batch, n, right.shape[-1]), dtype=self.dtype, device=self.device)
        rank = torch.zeros(batch, dtype=torch.int64, device=self.device)
        values = torch.zeros((*batch, min(m, n)), dtype=real, device=self.device)
        left = torch.zeros((*batch, right.shape[-1]), dtype=real, device=self.device)
        full_rank: bool | None = n == 0 or 0 in batch
        if n == 0 and driver in ("gelsd", "gelss"):  # no columns: all of the other side is left over
            left = left + right.abs().square().sum(-2)
    else:
        x, left, rank, values = _lstsq(self, right, rcond, driver)
        full_rank = None
    # Singular values belong to the drivers that compute them; what is left over, to those that keep it.
    residuals = left if m > n and driver != "gelsy" else nothing
    if residuals is left and driver != "gels":
        if full_rank is None and _native.tracing():
            raise refusal("linalg.lstsq")
        if not (bool((rank == n).all().item()) if full_rank is None else full_rank):
            residuals = nothing
    if driver not in ("gelsd", "gelss"):
        values = nothing
    if driver == "gels":
        rank = torch.empty(0, dtype=torch.int64, device=self.device)
    return x.squeeze(-1) if vectors else x, residuals, rank, values


KERNELS = {
    "linalg_lstsq": lstsq,
    "linalg_lstsq.out": into("linalg_lstsq.out", lstsq, "solution", "residuals", "rank", "singular_values"),
}
