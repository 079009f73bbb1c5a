"""Tracing needs no plugin: shapes and programs for tensors that are not on the device."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import refusal
from tests.support import python

PROGRAM = """
import torch, torch_pjrt as tp
tp._native.set_search_roots([{root!r}])
with torch.device("meta"):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
model = model.to_empty(device="pjrt")
optimizer = torch.optim.AdamW(model.parameters())
table = torch.ones(3)

def step(x, scale, n):
    optimizer.zero_grad()
    loss = (model(x * table.to("pjrt")) * scale + n).square().mean() + torch.rand((), device="pjrt")
    loss.backward()
    optimizer.step()
    return loss

x = torch.empty(4, 3)
for given in (x, x.to("meta"), x.t().contiguous().t(), torch.nn.Parameter(x)):
    out = tp.eval_shape(lambda x: (x @ x.t(), x.t()), given)
    print([(tuple(t.shape), t.stride(), t.dtype, t.device.type) for t in out])
    assert "stablehlo.dot_general" in tp.jit(step).lower(given.detach(), 2.5, 3).as_text()
    assert "stablehlo.dot_general" in tp.jit(model).lower(given).as_text()
print(torch.pjrt.is_initialized())
try:
    torch.ones(2, device="pjrt")
except RuntimeError as error:
    print(error)
"""


def test_shapes_and_programs_without_a_plugin(tmp_path):
    done = python(PROGRAM.format(root=str(tmp_path)), PJRT_DEVICE="", TORCH_PJRT_PLUGIN="")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rows, columns = [
        f"[((4, 4), (4, 1), torch.float32, 'meta'), ((3, 4), {strides}, torch.float32, 'meta')]"
        for strides in ((1, 3), (4, 1))
    ]
    assert lines[:5] == [rows, rows, columns, rows, "False"]
    assert "no PJRT plugin is installed" in lines[5]


def _backward(x):
    (x * 2).sum().backward()


@pytest.mark.parametrize("f", [lambda x: x.add_(1), _backward], ids=["write", "backward"])
def test_a_cpu_tensor_is_refused_as_in_a_call(f):
    x = torch.ones(4, 3, requires_grad=f is _backward)
    with pytest.raises(tp.JitError, match=f"test_without_a_plugin.py:{f.__code__.co_firstlineno}: ") as error:
        tp.jit(f).lower(x)
    assert str(error.value) == refusal(f, x)


def test_a_program_for_cpu_tensors_runs_on_them():
    x, f = torch.randn(4, 3).t(), lambda x: x * 2
    lowered = tp.jit(f).lower(x)
    torch.testing.assert_close(lowered.compile()(x).cpu(), x * 2)
    assert lowered.as_text() == tp.jit(f).lower(x.to("pjrt")).as_text()
