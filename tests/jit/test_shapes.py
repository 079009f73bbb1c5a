"""Depth and length: programs that do not multiply."""

import copy

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close
from tests.support import python


def _stack(depth):
    torch.manual_seed(0)
    return nn.ModuleList(nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.Tanh()) for _ in range(depth)).to("pjrt")


def test_scan_layers_equals_the_loop_with_gradients():
    layers = _stack(5)
    x = torch.randn(3, 4).to("pjrt").requires_grad_()
    leaves = (x, *layers.parameters())

    def f(x):
        return tp.scan_layers(layers, x).pow(2).sum()

    got = torch.autograd.grad(tp.jit(f)(x), leaves)
    for a, b in zip(got, torch.autograd.grad(f(x), leaves), strict=True):
        close(a, b)


class Across(nn.Module):
    """Reads what each layer is given, as cross-attention does."""

    def __init__(self, seen=None):
        super().__init__()
        self.q, self.seen = nn.Linear(4, 4), [seen]

    def forward(self, x, memory, *, scale):
        if self.seen[0] is not None:
            x = x * self.seen[0]
        return x + torch.softmax(self.q(x) @ memory.t(), -1) @ memory * scale


def test_scan_layers_gives_gradients_to_what_all_layers_get():
    torch.manual_seed(0)
    layers = nn.ModuleList(Across() for _ in range(3)).double()
    x, memory, scale = (torch.randn(*s, dtype=torch.float64) for s in ((2, 4), (5, 4), (4,)))
    twin = copy.deepcopy(layers).to("pjrt")

    def gradients(run, layers, *given):
        given = [t.detach().requires_grad_() for t in given]
        return torch.autograd.grad(run(layers, *given).sin().sum(), [*given, *layers.parameters()])

    def plain(layers, x, memory, scale):
        for layer in layers:
            x = layer(x, memory, scale=scale)
        return x

    looped = lambda layers, x, memory, scale: tp.scan_layers(layers, x, memory, scale=scale)
    got = tp.jit(lambda *given: gradients(looped, twin, *given))(*(t.to("pjrt") for t in (x, memory, scale)))
    for a, b in zip(got, gradients(plain, layers, x, memory, scale), strict=True):
        close(a, b)


def test_scan_layers_loses_no_gradient():
    seen = torch.ones(4, device="pjrt", requires_grad=True)
    layers = nn.ModuleList(Across(seen) for _ in range(2)).to("pjrt")

    def loss(x):
        tp.scan_layers(layers, x, x, scale=1.0).sum().backward()

    with pytest.raises(tp.JitError, match="layer of scan_layers uses a tensor that wants a gradient"):
        tp.jit(loss)(torch.ones(2, 4, device="pjrt"))
    assert seen.grad is None


def test_scan_layers_is_flat_in_depth():
    x = torch.randn(3, 4).to("pjrt")
    dots = []
    for depth in (4, 12):
        layers = _stack(depth)
        text = tp.jit(lambda x, layers=layers: tp.scan_layers(layers, x)).lower(x).as_text(locations=False)
        assert "stablehlo.while" in text
        dots.append(text.count("dot_general"))
    assert dots[0] == dots[1]


DEPTHS = """
import torch, torch_pjrt as tp
from torch import nn
for depth in (2, 4, 32):
    layers = nn.ModuleList(
        nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)) for _ in range(depth)
    ).to("pjrt")
    def step(x):
        loss = tp.scan_layers(layers, x).pow(2).sum()
        return torch.autograd.grad(loss, list(layers.parameters()))
    lowered = tp.jit(step).lower(torch.randn(8, 16).to("pjrt"))
    before = tp.cache_info()["compile_seconds"]
    lowered.compile()
    took = tp.cache_info()["compile_seconds"] - before
    text = lowered.as_text(locations=False)
    print(took, *(text.count("stablehlo." + op) for op in ("dot_general", "while", "reduce", "dynamic_slice")))
"""


def test_scan_layers_compiles_in_the_same_time_at_any_depth():
    """Of a training step; eight times the layers would take eight times as long if they were unrolled."""
    done = python(DEPTHS, TORCH_PJRT_CACHE="0")
    _, (short, *few), (long, *many) = [list(map(float, line.split())) for line in done.stdout.splitlines()]
    assert few == many, "operations of the program"
    assert min(few) > 0
    assert long < 2 * short + 0.2, (short, long)


def test_scan_layers_names_the_layer_that_differs():
    layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4, bias=False)]).to("pjrt")
    with pytest.raises(ValueError, match="layer 1 differs from layer 0"):
        tp.jit(lambda x: tp.scan_layers(layers, x))(torch.randn(3, 4).to("pjrt"))


def test_a_ragged_last_batch_compiles_once_more_and_says_so():
    f = tp.jit(lambda x: x.sum(0))
    for n in (4, 4, 4, 3, 4, 3):
        x = torch.randn(n, 2)
        close(f(x), x.sum(0))
    info = f.cache_info()
    assert info.misses == 2
    assert "x: shape (3, 2), was (4, 2)" in info.reasons[1]


def test_buckets_compile_eight_times_for_128_lengths_and_are_exact():
    torch.manual_seed(0)
    w = torch.randn(3).to("pjrt")

    @tp.jit(pad_batch={"x": 0, "y": 0})
    def loss(x, y, valid=None):
        e = (x @ w - y).pow(2)
        return (e * valid).sum() / valid.sum()

    for n in range(1, 129):
        x, y = torch.randn(n, 3), torch.randn(n)
        close(loss(x, y), (x @ w.cpu() - y).pow(2).mean())
    assert loss.cache_info().misses == 8


def test_results_are_cut_back():
    f = tp.jit(lambda x: x * 2, pad_batch=0)
    x = torch.randn(5, 3)
    assert f(x).shape == (5, 3)
    close(f(x), x * 2)
