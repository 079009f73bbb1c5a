"""Dtypes that torch CPU refuses: the device raises the same kind of exception, or has a kernel of its own for them
(docs/dtypes.md says which), and never goes to the CPU for it."""

import pytest
import torch
from torch.utils._pytree import tree_map

from tests.opinfo.harness import NO_SUCH_DTYPE, full_name, on, op_db
from tests.support import DEVICE, assert_no_fallback, fallbacks, in_share, outcome

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16),
    *(torch.float32, torch.float64, torch.complex64, torch.complex128, *UNSIGNED),
]
# Entries whose tensors are of layouts that the device does not have.
OTHER_LAYOUTS = {"sparse.sampled_addmm", "sparse.mm"}


def entries():
    has_samples = [op for op in op_db if op.supported_dtypes("cpu") - NO_SUCH_DTYPE and op.name not in OTHER_LAYOUTS]
    return [op for i, op in enumerate(has_samples) if in_share(i)]


def samples(op):
    """Two small samples of the entry, and their dtype."""
    dtypes = sorted(op.supported_dtypes("cpu") - NO_SUCH_DTYPE, key=lambda d: (d != torch.float32, str(d)))
    if not set(dtypes) & set(DTYPES):
        return [], dtypes[0]
    found = [s for s in op.sample_inputs("cpu", dtypes[0]) if isinstance(s.input, torch.Tensor)]
    return [s for s in found if 0 < s.input.numel() < 2000][:2], dtypes[0]


@pytest.mark.parametrize("op", entries(), ids=full_name)
def test_refused(op):
    taken, own = samples(op)
    for dtype in (d for d in DTYPES if d not in op.supported_dtypes("cpu")):
        for sample in taken:
            _compare(op, sample, own, dtype)


def _compare(op, sample, own, dtype):
    def one(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.to(dtype) if leaf.dtype == own else leaf
        return dtype if leaf is own else leaf

    given = tree_map(one, (sample.input, sample.args, sample.kwargs))

    def call(device):
        x, args, kwargs = on(device, given)
        return op(x, *args, **kwargs)

    expected = outcome(lambda: call("cpu"))
    if not isinstance(expected, Exception):
        return
    before = fallbacks()
    actual = outcome(lambda: call(DEVICE))
    assert_no_fallback(before)
    if not isinstance(actual, Exception):
        return
    # Where torch consists of several ops and the device has the first of them, it is a later one that refuses.
    kind = (type(expected), RuntimeError) if dtype in UNSIGNED else type(expected)
    what = f"{full_name(op)} of {dtype}"
    assert isinstance(actual, kind), f"{what}: raises {actual!r}; torch CPU raises {expected!r}"
