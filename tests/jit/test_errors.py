"""What cannot be traced is an error that names the line, the op and the way out."""

import copy
import random

import numpy as np
import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import refusal

CASES = {
    "item": (lambda x: x.sum().item(), "item", "static argument"),
    "float": (lambda x: float(x.sum()), "item", "static argument"),
    "if": (lambda x: x if x.sum() > 0 else -x, "item", "torch.cond"),
    "cpu": (lambda x: x.cpu(), "cpu", "copy it outside"),
    "tolist": (lambda x: x.tolist(), "cpu", "copy it outside"),
    "print": (lambda x: print(x), "", "Way out"),
    "nonzero": (lambda x: x.nonzero(), "nonzero", "Way out"),
    "lstsq": (lambda x: torch.linalg.lstsq(x.view(-1, 1), x.view(-1, 1), driver="gelsd"), "linalg.lstsq", "'gelsy'"),
    "mask": (lambda x: x[x > 0], "", "Way out"),
    "random": (lambda x: x * random.random(), "random", "draw them on the device"),
    "numpy.random": (lambda x: x * float(np.random.rand()), "numpy.random", "draw them on the device"),
    "torch.rand on the CPU": (lambda x: x + torch.rand(3).to("pjrt"), "torch on the CPU", "draw them on the device"),
    "seed": (lambda x: torch.manual_seed(0), "seed", "do it outside"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_message_names_place_op_and_way_out(name):
    fn, op, way = CASES[name]
    message = refusal(fn, torch.randn(2, 3).to("pjrt"))
    assert op in message
    assert way in message
    assert f"test_errors.py:{fn.__code__.co_firstlineno}: " in message


def test_a_cpu_tensor_that_is_written_to():
    c = torch.zeros(3)
    f = lambda x: c.add_(1)
    message = refusal(f, torch.ones(3).to("pjrt"))
    assert f"test_errors.py:{f.__code__.co_firstlineno}: " in message
    assert "CPU tensor" in message
    assert ": c" in message


def test_a_generator_inside():
    g = torch.Generator().manual_seed(0)
    with pytest.raises(tp.JitError, match=r"test_errors\.py:\d+: generator: numbers were drawn .*Way out"):
        tp.jit(lambda x: x + torch.rand(3, generator=g, device="pjrt"))(torch.ones(3).to("pjrt"))


@pytest.mark.parametrize("make", [torch.Generator, random.Random, np.random.default_rng])
def test_a_generator_of_the_host_that_a_module_keeps(make):
    class Noise(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.masks = make()

        def forward(self, x):
            g = self.masks
            return x * (float(torch.rand((), generator=g)) if make is torch.Generator else g.random())

    with pytest.raises(tp.JitError, match=r"test_errors\.py:\d+: Noise: .* drawn on the host from Noise\.masks"):
        tp.jit(Noise())(torch.ones(3).to("pjrt"))


def test_a_tensor_that_leaks_names_where_it_was_made():
    import queue

    q = queue.SimpleQueue()

    def f(x):
        q.put(x * 2)
        return x

    tp.jit(f)(torch.ones(3).to("pjrt"))
    with pytest.raises(RuntimeError, match=r"its value never existed.*made at .*test_errors\.py:\d+"):
        q.get().sum().item()


def test_a_text_that_changes_at_every_call():
    class Counter:
        n = ""

    c = Counter()
    c.n = ""

    def f(x):
        c.n += "a"
        return x * len(c.n)

    f = tp.jit(f)
    x = torch.ones(1).to("pjrt")
    assert [f(x).item() for _ in range(2)] == [1, 2]
    with pytest.raises(tp.JitError, match=r"test_errors\.py:\d+: f: c\.n is changed by the function at every call"):
        f(x)


def test_a_trace_that_failed_leaves_eager_working():
    x = torch.ones(3).to("pjrt")
    refusal(lambda x: x.sum().item(), x)
    assert (x + 1).sum().item() == 6


def test_a_refused_print_leaves_transforms_working():
    x = torch.ones(2, 3).to("pjrt")
    refusal(lambda: repr(x))
    assert torch.func.vmap(torch.func.grad(lambda t: (t * t).sum()))(x).sum().item() == 12


VIEWS = {
    "tensor": lambda x: x,
    "row": lambda x: x[1],
    "transposed": lambda x: x.t(),
    "every other": lambda x: x[:, ::2],
    "new": lambda x: x + 1,
    "row of a new one": lambda x: (x + 1)[1],
}
READS = {
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.cpu().numpy(),
    "to": lambda x: x.to("cpu", torch.float64),
    "copy_": lambda x: torch.empty(x.shape).copy_(x),
    "print": repr,
    "deepcopy": copy.deepcopy,
    "storage": lambda x: x.untyped_storage().clone(),
    "storage on the host": lambda x: x.untyped_storage().cpu(),
    "bytes": lambda x: x.untyped_storage().tolist(),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("view", VIEWS)
def test_no_way_to_read_a_value_is_baked_in(view, read):
    x = torch.arange(12.0).reshape(3, 4).to("pjrt")
    message = refusal(lambda: READS[read](VIEWS[view](x)))
    assert "Way out" in message
    assert "test_errors.py" in message
