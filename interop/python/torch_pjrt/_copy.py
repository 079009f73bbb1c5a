"""Copies between the host and the device, and results stored into ``out=`` tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import _native
from ._lazy_bits import applied, lazy, plain, raw


def to_cpu(source: torch.Tensor) -> torch.Tensor:
    """The values of a pjrt tensor as a contiguous CPU tensor of its dtype."""
    if not _native.is_whole(source):
        return _view_to_cpu(source)
    return _whole_to_cpu(source)


def _whole_to_cpu(whole: torch.Tensor) -> torch.Tensor:
    target = torch.empty(whole.shape, dtype=whole.dtype, device="cpu")
    _native.download(whole, target)
    return target


# A view is cut out on the host when its storage has at most this many times its bytes, or is small anyway.
_WASTE, _SMALL = 4, 1 << 16


def _view_to_cpu(view: torch.Tensor) -> torch.Tensor:
    """The values of a view. On the host that takes no program; of a large storage it would copy too much."""
    nbytes, size = _native.storage_bytes(view), view.element_size()
    if nbytes % size or nbytes > max(_WASTE * view.nbytes, _SMALL):
        return _whole_to_cpu(torch.ops.aten.clone(view, memory_format=torch.contiguous_format))
    flat = torch.empty(nbytes // size, dtype=view.dtype, device="cpu")
    _native.download_storage(view, flat)
    return flat.as_strided(view.shape, view.stride(), view.storage_offset()).clone(
        memory_format=torch.contiguous_format
    )


def copy_(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    if self is src:
        return self
    if lazy(self) or lazy(src):
        # The bits of both sides: what is stored under `self` is what its own bits make of the source's values.
        copy_(raw(self), applied(plain(src), self), non_blocking)
        return self
    if self.device.type == "pjrt":
        if src.device.type == "pjrt":
            return _device_copy(self, src)
        return _upload_into(self, src)
    if self.dtype == src.dtype and self.shape == src.shape and self.is_contiguous() and _native.is_whole(src):
        _native.download(src, self)
    else:
        self.copy_(to_cpu(src))
    return self


def _device_copy(self: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    _kernel()(self, src)
    return self


def _upload_into(self: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    if src.device.type != "cpu":
        src = src.cpu()
    if src.dim() == 0:
        _kernel()(self, src)
        return self
    src = src.detach()
    if src.shape == self.shape and _native.upload_into(self, src.to(self.dtype).contiguous()):
        return self
    return _device_copy(self, _native.upload(src.contiguous()))


_copy_kernel: Any = None


def _kernel() -> Any:
    global _copy_kernel
    if _copy_kernel is None:
        _copy_kernel = _native.kernel("copy_", "copy", "inplace")
    return _copy_kernel


def _copy_from(self: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return copy_(dst, self, non_blocking)


def _copy_from_and_resize(self: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    if dst.shape != self.shape:
        dst.resize_(self.shape)
    return copy_(dst, self)


def _to_copy(
    self: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    target = torch.device(device) if device is not None else self.device
    dtype = dtype or self.dtype
    if target.type == "pjrt" and target.index not in (None, 0):
        raise RuntimeError(
            f"_to_copy: argument `device`: got {target}, expected pjrt:0, the only device of this process"
        )
    if self.device.type == "pjrt" and target.type == "pjrt":
        return _cast(self, dtype, memory_format)
    if self.device.type == "pjrt":
        host = to_cpu(self.detach())
        if memory_format in (None, torch.preserve_format) and not self.is_contiguous():
            host = torch.empty_strided(self.shape, _dense(self), dtype=self.dtype, device="cpu").copy_(host)
        return host.to(device=target, dtype=dtype, memory_format=memory_format or torch.preserve_format)
    host = self.detach().to(device="cpu", dtype=dtype)
    if memory_format not in (None, torch.preserve_format):
        host = host.contiguous(memory_format=memory_format)
    if host.is_contiguous():
        return _native.upload(host)
    out = torch.empty_strided(host.shape, _dense(host), dtype=dtype, device="pjrt")
    return copy_(out, host)


def _dense(t: torch.Tensor) -> tuple[int, ...]:
    """Strides of ``torch.empty_like(t)``."""
    return torch.empty_like(t, device="meta").stride()


_cast_kernel: Any = None


def _cast(self: torch.Tensor, dtype: torch.dtype, memory_format: torch.memory_format | None) -> torch.Tensor:
    global _cast_kernel
    if memory_format not in (None, torch.preserve_format):
        out = torch.empty(self.shape, dtype=dtype, device=self.device, memory_format=memory_format)
        return _device_copy(out, self)
    if _cast_kernel is None:
        _cast_kernel = _native.kernel("_to_copy", "_to_copy", "functional")
    return _cast_kernel(self, dtype=dtype)


# Ops that move elements without computing: torch takes no `out=` of another dtype.
_EXACT = frozenset(
    "gather scatter scatter_add scatter_reduce index index_select index_add index_copy index_reduce take "
    "masked_select nonzero tril triu complex polar amax amin aminmax max.dim_max min.dim_min argmax argmin abs ceil "
    "floor frac round trunc neg sign sgn signbit conj_physical nan_to_num isposinf isneginf heaviside frexp "
    "hash_tensor histogram mm bmm mv dot vdot addmm addmv addbmm baddbmm matmul linear triangular_solve ormqr "
    "lu_unpack svd cummax cummin logcumsumexp kthvalue mode topk sort msort histc bucketize searchsorted isin "
    "multinomial softmax log_softmax _softmax _log_softmax gelu softplus softshrink hardshrink log_sigmoid "
    "log_sigmoid_forward avg_pool2d avg_pool3d renorm norm linalg_vector_norm linalg_cross linalg_lu_solve where "
    "diagonal_copy diag_embed slice_scatter narrow_copy".split()
)


def store_out(op: str, out: torch.Tensor, result: torch.Tensor) -> None:
    """Puts ``result`` into ``out``, resized when its shape differs, with torch's warning unless it was empty."""
    if any(n > 1 and step == 0 for n, step in zip(out.shape, out.stride(), strict=True)):
        raise RuntimeError(
            f"{op}: unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation."
        )
    # `abs` of complex numbers may go into a complex tensor.
    exact = (op in _EXACT or op.partition(".")[0] in _EXACT) and not (op == "abs.out" and out.is_complex())
    if out.dtype != result.dtype and exact:
        raise RuntimeError(
            f"{op}: Expected out tensor to have dtype {scalar_name(result.dtype).lower()}, but got "
            f"{scalar_name(out.dtype).lower()} instead"
        )
    if not torch.can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"{op}: result type {scalar_name(result.dtype)} can't be cast to the desired output type "
            f"{scalar_name(out.dtype)}"
        )
    if out.shape != result.shape:
        if out.numel() != 0:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                f"match the required output shape {list(result.shape)}. This behavior is deprecated, and in a future "
                "PyTorch release outputs will not be resized unless they have zero elements.",
                UserWarning,
                stacklevel=3,
            )
        out.resize_(result.shape)
    copy_(out, result)


def into(op: str, function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """The ``out=`` form ``op`` of ``function``, whose results go into the keyword arguments ``names``."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outs = tuple(kwargs.pop(name) for name in names)
        made = function(*args, **kwargs)
        for out, value in zip(outs, made if len(outs) > 1 else (made,), strict=True):
            store_out(op, out, value)
        return outs if len(outs) > 1 else outs[0]

    return kernel


def scalar_name(dtype: torch.dtype) -> str:
    """What torch's C++ code calls a dtype."""
    names = {
        torch.bool: "Bool", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int",
        torch.int64: "Long", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float",
        torch.float64: "Double", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
    }  # fmt: skip
    return names.get(dtype, str(dtype))


KERNELS = {
    "copy_": copy_,
    "_copy_from": _copy_from,
    "_copy_from_and_resize": _copy_from_and_resize,
    "_to_copy": _to_copy,
}
