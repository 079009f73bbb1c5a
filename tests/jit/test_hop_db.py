"""torch's own samples of its higher-order operators, under jit."""

import pytest
import torch
import torch_pjrt as tp
from torch.testing._internal.hop_db import hop_db
from torch.utils._pytree import tree_map_only

from tests.support import to_device

# Entries that do not pass, each with its reason.
UNCLAIMED = {
    "auto_functionalize": "calls a custom op of torch's test library, which has a CPU kernel alone",
    "flex_attention": "needs Triton",
    "flex_attention_backward": "needs Triton",
    "inline_asm_elementwise": "takes CUDA tensors alone",
    "while_loop_stack_output": "the shape of its result depends on values",
}


@pytest.mark.parametrize("op", hop_db, ids=lambda op: f"{op.name}-{op.variant_test_name}")
def test_samples(op):
    if op.name in UNCLAIMED:
        pytest.skip(UNCLAIMED[op.name])
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
        call = lambda i, a, k: op.op(i, *a, **k)
        expected = call(sample.input, sample.args, sample.kwargs)
        got = tp.jit(call)(*to_device((sample.input, sample.args, sample.kwargs), "pjrt"))
        got = tree_map_only(torch.Tensor, lambda t: t.cpu(), got)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
