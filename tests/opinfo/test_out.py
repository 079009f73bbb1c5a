"""An ``out=`` tensor of another dtype: refused where torch CPU refuses it, and filled with its values where not."""

import warnings
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map

from tests.opinfo.harness import full_name, on, op_db
from tests.support import DEVICE, assert_same_outcome, in_share

WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128, torch.bool: torch.uint8}
SKIPPED = {
    "empty": "its values are whatever is there",
    "empty_like": "its values are whatever is there",
    "empty_strided": "its values are whatever is there",
    "empty_permuted": "its values are whatever is there",
    "new_empty": "its values are whatever is there",
    "new_empty_strided": "its values are whatever is there",
    "normal": "random",
    "bernoulli": "random",
    "multinomial": "random",
    "svd": "its vectors are right up to a sign",
    "native_batch_norm": "torch CPU finds another dtype only in its kernel, which depends on the saved statistics",
    "_native_batch_norm_legit": "torch CPU finds another dtype only in its kernel",
}


def _wide(result: Any) -> Any:
    def one(t: Any) -> Any:
        return torch.zeros(t.shape, dtype=WIDER.get(t.dtype, torch.float64)) if isinstance(t, torch.Tensor) else t

    wide = tree_map(one, result)
    return tuple(wide) if isinstance(wide, list) else wide


def _first(op: Any) -> Any:
    """The first float32 sample whose arguments all have memory, with its result."""
    if torch.float32 not in op.supported_dtypes("cpu"):
        return None
    sample = next(iter(op.sample_inputs("cpu", torch.float32)), None)
    if sample is None:
        return None
    leaves = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
    if any(isinstance(t, torch.Tensor) and t.layout != torch.strided for t in leaves):
        return None
    return sample, op(sample.input, *sample.args, **sample.kwargs)


ENTRIES = [op for op in op_db if op.supports_out and op.name not in SKIPPED and not op.name.startswith("linalg")]


@pytest.mark.parametrize("op", [op for i, op in enumerate(ENTRIES) if in_share(i)], ids=full_name)
def test_out_of_another_dtype(op):
    torch.manual_seed(1)
    found = _first(op)
    if found is None:
        pytest.skip("no float32 sample in memory")
    sample, result = found
    out = _wide(result)

    def run(device: str) -> Any:
        args, kwargs, goal = on(device, (sample.input, *sample.args)), on(device, sample.kwargs), on(device, out)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            op(*args, **kwargs, out=goal)
        # Computed in the narrow dtype, so equal in the narrow dtype.
        return [w.to(r.dtype) for w, r in zip(tree_flatten(goal)[0], tree_flatten(result)[0], strict=True)]

    try:
        assert_same_outcome(lambda: run(DEVICE), lambda: run("cpu"), full_name(op))
    except RuntimeError as error:
        if "doesn't have storage" not in str(error):
            raise
        pytest.skip("a sample without memory")
