"""Ops for which torch's own formulas look at values on the host: inside a trace they take formulas that do not.

Most are gradients that ask whether there are zeros or a NaN and then take a shorter way; the formulas here are right
either way. Outside traces, and under ``torch.func`` transforms, torch's own are used. When these look at a value, the
trace is made once more, see ``_blind.py``.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from . import _native
from ._asserted import check

_aten = torch.ops.aten
_Keys = torch._C.DispatchKeySet
_Key = torch._C.DispatchKey


class _Chosen(torch.autograd.Function):
    """``max``, ``min``, ``median`` of all elements: those that equal the result share the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, op: Any) -> torch.Tensor:
        value = op(x)
        ctx.save_for_backward(x, value)
        return value  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        x, value = ctx.saved_tensors
        chosen = torch.where(value.isnan(), x.isnan(), x == value)
        return torch.where(chosen, grad / chosen.sum(), 0), None


class _Product(torch.autograd.Function):
    """``prod``: the gradient of an element is the product of the others."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, keepdim: bool, dtype: Any, whole: bool) -> torch.Tensor:
        ctx.dim, ctx.keepdim, ctx.whole = dim, keepdim, whole
        ctx.save_for_backward(x)
        return _aten.prod.dim_int(x, dim, keepdim, dtype=dtype)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        (x,), dim = ctx.saved_tensors, ctx.dim
        grad = grad if ctx.keepdim else grad.unsqueeze(dim)
        wide = x.to(grad.dtype)
        others = _before_and_after(wide, dim) if torch.is_grad_enabled() else _others(wide, dim, ctx.whole)
        return (grad * others.conj()).to(x.dtype), None, None, None, None


def _others(x: torch.Tensor, dim: int, whole: bool) -> torch.Tensor:
    """The product of all but each, by torch's rules: divided out where no zero is anywhere."""
    zeros = (x == 0).sum()
    safe = _before_and_after(x, dim)
    if whole:
        safe = torch.where(zeros > 1, 0, safe)
    return torch.where(zeros == 0, x.prod(dim, keepdim=True) / x, safe)


def _before_and_after(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The product of all but each, as what is before it times what is after it: differentiable everywhere."""
    n = x.size(dim)
    one = torch.ones_like(x.narrow(dim, 0, 1))
    before = torch.cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = torch.cat([one, x.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


def _plain(x: torch.Tensor) -> bool:
    """Whether a gradient of ``x`` is being recorded in a trace, by autograd alone."""
    return bool(
        _native.tracing()
        and x.requires_grad
        and x.numel()
        and torch.is_grad_enabled()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch.autograd.forward_ad._current_level < 0
    )


def _theirs(op: Any, keys: Any, *args: Any, **kwargs: Any) -> Any:
    """``op`` as torch's autograd has it for every device. (The Python dispatcher, on while dynamo looks at a function,
    would begin again with the keys of the tensors.)"""
    keys = keys.remove(_Key.AutogradPrivateUse1).remove(_Key.PythonDispatcher)
    return op.redispatch(keys | _Keys(_Key.AutogradOther), *args, **kwargs)


def _choosing(op: Any) -> Any:
    def kernel(keys: Any, self: torch.Tensor) -> Any:
        return _Chosen.apply(self, op) if _plain(self) else _theirs(op, keys, self)

    return kernel


def _prod(keys: Any, self: torch.Tensor, *, dtype: Any = None) -> Any:
    if self.dim() == 0 or not _plain(self):
        return _theirs(_aten.prod.default, keys, self, dtype=dtype)
    return _Product.apply(self.reshape(-1), 0, False, dtype, True)


def _prod_dim(keys: Any, self: torch.Tensor, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    op = _aten.prod.dim_int
    if not _plain(self) or not -self.dim() <= dim < self.dim():
        return _theirs(op, keys, self, dim, keepdim, dtype=dtype)
    return _Product.apply(self, dim, keepdim, dtype, False)


def _cumprod_backward(keys: Any, grad: torch.Tensor, input: torch.Tensor, dim: int, output: torch.Tensor) -> Any:
    """Up to the first zero, what comes from dividing; at the first zero, products without it; after it, nothing."""
    if not _native.tracing() or torch.is_grad_enabled():
        return _aten.cumprod_backward.default.decompose(grad, input, dim, output)
    if input.numel() <= 1 or input.size(dim) == 1:
        return grad
    zero = input == 0
    zeros = zero.cumsum(dim)
    first = zero & (zeros == 1)
    without = torch.where(first, 1, input)

    def to_the_end(x: torch.Tensor) -> torch.Tensor:
        return x.flip(dim).cumsum(dim).flip(dim)

    divided = to_the_end(grad * output.conj()) / input.conj()
    at_first = to_the_end(torch.where(zeros > 0, grad * without.cumprod(dim).conj(), 0))
    return torch.where(first, at_first, torch.where(zeros == 0, divided, 0))


def _cov(
    keys: Any,
    self: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> Any:
    """Covariance: torch looks at the degrees of freedom on the host, which without weights need no tensor."""
    weights = fweights is not None or aweights is not None
    if not _native.tracing() or weights or self.dim() > 2 or self.dtype == torch.bool:
        return _aten.cov.default.decompose(self, correction=correction, fweights=fweights, aweights=aweights)
    x = self.view(1, -1) if self.dim() < 2 else self
    n = x.size(1)
    x = x - (x.sum(1) / n).unsqueeze(1)
    return (x.mm(x.t().conj()) / max(n - correction, 0)).squeeze()


# What a factorization that failed says, by a word in the name of the function that asked for it.
_FAILURES = {
    "inv": "The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
    "singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite (the leading "
    "minor of order {} is not positive-definite).",
    "svd": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
    "singular values (error code: {}).",
    "eig": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
    "eigenvalues (error code: {}).",
    "lu_factor": "U[{},{}] is zero and using it on lu_solve would result in a division by zero.",
}


def _check_errors(info: torch.Tensor, api_name: str, *, is_matrix: bool) -> None:
    """The device finds out whether a factorization failed, and the error comes with the program's results."""
    if not _native.tracing():
        _aten._linalg_check_errors.default._op_dk(_Key.CompositeExplicitAutograd, info, api_name, is_matrix=is_matrix)
        return
    text = next((text for word, text in _FAILURES.items() if word in api_name), "The computation failed (code {}).")
    check(info != 0, f"{api_name}: {text}", "linalg", info)


@functools.cache
def register() -> None:
    """Registers the formulas, at the first trace."""
    from . import _registry

    gradients = {
        "max": _choosing(_aten.max.default),
        "min": _choosing(_aten.min.default),
        "median": _choosing(_aten.median.default),
        "nanmedian": _choosing(_aten.nanmedian.default),
        "prod": _prod,
        "prod.dim_int": _prod_dim,
    }
    composites = {"cumprod_backward": _cumprod_backward, "cov": _cov}
    for name, function in {**gradients, **composites}.items():
        _registry._library.impl(name, "AutogradPrivateUse1", function, True)
    for name, function in composites.items():
        _registry._library.impl(name, "PrivateUse1", function, True)
    _registry._library.impl("_linalg_check_errors", "PrivateUse1", _check_errors)
    _say_that_it_is_traced()


def _say_that_it_is_traced() -> None:
    """Libraries (transformers, for its masks) ask torch whether they may look at values: inside a trace they may not.

    torch itself asks in order to refuse what TorchScript cannot do, so its own code gets the old answer.
    """
    script: Any = torch.jit
    theirs = script.is_tracing

    def is_tracing() -> bool:
        asks = sys._getframe(1).f_globals.get("__name__", "")
        return bool(theirs() or (_native.tracing() and not asks.startswith("torch.")))

    script.is_tracing = is_tracing
