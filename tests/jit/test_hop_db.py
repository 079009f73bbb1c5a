"""torch's own samples of its higher-order operators."""

import pytest
import torch
import torch_pjrt as tp
from torch.nn.attention.flex_attention import BlockMask
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_leaves

from tests.opinfo.harness import gradients
from tests.support import assert_same, to_device

# Entries that do not pass, each with its reason.
UNCLAIMED = {
    "inline_asm_elementwise": "takes CUDA tensors alone",
    "while_loop_stack_output": "the shape of its result depends on values",
}


# Entries whose samples have no gradient on torch CPU.
NO_GRADIENT = {
    "auto_functionalize",
    "flex_attention",
    "flex_attention_backward",
    "flex_gemm",
    "local_map_hop",
    "while_loop",
}


@torch.library.impl("testlib::mutating_custom_op", "pjrt")
def mutating_custom_op(x, z):
    """The kernel of an op of torch's test library, which every device registers for itself."""
    x.add_(5)
    z.add_(5)
    return x.clone(), z.clone(), x + z


def _masks(args):
    return tuple(a.to("pjrt") if isinstance(a, BlockMask) else a for a in args)


@pytest.mark.parametrize("wrap", [lambda f: f, tp.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("op", hop_db, ids=lambda op: f"{op.name}-{op.variant_test_name}")
def test_samples(op, wrap):
    if op.name in UNCLAIMED and (wrap is tp.jit or op.name != "while_loop_stack_output"):
        pytest.skip(UNCLAIMED[op.name])
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
        call = lambda i, a, k: op.op(i, *a, **k)
        given = to_device((sample.input, _masks(sample.args), sample.kwargs), "pjrt")  # before the sample is written to
        expected = call(sample.input, sample.args, sample.kwargs)
        assert_same(wrap(call)(*given), expected, op.name)


@pytest.mark.parametrize("wrap", [lambda f: f, tp.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "op",
    [op for op in hop_db if op.name not in UNCLAIMED.keys() | NO_GRADIENT],
    ids=lambda op: f"{op.name}-{op.variant_test_name}",
)
def test_gradients(op, wrap):
    def call(i, a, k):
        leaves = [t for t in tree_leaves((i, a, k)) if isinstance(t, torch.Tensor) and t.requires_grad]
        return gradients(op.op(i, *a, **k), leaves)

    compared = 0
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=True):
        given = to_device((sample.input, _masks(sample.args), sample.kwargs), "pjrt")
        expected = call(sample.input, sample.args, sample.kwargs)
        assert_same(wrap(call)(*given), expected, op.name)
        compared += sum(g is not None for g in expected)
    assert compared, "no gradient was compared"
