"""What other threads do and see while a jit program runs."""

import io
import itertools
import os
import pathlib
import pickle
import random
import sys
import threading
import time

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch.utils import _device

from tests.jit.support import beside
from tests.support import assert_same, together


@tp.jit
def long_step(x, w):
    for _ in range(12):
        x.copy_((x @ w).tanh())


@tp.jit
def noisy(x):
    x.copy_(torch.rand_like(x))
    return torch.randint(1 << 62, (2,), device=x.device)


def test_python_goes_on_while_a_program_writes_state():
    x, w = torch.rand(1200, 1200, device="pjrt"), torch.rand(1200, 1200, device="pjrt") / 1200
    long_step(x, w)
    torch.pjrt.synchronize()
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    long_step(x, w)
    torch.pjrt.synchronize()
    end = time.perf_counter()
    done.set()
    thread.join()
    inside = [start, *(t for t in ticks if start < t < end), end]
    longest = max(b - a for a, b in itertools.pairwise(inside))
    assert longest < (end - start) / 2, f"nothing ran for {longest:.3f} of {end - start:.3f} s"


def test_another_thread_sees_the_state_before_or_after():
    x, w = torch.ones(600, 600, device="pjrt"), torch.eye(600, device="pjrt")
    states = [x.cpu()]
    for _ in range(7):
        states.append(states[-1])
        for _ in range(12):
            states[-1] = states[-1].tanh()
    known = {round(float(s[0, 0]), 5) for s in states}
    seen, done = [], threading.Event()

    def look():
        while not done.is_set():
            y = x + 0
            seen.append((y.min().item(), y.max().item()))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for t in threads:
        t.start()
    for _ in range(7):
        long_step(x, w)
    done.set()
    for t in threads:
        t.join()
    assert all(low == high and round(low, 5) in known for low, high in seen), seen
    assert_same(x, states[-1])


def test_threads_that_run_one_program_draw_different_numbers():
    x = torch.zeros(2048, device="pjrt")
    noisy(x)
    drawn = []

    def work():
        for _ in range(50):
            drawn.append(tuple(noisy(x).tolist()))
            drawn.append(tuple(torch.randint(1 << 62, (2,), device="pjrt").tolist()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(drawn) == len(set(drawn)) == 400


def test_a_launch_that_fails_changes_nothing():
    @tp.jit
    def huge(x):
        x.add_(1)
        y = torch.rand(1 << 40, device=x.device)
        return x.mul_(y[0])

    x = torch.ones(2048, device="pjrt")
    torch.manual_seed(0)
    first = torch.rand(2, device="pjrt")
    torch.manual_seed(0)
    with pytest.raises(RuntimeError):
        huge(x)
    assert torch.equal(torch.rand(2, device="pjrt").cpu(), first.cpu())
    assert torch.equal(x.cpu(), torch.ones(2048))


def _model(device):
    m = nn.Linear(3, 2)
    with torch.no_grad():
        for p in m.parameters():
            p.copy_(torch.arange(1.0, 1 + p.numel()).reshape(p.shape) / 7)
    return m.to(device)


def _step(m, o, closed=None):
    """A step of an optimizer, which calls ``closed`` while it goes on."""

    def closure():
        o.zero_grad()
        loss = m(torch.ones(2, 3, device=m.weight.device)).pow(2).mean()
        loss.backward()
        if closed is not None:
            closed()
        return loss

    return o.step(closure)


torch.optim.LBFGS(_model("cpu").parameters())  # the first has torch's hooks put around ``step``
LBFGS_STEP = torch.optim.LBFGS.step
OPTIMIZERS = [torch.optim.SGD, torch.optim.Adam, torch.optim.RAdam, torch.optim.LBFGS]


def _as_alone():
    """That what traces change is as it was."""
    assert "item" not in vars(torch.Tensor)
    assert torch.empty(1).device.type == "cpu"
    assert _device.CURRENT_DEVICE is None
    assert "min" not in vars(sys.modules["torch.optim.adam"])
    assert torch.optim.LBFGS.step is LBFGS_STEP


@pytest.mark.parametrize("traced", OPTIMIZERS[:2])
def test_threads_step_while_one_traces_a_step(traced):
    models = {(make, d): _model(d) for make in OPTIMIZERS[:3] for d in ("cpu", "pjrt")}

    def other():
        for (make, _), m in models.items():
            o = make(m.parameters(), lr=0.1)
            for _ in range(2):
                _step(m, o)
        assert torch.empty(1).device.type == "cpu"
        assert torch.ones(1, device="pjrt").sum().item() == 1.0

    m, alone = _model("pjrt"), _model("cpu")
    o = traced(m.parameters(), lr=0.1)
    with beside(other) as closed:
        step = tp.jit(lambda: _step(m, o, closed))
        step()
        step()
    _as_alone()
    for make in OPTIMIZERS[:3]:
        assert_same(models[make, "pjrt"].weight, models[make, "cpu"].weight)
    theirs = traced(alone.parameters(), lr=0.1)
    for _ in range(2):
        _step(alone, theirs)
    assert_same(m.weight, alone.weight)


def test_threads_trace_steps_of_their_own_at_once():
    models = [_model("pjrt") for _ in OPTIMIZERS]

    def work(i):
        m = models[i]
        o = OPTIMIZERS[i](m.parameters(), lr=0.1)

        def f():
            time.sleep(0.2)  # each traces while the others do
            return _step(m, o)

        step = tp.jit(f)
        for _ in range(3):
            step()

    together(work, len(OPTIMIZERS))
    _as_alone()
    for i, make in enumerate(OPTIMIZERS):
        m = _model("cpu")
        o = make(m.parameters(), lr=0.1)
        for _ in range(3):
            _step(m, o)
        assert_same(models[i].weight, m.weight)


NAMED = {
    "open": lambda: open,
    "io.open": lambda: io.open,
    "stat": lambda: os.stat,
    "scandir": lambda: os.scandir,
    "exists": lambda: pathlib.Path.exists,
    "isfile": lambda: os.path.isfile,
    "time": lambda: time.time,
    "random": lambda: random.choice,
    "urandom": lambda: os.urandom,
}


def test_functions_are_pickled_while_one_traces():
    seen = {}

    def look():
        for name, find in NAMED.items():
            found = find()
            seen[name] = found, pickle.loads(pickle.dumps(found)), (found.__name__, found.__doc__)

    with beside(look) as call:

        def f(x):
            call()
            return x * 2

        tp.jit(f)(torch.ones(2, device="pjrt"))
    traced = dict(seen)
    look()
    for name, (found, again, told) in traced.items():
        assert found is not seen[name][0]  # it is the one that stands there
        assert again is found
        assert told == seen[name][2]
