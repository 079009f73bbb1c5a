"""``torch.autocast("pjrt", dtype=...)``: which ops run in the low precision, which in float32, which in the widest.

The policies are those that torch documents for its other accelerators. Each op is registered for the dispatch key
``AutocastPrivateUse1``; what is not listed runs in the type of its inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

# Matmul and convolution families: cheap and safe in 16 bits because the sums are kept wider.
LOW_PRECISION = """
    _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input conv_transpose3d.input
    convolution addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
    chain_matmul linalg_multi_dot
    prelu scaled_dot_product_attention _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell
    rnn_tanh_cell rnn_relu_cell
"""
# Functions whose range or accumulated error asks for float32.
FLOAT32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan softplus
    pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar layer_norm native_layer_norm group_norm
    frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss
    nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits
    dist pdist cdist renorm logsumexp upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d
    upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
"""
# The same, by their own dtype argument: (op, name of the argument).
FLOAT32_BY_DTYPE = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
"""
# Several inputs that must agree: the widest floating type among them.
WIDEST = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add cat stack
"""
# Unsafe in 16 bits, and a better op exists.
REFUSED = "binary_cross_entropy"

_KEY = "AutocastPrivateUse1"
_KEYSET = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)  # type: ignore[attr-defined]
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


class _CastCache:
    """Low-precision copies of parameters, so that a weight used twice under one autocast is cast once.

    An entry holds for the same value (version, address) and gradient mode; torch clears the cache when the outermost
    autocast ends.
    """

    def __init__(self) -> None:
        self.entries: dict[int, tuple[weakref.ref, tuple, torch.Tensor]] = {}

    def cast(self, t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        worth = t.requires_grad and t.is_leaf and not t._is_view() and torch.is_autocast_cache_enabled()
        if not worth or torch._C._functorch.is_functorch_wrapped_tensor(t):
            return t.to(dtype)
        state = (t._version, t.data_ptr(), dtype, torch.is_grad_enabled(), torch.is_inference_mode_enabled())
        entry = self.entries.get(id(t))
        if entry is not None and entry[0]() is t and entry[1] == state:
            return entry[2]
        copy = t.to(dtype)
        self.entries[id(t)] = (weakref.ref(t), state, copy)
        return copy


_cache = _CastCache()


def _castable(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == "pjrt" and x.dtype in _DTYPES


def _map(x: Any, cast: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """``cast`` over the float16, bfloat16 and float32 pjrt tensors in ``x``; float64 and integers stay."""
    if _castable(x):
        return cast(x)
    if isinstance(x, list | tuple):
        return type(x)(_map(item, cast) for item in x)
    return x


def _tensors(args: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    _map(list(args), lambda t: found.append(t) or t)  # type: ignore[func-returns-value]
    return found


def _run(op: Any, args: tuple, kwargs: dict, cast: Callable[[torch.Tensor], torch.Tensor] | None) -> Any:
    with torch._C._ExcludeDispatchKeyGuard(_KEYSET):
        if cast is not None:
            args = tuple(_map(a, cast) for a in args)
            kwargs = {k: _map(v, cast) for k, v in kwargs.items()}
        return op(*args, **kwargs)


def _to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda t: t if t.dtype == dtype else _cache.cast(t, dtype)


def _low_precision(op: Any) -> Callable:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _run(op, args, kwargs, _to(torch.get_autocast_dtype("pjrt")))

    return kernel


def _float32(op: Any) -> Callable:
    to_float32 = _to(torch.float32)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _run(op, args, kwargs, to_float32)

    return kernel


def _float32_by_dtype(op: Any) -> Callable:
    """Asks the op itself for a float32 result where the caller left its dtype open and the input is narrower."""
    where = next(i for i, a in enumerate(op._schema.arguments) if a.name == "dtype")
    by_keyword = op._schema.arguments[where].kwarg_only

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("dtype") if by_keyword or len(args) <= where else args[where]
        if given is None and args and _castable(args[0]):
            if not by_keyword and len(args) > where:
                args = args[:where]
            kwargs = {**kwargs, "dtype": torch.float32}
        return _run(op, args, kwargs, None)

    return kernel


def _widest(op: Any) -> Callable:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtypes = {t.dtype for t in _tensors([*args, *kwargs.values()])}
        if len(dtypes) < 2:
            return _run(op, args, kwargs, None)
        return _run(op, args, kwargs, _to(torch.float32))

    return kernel


def _refused(op: Any) -> Callable:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{op.__name__}: under torch.autocast('pjrt') its input may be rounded to 0 or 1; use "
            "binary_cross_entropy_with_logits on the logits, or leave autocast for this op"
        )

    return kernel


_POLICIES = (
    (LOW_PRECISION, _low_precision),
    (FLOAT32, _float32),
    (FLOAT32_BY_DTYPE, _float32_by_dtype),
    (WIDEST, _widest),
    (REFUSED, _refused),
)


def register() -> list[torch.library.Library]:
    """Registers every policy; what has none falls through. The returned libraries must stay alive with the device."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, _KEY)
    library = torch.library.Library("aten", "IMPL")
    for names, policy in _POLICIES:
        for name in names.split():
            base, _, overload = name.partition(".")
            packet = getattr(torch.ops.aten, base, None)
            op = getattr(packet, overload or "default", None)
            if op is not None:  # an op that this torch does not have needs no policy
                library.impl(name, policy(op), _KEY)
    _clear_with_torch()
    return [library, rest]


def _clear_with_torch() -> None:
    theirs = torch.clear_autocast_cache

    def clear_autocast_cache() -> None:
        _cache.entries.clear()
        theirs()

    torch.clear_autocast_cache = clear_autocast_cache
