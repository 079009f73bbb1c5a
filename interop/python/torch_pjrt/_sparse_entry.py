"""What is registered for sparse tensors from the start: what makes one. The rest follows with the first.

So a process without sparse tensors does not pay for them at import.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

# Of dense tensors, and those that make a sparse one of nothing: where `_sparse.py` has them.
_OF_DENSE = ("_to_sparse", "_to_sparse.sparse_dim", "embedding_sparse_backward", "_embedding_bag_backward")
_MAKERS = ("_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "empty.memory_format")
_MODULES = ("_sparse", "_sparse_math")


@functools.cache
def _tables() -> tuple[dict[str, Any], dict[str, Any]]:
    """Kernels of dense tensors, and of sparse ones, which are registered now."""
    from . import _fallback, _registry

    modules = [importlib.import_module(f".{name}", __package__) for name in _MODULES]
    kernels = {name: function for m in modules for name, function in m.SPARSE_KERNELS.items()}
    for name, function in kernels.items():
        if name not in _MAKERS:
            _registry._library.impl(name, "SparsePrivateUse1", function)
    _fallback.register_sparse()
    return modules[0].KERNELS, kernels


def _later(name: str, table: int) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return _tables()[table][name](*args, **kwargs)

    return kernel


def no_layout(op: str, layout: Any) -> NotImplementedError:
    """The error for a layout that does not exist on the device."""
    name = str(layout).removeprefix("torch.")
    return NotImplementedError(
        f"{op}: got layout {name}, expected strided or sparse_coo: no other layout exists on the pjrt device. Way out: "
        ".to_sparse() for sparse_coo, or compute with that layout on the CPU (.cpu())"
    )


def _compressed(op: str, layout: str = "compressed") -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise no_layout(op, kwargs.get("layout") or layout)

    return kernel


_TO_COMPRESSED = {f"_to_sparse_{s}": _compressed(f"to_sparse_{s}", f"sparse_{s}") for s in ("csr", "csc", "bsr", "bsc")}

KERNELS = {**{name: _later(name, 0) for name in _OF_DENSE}, **_TO_COMPRESSED}
SPARSE_KERNELS = {**{name: _later(name, 1) for name in _MAKERS}, **_TO_COMPRESSED}
# Torch makes such a tensor without asking the device; whoever then uses it gets the error.
COMPRESSED_KERNELS = {
    name: _compressed(name.partition(".")[0].removeprefix("_"))
    for name in (
        *(
            "crow_indices",
            "col_indices",
            "ccol_indices",
            "row_indices",
            "values",
            "_nnz",
            "_to_dense",
            "clone",
            "copy_",
        ),
        *("mm", "addmm", "mul.Tensor", "mul.Scalar", "add.Tensor", "sum", "select.int", "empty.memory_format"),
        *("_to_sparse", "_to_sparse.sparse_dim", "empty_like", "resize_as_sparse_"),
    )
}
