"""Which overloads run on the device: every row of the native table, and the in-place, ``out=`` and foreach forms of it.

Names are matched here; schemas are compared by the native side on an overload's first call, so that importing stays
cheap.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from . import _native

# In-place ops whose functional form goes by another name.
_FUNCTIONAL = {
    "normal_": "normal_functional",
    "bernoulli_.float": "bernoulli.p",
    "pow_.Scalar": "pow.Tensor_Scalar",
    "pow_.Tensor": "pow.Tensor_Tensor",
    "floor_divide_.Tensor": "floor_divide",
    "conj_physical_": "_conj_physical",
}

# out= overloads whose functional form has another name or other arguments.
_OUT = {
    "conj_physical.out": "_conj_physical",
    "div.out_mode": "div.Tensor_mode",
    "xlogy.OutTensor": "xlogy.Tensor",
    "xlogy.OutScalar_Self": "xlogy.Scalar_Self",
    "xlogy.OutScalar_Other": "xlogy.Scalar_Other",
}
# Ops of our own, which torch has no schema for.
_OWN = {
    "_arange": "_arange(int n, Scalar start, Scalar step, *, ScalarType? dtype=None) -> Tensor",
    "_masked_select": "_masked_select(Tensor self, Tensor mask, int size) -> Tensor",
    "_index_mask": "_index_mask(Tensor self, Tensor mask, int dim, int size) -> Tensor",
    "_masked_put": "_masked_put(Tensor self, Tensor mask, Tensor values, bool accumulate) -> Tensor",
    "_masked_put_": "_masked_put_(Tensor(a!) self, Tensor mask, Tensor values, bool accumulate) -> Tensor(a!)",
    "_repeat_index": "_repeat_index(Tensor repeats, int size) -> Tensor",
    "_bin_edges": "_bin_edges(Tensor self, int bins, float[]? range) -> Tensor",
    "_bin_sums": "_bin_sums(Tensor self, Tensor[] edges, Tensor? weight, bool density) -> Tensor",
    "_lstsq": "_lstsq(Tensor self, Tensor b, float rcond, str driver) -> (Tensor, Tensor, Tensor, Tensor)",
    "_equal": "_equal(Tensor self, Tensor other) -> Tensor",
    "_unique_sort": "_unique_sort(Tensor self) -> (Tensor, Tensor, Tensor, Tensor)",
    "_unique_slices": "_unique_slices(Tensor self, int dim) -> (Tensor, Tensor, Tensor, Tensor)",
    "_runs": "_runs(Tensor self, int? dim) -> (Tensor, Tensor, Tensor, Tensor)",
    "_sparse_add": "_sparse_add(Tensor self, Tensor indices, Tensor values, Scalar alpha, bool padded) -> Tensor",
    "_sparse_add_": "_sparse_add_(Tensor(a!) self, Tensor indices, Tensor values, Scalar alpha, bool padded)"
    " -> Tensor(a!)",
    "_sparse_take": "_sparse_take(Tensor self, Tensor indices, bool padded) -> Tensor",
    "_sparse_merge": "_sparse_merge(Tensor indices, Tensor values, int[] size) -> (Tensor, Tensor, Tensor)",
    "_check": "_check(Tensor bad, Tensor value, str kind, str message) -> Tensor",
    "_pick_runs": "_pick_runs(Tensor values, Tensor starts, int size) -> (Tensor, Tensor)",
}

_names: set[str] = set()
_library: Any = None


def registered() -> set[str]:
    """Overloads that have a kernel."""
    return _names


def schema(name: str) -> str:
    """Text of an overload's schema, as this torch has it. ``name`` has its overload after a dot, if it has one."""
    if name in _OWN:
        return _OWN[name]
    base, _, overload = name.partition(".")
    return str(torch._C._get_schema(f"aten::{base}", overload))


def overload(name: str) -> Any:
    """``torch.ops.aten``'s overload of this name."""
    base, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), which or "default")


def _derived(name: str, rows: set[str], bases: dict[str, list[str]]) -> tuple[str, str] | None:
    """The row and the form that the overload ``name`` follows from."""
    if name in rows:
        return name, "functional"
    base, _, which = name.partition(".")
    if base.startswith("_foreach_"):
        return _foreach(base, which, rows)
    if base.endswith("_") and not base.endswith("__"):
        row = _FUNCTIONAL.get(name) or (f"{base[:-1]}.{which}" if which else base[:-1])
        return (row, "inplace") if row in rows else None
    if name in _OUT:
        return (_OUT[name], "out") if _OUT[name] in rows else None
    if which in ("grad_input", "output") and base in rows:
        return base, "out"
    if which == "out" or which.endswith("_out"):
        stem = which[:-4].rstrip("_") if which != "out" else ""
        named = f"{base}.{stem}"
        candidates = [named] if stem and named in rows else [base, *bases.get(base, [])]
        for row in candidates:
            if row in rows and _same_arguments(name, row):
                return row, "out"
        return None
    if which and base in bases and _has_out(name):
        # Results with names of their own: `topk.values`, `max.dim_max`.
        for row in bases[base]:
            if _same_arguments(name, row):
                return row, "out"
    return None


def _has_out(name: str) -> bool:
    try:
        return any(a.is_out for a in torch._C._get_schema(*_split(name)).arguments)
    except RuntimeError:
        return False


# The overload of a functional row that takes what a foreach overload takes an item of.
_ITEM = {
    "Scalar": ("Scalar", ""),
    "ScalarList": ("Scalar", ""),
    "List": ("Tensor", ""),
    "Tensor": ("Tensor", ""),
    "": ("",),
}


def _foreach(base: str, which: str, rows: set[str]) -> tuple[str, str] | None:
    name = base.removeprefix("_foreach_")
    form = "foreach"
    if name.endswith("_"):
        name, form = name[:-1], "foreach_inplace"
    special = _FOREACH_ROWS.get((name, which))
    if special is not None:
        return (special, form) if special in rows else None
    for item in _ITEM.get(which, ()):
        row = f"{name}.{item}" if item else name
        if row in rows:
            return row, form
    return None


_FOREACH_ROWS = {
    ("pow", "Scalar"): "pow.Tensor_Scalar",
    ("pow", "ScalarList"): "pow.Tensor_Scalar",
    ("pow", "List"): "pow.Tensor_Tensor",
    ("clamp_min", "List"): "clamp_min.Tensor",
    ("clamp_max", "List"): "clamp_max.Tensor",
    ("maximum", "List"): "maximum",
    ("minimum", "List"): "minimum",
    ("maximum", "Scalar"): "clamp_min",
    ("minimum", "Scalar"): "clamp_max",
    ("maximum", "ScalarList"): "clamp_min",
    ("minimum", "ScalarList"): "clamp_max",
    ("lerp", "List"): "lerp.Tensor",
    ("lerp", "Scalar"): "lerp.Scalar",
    ("lerp", "ScalarList"): "lerp.Scalar",
    ("addcmul", "Tensor"): "",
    ("addcdiv", "Tensor"): "",
    ("pow", "ScalarAndTensor"): "pow.Scalar",
    ("norm", "Scalar"): "linalg_vector_norm",
    ("copy", ""): "copy",
    ("max", ""): "max",
    ("zero", ""): "zero",
}


def _same_arguments(out_name: str, row: str) -> bool:
    """Whether the ``out=`` overload takes what the row takes, by name, before its results."""
    try:
        mine = [a.name for a in torch._C._get_schema(*_split(out_name)).arguments if not a.is_out]
        rows = list(torch._C._get_schema(*_split(row)).arguments)
    except RuntimeError:
        return False
    # An out= overload has no dtype, layout or device: its result has them.
    dropped = {"dtype", "layout", "device", "pin_memory", "memory_format"}
    theirs = [a.name for a in rows]
    return (
        mine == theirs
        or mine == [n for n in theirs if n not in dropped]
        or mine == [n for n in theirs if n not in dropped - {"memory_format"}]
    )


def _split(name: str) -> tuple[str, str]:
    base, _, which = name.partition(".")
    return f"aten::{base}", which


# Modules with kernels in Python, each with a table ``KERNELS``. Where two have the same name, the first one's stands.
_WRITTEN_IN_PYTHON = (
    "_attention",
    "_copy",
    "_counting",
    "_ctc",
    "_dynamic",
    "_factories",
    "_foreach",
    "_histogram",
    "_indexing",
    "_lstsq",
    "_sparse_entry",
    "_views",
)


def register_all(done: list[str]) -> None:
    """Registers every kernel with torch's dispatcher but those that are ``done``."""
    global _library
    _names.update(done)
    rows = set(_native.row_names())
    bases: dict[str, list[str]] = {}
    for row in rows:
        bases.setdefault(row.partition(".")[0], []).append(row)
    _library = torch._C._dispatch_library("IMPL", "aten", "")
    for name, function in _native.view_kernels():
        _impl(name, function)
    _impl("_local_scalar_dense", _native.item_kernel())
    from . import _attention, _fallback, _sparse_entry

    for module in _WRITTEN_IN_PYTHON:
        for name, function in importlib.import_module(f".{module}", __package__).KERNELS.items():
            _impl(name, function)
    for key, table in (
        ("SparsePrivateUse1", _sparse_entry.SPARSE_KERNELS),
        ("SparseCsrPrivateUse1", _sparse_entry.COMPRESSED_KERNELS),
    ):
        for name, function in table.items():
            _library.impl(name, key, function)
    for name, function in _attention.AUTOGRAD_KERNELS.items():
        _library.impl(name, "AutogradPrivateUse1", function)
    for full in torch._C._dispatch_get_all_op_names():
        if not full.startswith("aten::"):
            continue
        name = full[6:]
        found = _derived(name, rows, bases)
        if found is not None and name not in _names:
            _impl(name, _native.kernel(name, *found))
    _fallback.register()


def _impl(name: str, function: Callable[..., Any]) -> None:
    if name in _names:
        return
    _library.impl(name, "PrivateUse1", function)
    _names.add(name)
