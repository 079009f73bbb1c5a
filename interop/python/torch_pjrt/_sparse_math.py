"""Arithmetic of sparse COO tensors, by the rules of torch CPU, from the arithmetic of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._copy import into, scalar_name
from ._sparse_parts import (
    dense_add,
    dense_add_,
    entries,
    indices_of,
    is_padded,
    like,
    live_values,
    made,
    merged,
    put,
    take,
    values_of,
)

_aten = torch.ops.aten


def _coalesced(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_coalesced() else merged(x)


def _same_device(op: str, *tensors: torch.Tensor) -> None:
    for t in tensors:
        if t.device.type != "pjrt" and t.dim() > 0:
            raise RuntimeError(
                f"{op}: Expected all tensors to be on the same device, but found at least two devices, pjrt:0 and "
                f"{t.device}!"
            )


# --- sums


def _check_same_sizes(self: torch.Tensor, other: torch.Tensor) -> None:
    if self.shape != other.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(self.shape)} while other has "
            f"size {list(other.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )


def _sum(self: torch.Tensor, other: torch.Tensor, alpha: Any) -> torch.Tensor:
    """The entries of both; of two coalesced tensors a coalesced one, as torch CPU has it."""
    if self.shape != other.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(self.shape)} != {list(other.shape)}"
        )
    if self.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but self has "
            f"{self.sparse_dim()} and other has {other.sparse_dim()}"
        )
    dtype = torch.result_type(self, other)
    scaled = values_of(other).to(dtype)
    scaled = scaled if type(alpha) is int and alpha == 1 else scaled * alpha
    if scaled.dtype != dtype:
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    both = made(
        torch.cat([indices_of(self), indices_of(other)], 1),
        torch.cat([values_of(self).to(dtype), scaled]),
        self.shape,
        padded=is_padded(self) or is_padded(other),
    )
    return merged(both) if self.is_coalesced() and other.is_coalesced() else both


def add(self: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    _same_device("add", self, other)
    if self.is_sparse and other.is_sparse:
        return _sum(self, other, alpha)
    if self.is_sparse:
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    _check_same_sizes(self, other)
    dtype = torch.result_type(self, other)
    return dense_add(self.to(dtype), indices_of(other), values_of(other), alpha, is_padded(other))  # type: ignore[no-any-return]


def add_(self: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    _same_device("add_", self, other)
    dtype = torch.result_type(self, other)
    if not torch.can_cast(dtype, self.dtype):
        raise RuntimeError(
            f"Can't convert result type {scalar_name(dtype)} to output {scalar_name(self.dtype)} in add operation"
        )
    if self.is_sparse:
        return put(self, add(self, other, alpha=alpha))
    _check_same_sizes(self, other)
    if dtype != self.dtype:
        return self.copy_(add(self, other, alpha=alpha))
    return dense_add_(self, indices_of(other), values_of(other), alpha, is_padded(other))  # type: ignore[no-any-return]


def sub(self: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    return add(self, other, alpha=-alpha)


def sub_(self: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    return add_(self, other, alpha=-alpha)


# --- products and quotients


def mul(self: Any, other: Any) -> torch.Tensor:
    # torch hands over numbers, on either side, where its own kernels get tensors without dims.
    if not isinstance(self, torch.Tensor) or not self.is_sparse:
        self, other = other, self
    if not isinstance(other, torch.Tensor):
        return like(self, values_of(self) * other)
    _same_device("mul", other)
    if other.dim() == 0 and not other.is_sparse:
        dtype = torch.result_type(self, other)
        return like(self, (values_of(self) * other).to(dtype))
    if self.shape == other.shape and not other.is_sparse:
        dtype = torch.result_type(self, other)
        picked = take(other, indices_of(self), is_padded(self))
        return like(self, values_of(self).to(dtype) * picked.to(dtype))
    from . import _fallback

    return _fallback.run(_aten.mul.Tensor, (self, other), {}, "of two sparse tensors, or with broadcasting")  # type: ignore[no-any-return]


def div(self: torch.Tensor, other: Any, *, rounding_mode: str | None = None) -> torch.Tensor:
    if isinstance(other, torch.Tensor) and (other.is_sparse or other.dim() != 0 or not self.is_sparse):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for "
            "divisor)"
        )
    if rounding_mode is not None:
        self = _coalesced(self)
    dtype = torch.result_type(self, other)
    quotient = torch.div(values_of(self), other, rounding_mode=rounding_mode)
    return like(self, quotient if rounding_mode is None else quotient.to(dtype))


def floor_divide(self: torch.Tensor, other: Any) -> torch.Tensor:
    return div(self, other, rounding_mode="floor")


def _written(function: Callable[..., torch.Tensor], op: str, coalesced: bool) -> Callable[..., torch.Tensor]:
    """The in-place form of ``function``."""

    def kernel(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if coalesced and not self.is_coalesced():
            raise RuntimeError(f"{op} requires coalesced input")
        x = function(self, *args, **kwargs)
        if not torch.can_cast(x.dtype, self.dtype):
            raise RuntimeError(f"{op}: result type {x.dtype} can't be cast to the desired output type {self.dtype}")
        return put(self, x) if self.is_sparse else self.copy_(x)

    return kernel


def _to(function: Callable[..., torch.Tensor], op: str) -> Callable[..., torch.Tensor]:
    """The ``out=`` form of ``function``."""
    dense = into(op, function, "out")

    def kernel(*args: Any, **kwargs: Any) -> torch.Tensor:
        out = kwargs["out"] if "out" in kwargs else args[-1]
        if "out" not in kwargs:
            args = args[:-1]
        if not out.is_sparse:
            return dense(*args, **{**kwargs, "out": out})  # type: ignore[no-any-return]
        kwargs.pop("out", None)
        x = function(*args, **kwargs)
        if not torch.can_cast(x.dtype, out.dtype):
            raise RuntimeError(f"{op}: result type {x.dtype} can't be cast to the desired output type {out.dtype}")
        return put(out, x)

    return kernel


# --- functions of one tensor that keep zero


def _of_values(name: str) -> Callable[..., torch.Tensor]:
    op = getattr(torch, name)

    def kernel(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        x = _coalesced(self)
        return like(x, op(values_of(x), *args, **kwargs))

    return kernel


def neg(self: torch.Tensor) -> torch.Tensor:
    return like(self, -values_of(self))


def pow_scalar(self: torch.Tensor, exponent: Any) -> torch.Tensor:
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    x = _coalesced(self)
    return like(x, values_of(x).pow(exponent))


# --- reductions


def _norm_of(x: torch.Tensor, p: Any, dim: Any, keepdim: bool, dtype: Any) -> torch.Tensor:
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if dims and {d % max(x.dim(), 1) for d in dims} != set(range(x.dim())):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            "dimensions of the input"
        )
    x = _coalesced(x)
    p = 2 if p is None else p
    if is_padded(x) and p < 0:
        from ._jit_errors import refusal

        raise refusal("sparse", f": norm of order {p}")
    found = torch.linalg.vector_norm(live_values(x), p, dtype=dtype)
    return found.reshape([1] * x.dim()) if keepdim else found


def vector_norm(
    self: torch.Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    return _norm_of(self, ord, dim, keepdim, dtype)


def native_norm(self: torch.Tensor, p: Any = 2) -> torch.Tensor:
    return _norm_of(self, p, None, False, None)


def norm(self: torch.Tensor, p: Any, dim: Any, keepdim: bool = False, dtype: Any = None) -> torch.Tensor:
    return _norm_of(self, p, dim, keepdim, dtype)


def norm_dtype(self: torch.Tensor, p: Any, dim: Any, keepdim: bool = False, *, dtype: Any) -> torch.Tensor:
    return _norm_of(self, p, dim, keepdim, dtype)


def sum_all(self: torch.Tensor, *, dtype: Any = None) -> torch.Tensor:
    return live_values(self).sum(dtype=dtype)


def any_nonzero(self: torch.Tensor) -> torch.Tensor:
    return live_values(self).any()


# --- places of one tensor in another


def sparse_mask(self: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if not mask.is_sparse:
        raise RuntimeError("sparse_mask(): mask should be sparse")
    _same_device("sparse_mask", self, mask)
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask.shape)}"
        )
    if self.is_sparse:
        self = self.to_dense()
    return like(mask, take(self, indices_of(mask), is_padded(mask)))


def mask_projection(self: torch.Tensor, mask: torch.Tensor, accumulate_matches: bool = False) -> torch.Tensor:
    """``self`` with zeros where ``mask`` has no entry; times their number where it has several, if so asked."""
    k, padded = mask.sparse_dim(), is_padded(mask)
    ones = torch.ones(entries(mask), dtype=torch.int64, device=mask.device)
    found = torch.zeros(mask.shape[:k], dtype=torch.int64, device=mask.device)
    found = take(dense_add_(found, indices_of(mask), ones, 1, padded), indices_of(self), is_padded(self))
    times = (found if accumulate_matches else found != 0).to(self.dtype)
    values = values_of(self)
    return like(self, values * times.reshape(-1, *[1] * (values.dim() - 1)))


def sum_backward(grad: torch.Tensor, self: torch.Tensor, dim: list[int]) -> torch.Tensor:
    """The gradient of ``torch.sparse.sum``, at the places of ``self``."""
    self = _coalesced(self)
    k = self.sparse_dim()
    dims = {d % self.dim() for d in dim}
    kept = [d for d in range(k) if d not in dims]
    values = grad.to_dense() if grad.is_sparse else grad
    if kept:
        places = torch.stack([indices_of(self)[d] for d in kept])
        # Padding shows in dim 0 alone, and a place that is not there may be picked from anywhere.
        values = take(values, places, is_padded(self))
    else:
        values = values.unsqueeze(0)
    for d in sorted(d for d in dims if d >= k):
        values = values.unsqueeze(d - k + 1)
    return like(self, values.expand(values_of(self).shape).to(self.dtype).contiguous())


# --- matrix products


def mm(self: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    _same_device("mm", self, mat2)
    if self.dim() != 2 or mat2.dim() != 2 or self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {self.shape[-1]}, got {mat2.shape[0]}"
            if self.dim() == mat2.dim() == 2
            else f"addmm: Expected matrices, got {self.dim()}D and {mat2.dim()}D tensors"
        )
    if not self.is_sparse:
        return mm(mat2.t(), self.t()).t()
    if mat2.is_sparse:
        from . import _fallback

        return _fallback.run(_aten.mm.default, (self, mat2), {}, "of two sparse matrices")  # type: ignore[no-any-return]
    if self.dtype != mat2.dtype:
        raise RuntimeError(f"mm: expected both matrices to have one dtype, got {self.dtype} and {mat2.dtype}")
    if self.dense_dim() != 0:
        raise RuntimeError(f"mm: expected scalar values, got {self.dense_dim()}D values")
    indices, padded = indices_of(self), is_padded(self)
    # What padding names is picked from somewhere and goes to a row past the end.
    rows = take(mat2, indices[1:], padded) * values_of(self).unsqueeze(1)
    out = torch.zeros((self.shape[0], mat2.shape[1]), dtype=self.dtype, device=self.device)
    return dense_add_(out, indices[:1], rows, 1, padded)  # type: ignore[no-any-return]


def addmm(self: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    product = mm(mat1, mat2)
    product = product if type(alpha) is int and alpha == 1 else product * alpha
    if beta == 0:
        return product
    self = self.expand(product.shape)
    return torch.add(product, self, alpha=beta)


def mv(self: torch.Tensor, vec: torch.Tensor) -> torch.Tensor:
    if self.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {self.dim()} Tensor Dim: {vec.dim()}"
        )
    return mm(self, vec.unsqueeze(1)).squeeze(1)


# Keep zero, so only the values of a coalesced tensor matter.
_KEEP_ZERO = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p nan_to_num "
    "rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc"
).split()

_WITH_FORMS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "add.Tensor": (add, "add_.Tensor", "add.out"),
    "sub.Tensor": (sub, "sub_.Tensor", "sub.out"),
    "mul.Tensor": (mul, "mul_.Tensor", "mul.out"),
    "div.Tensor": (div, "div_.Tensor", "div.out"),
    "div.Tensor_mode": (div, "div_.Tensor_mode", "div.out_mode"),
    "floor_divide": (floor_divide, "floor_divide_.Tensor", "floor_divide.out"),
    "neg": (neg, "neg_", "neg.out"),
    "pow.Tensor_Scalar": (pow_scalar, "", "pow.Tensor_Scalar_out"),
    "mm": (mm, "", "mm.out"),
    "addmm": (addmm, "addmm_", "addmm.out"),
    **{
        name: (_of_values(name), "" if name.startswith("is") or name == "signbit" else f"{name}_", f"{name}.out")
        for name in _KEEP_ZERO
    },
}


def _forms() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name, (function, in_place, out) in _WITH_FORMS.items():
        found[name] = function
        if in_place:
            found[in_place] = _written(function, in_place, coalesced=name in _KEEP_ZERO)
        if out not in ("isinf.out", "isnan.out", "relu.out"):
            found[out] = _to(function, out)
    return found


SPARSE_KERNELS = {
    **_forms(),
    "add_.Tensor": add_,
    "sub_.Tensor": sub_,
    "linalg_vector_norm": vector_norm,
    "native_norm": native_norm,
    "native_norm.ScalarOpt_dim_dtype": norm,
    "norm.ScalarOpt_dim": norm,
    "norm.ScalarOpt_dim_dtype": norm_dtype,
    "sum": sum_all,
    "any": any_nonzero,
    "sparse_mask": sparse_mask,
    "_sparse_mask_projection": mask_projection,
    "_sparse_sum_backward": sum_backward,
    "mv": mv,
}
