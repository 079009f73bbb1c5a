"""Steps compiled for this process's device and for TPUs that are not here; their flops against the count by hand."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_pjrt as tp
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

TARGETS = (None, "tpu:v5e:2x2", "tpu:v6e:2x2")


def _step(model, loss_of):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(*batch):
        opt.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        opt.step()
        return loss

    return tp.jit(step)


def _flops(step, batch, target: str | None):
    compiled = step.lower(*batch).compile(target)
    assert compiled.memory_analysis()["arguments"] > 0
    assert len(compiled.serialize()) > 1000
    if target is not None:
        with pytest.raises(RuntimeError, match="devices that are not here"):
            compiled(*batch)
    return compiled.cost_analysis()["flops"]


@pytest.mark.parametrize("target", TARGETS)
def test_mlp_step(target):
    n, d, h = 256, 512, 1024
    model = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, d)).to("pjrt")
    step = _step(model, lambda m, x: m(x).pow(2).mean())
    # Two products of n*d*h forward; backward two for each weight and one more for the hidden layer.
    expected = 2 * n * d * h * (2 + 2 + 1)
    assert _flops(step, [torch.randn(n, d).to("pjrt")], target) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("target", TARGETS)
def test_gpt_step(target):
    from models import GPT

    n, length, width, layers, vocabulary = 8, 64, 128, 4, 256
    model = GPT(vocabulary).to("pjrt")
    step = _step(model, lambda m, i, t: F.cross_entropy(m(i).flatten(0, 1), t.flatten()))
    ids = torch.zeros(n, length, dtype=torch.long).to("pjrt")
    tokens = n * length
    weights = layers * 12 * width * width + width * vocabulary
    attention = layers * 2 * 2 * n * length * length * width
    expected = 3 * (2 * tokens * weights + attention)
    assert _flops(step, [ids, ids], target) == pytest.approx(expected, rel=0.2)


@pytest.mark.parametrize("target", TARGETS)
def test_resnet18_step(target):
    from torchvision import models

    model = models.resnet18(num_classes=10).to("pjrt")
    step = _step(model, lambda m, x, y: F.cross_entropy(m(x), y))
    batch = [torch.randn(2, 3, 64, 64).to("pjrt"), torch.zeros(2, dtype=torch.long).to("pjrt")]
    forward = 0

    def count(module, inputs, output):
        nonlocal forward
        if isinstance(module, nn.Conv2d):
            forward += 2 * output.numel() * module.in_channels * module.kernel_size[0] * module.kernel_size[1]
        elif isinstance(module, nn.Linear):
            forward += 2 * output.numel() * module.in_features

    meta = models.resnet18(num_classes=10).to("meta")
    for m in meta.modules():
        m.register_forward_hook(count)
    meta(torch.empty(2, 3, 64, 64, device="meta"))
    assert _flops(step, batch, target) == pytest.approx(3 * forward, rel=0.25)


def test_work_by_kind():
    x = torch.randn(8, 16).to("pjrt")
    cost = tp.jit(lambda x: x.exp() * 3).lower(x).compile().cost_analysis()
    assert (cost["flops"], cost["transcendentals"]) == (8 * 16, 8 * 16)
    assert cost["bytes accessed"] >= 2 * 4 * 8 * 16
    deep = tp.jit(lambda x: torch.while_loop(lambda i, x: i < 9, lambda i, x: (i + 1, x.tanh()), (torch.zeros(()), x)))
    assert deep.lower(x).compile().cost_analysis()["transcendentals"] == 8 * 16, "a loop counts one turn"
