"""Attention: the fused kernel under ``scaled_dot_product_attention``, and the inference fast paths of ``torch.nn``."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from . import _native

_FUSED = "_scaled_dot_product_fused_attention_overrideable"


def _is_plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> bool:
    """Whether the fused kernel takes these operands; torch's own formula serves the others."""
    q, k, v = query.shape, key.shape, value.shape
    if len(q) < 3 or len(k) != len(q) or k[:-1] != v[:-1] or q[-1] != k[-1]:
        return False
    if query.dtype != key.dtype or query.dtype != value.dtype or not query.dtype.is_floating_point:
        return False
    if q[:-2] != k[:-2] and not (enable_gqa and q[:-3] == k[:-3] and k[-3] != 0 and q[-3] % k[-3] == 0):
        return False
    if 0 in q or 0 in k or 0 in v:
        return False
    # Transforms and forward-mode differentiation know the formula, not the kernel.
    return torch._C._functorch.peek_interpreter_stack() is None and forward_ad._current_level < 0


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if attn_mask is not None and is_causal:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise RuntimeError(
            "scaled_dot_product_attention: Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(
            "scaled_dot_product_attention: Expected attn_mask dtype to be bool or float or to match query dtype, but "
            f"got attn_mask.dtype: {attn_mask.dtype} and query.dtype: {query.dtype} instead."
        )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if _is_plain(query, key, value, enable_gqa):
        fused = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
        return fused(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]  # type: ignore[no-any-return]
    return torch.ops.aten._scaled_dot_product_attention_math.default(  # type: ignore[no-any-return]
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


_forward: Any = None


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    global _forward
    if _forward is None:
        _forward = _native.kernel(_FUSED, _FUSED, "functional")
    out, logsumexp, seed = _forward(query, key, value, attn_bias, dropout_p, is_causal, False, scale=scale)
    return out, logsumexp, None, None, query.shape[-2], key.shape[-2], seed, None, None


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    num_heads: int,
    mask: torch.Tensor | None,
    mask_type: int | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Query and key in heads, and the attention bias that a mask of the fast paths (true where hidden) means."""
    batch, _, width = query.shape

    def split(t: torch.Tensor) -> torch.Tensor:
        return t.view(batch, t.shape[1], num_heads, width // num_heads).transpose(1, 2)

    if mask is not None:
        mask = mask.to(torch.bool)
        if mask_type == 1:
            mask = mask.view(batch, 1, 1, -1)
        mask = mask.logical_not()
    return split(query), split(key), split(value), mask  # type: ignore[return-value]


def _native_multi_head_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    weights_in, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    projected = [
        torch.nn.functional.linear(t, w, b) for t, w, b in zip((query, key, value), weights_in, biases, strict=True)
    ]
    q, k, v, keep = _attend(projected[0], projected[1], projected[2], num_head, mask, mask_type)
    weights = None
    if need_weights:
        scores = (q * (q.shape[-1] ** -0.5)) @ k.transpose(-2, -1)
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        weights = torch._safe_softmax(scores, -1)
        heads = weights @ v
        if average_attn_weights:
            weights = weights.mean(1)
    else:
        heads = scaled_dot_product_attention(q, k, v, keep)
    joined = heads.transpose(1, 2).reshape(query.shape[0], query.shape[1], embed_dim)
    return torch.nn.functional.linear(joined, proj_weight, proj_bias), weights


def _transformer_encoder_layer_fwd(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attention(x: torch.Tensor) -> torch.Tensor:
        qkv = torch.nn.functional.linear(x, qkv_weight, qkv_bias).chunk(3, -1)
        q, k, v, keep = _attend(qkv[0], qkv[1], qkv[2], num_heads, mask, mask_type)
        heads = scaled_dot_product_attention(q, k, v, keep)
        return torch.nn.functional.linear(heads.transpose(1, 2).reshape(x.shape), proj_weight, proj_bias)

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = torch.nn.functional.gelu(hidden) if use_gelu else torch.relu(hidden)
        return torch.nn.functional.linear(hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        src = src + attention(norm(src, norm_weight_1, norm_bias_1))
        return src + feed_forward(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attention(src), norm_weight_1, norm_bias_1)
    return norm(src + feed_forward(src), norm_weight_2, norm_bias_2)


def _nested_tensor_from_mask_left_aligned(t: torch.Tensor, mask: torch.Tensor) -> bool:
    """No: the device has no nested tensors, and saying so keeps ``TransformerEncoder`` on padded ones."""
    return False


KERNELS = {
    _FUSED: _fused,
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "_native_multi_head_attention": _native_multi_head_attention,
    "_transformer_encoder_layer_fwd": _transformer_encoder_layer_fwd,
    "_nested_tensor_from_mask_left_aligned": _nested_tensor_from_mask_left_aligned,
}

# Composite ops that are taken over before torch decomposes them; what they call records the gradient.
AUTOGRAD_KERNELS = {"scaled_dot_product_attention": scaled_dot_product_attention}
