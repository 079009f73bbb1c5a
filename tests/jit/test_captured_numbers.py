"""Numbers that functions of torch's higher-order operators close over: a new value is never stale, nor an error."""

import functools

import pytest
import torch
import torch_pjrt as tp
from torch._higher_order_ops.map import map as hop_map
from torch._higher_order_ops.scan import scan

from tests.jit.support import close

VALUES = (0.5, 0.25, 0.125)


def sum_while(x, s):
    def body(i, x):
        return i + 1, x * 2 + s

    return torch.while_loop(lambda i, x: x.sum() < 100 * s, body, (torch.zeros((), device=x.device), x))[1]


def sum_while_expected(x, s):
    while x.sum() < 100 * s:
        x = x * 2 + s
    return x


def running(x, s):
    return scan(lambda c, r: (c * s + r, c * (s + 1)), torch.zeros_like(x[0]), x)[1]


def running_expected(x, s):
    c, out = torch.zeros_like(x[0]), []
    for r in x:
        out.append(c * (s + 1))
        c = c * s + r
    return torch.stack(out)


def several(x, s):
    for k in range(3):
        x = torch.cond(x.sum() > 0, lambda x: x * (s + k), lambda x: x - s, (x,))  # noqa: B023
    return x


def inner(x, s):
    def scaled(x):
        return x * s

    return torch.cond(x.sum() > 0, lambda x: scaled(x) + 1, functools.partial(torch.add, other=1.0), (x,))


CASES = {
    "cond": (
        lambda x, s: torch.cond(x.sum() > 0, lambda x: x * s, lambda x: x - s, (x,)),
        lambda x, s: x * s,
    ),
    "both branches": (
        lambda x, s: torch.cond(x.sum() < 0, lambda x: x * s, lambda x: x - 2 * s, (x,)),
        lambda x, s: x - 2 * s,
    ),
    "several": (several, lambda x, s: x * s * (s + 1) * (s + 2)),
    "a function of its own": (inner, lambda x, s: x * s + 1),
    "while_loop": (sum_while, sum_while_expected),
    "scan": (running, running_expected),
    "map": (lambda x, s: hop_map(lambda r: r * s + r.sum(), x), lambda x, s: x * s + x.sum(1, keepdim=True)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_float_binds_the_program(name):
    function, expected = CASES[name]
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    f = tp.jit(function)
    for _ in range(2):
        for s in VALUES:
            close(f(x.to("pjrt"), s), expected(x, s))
    info = f.cache_info()
    assert (info.misses, info.hits) == (3, 3)
    assert "s is 0.25, and the program holds where s is 0.5" in info.reasons[1]


def test_gradients():
    w = torch.ones(3).to("pjrt").requires_grad_()
    f = tp.jit(lambda x, s: torch.cond(x.sum() > 0, lambda x: (x @ w * s).sum(), lambda x: x.sum(), (x,)))
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    for s in VALUES:
        close(torch.autograd.grad(f(x.to("pjrt"), s), w)[0], x.sum(0) * s)


def test_an_int_and_a_size():
    f = tp.jit(lambda x, n: scan(lambda c, r: (c + r * n, r.sum() * n), torch.zeros_like(x[0]), x))
    for n in (2, 3, 5):
        x = torch.arange(3.0 * n).reshape(n, 3)
        carry, rows = f(x.to("pjrt"), n)
        close(carry, x.sum(0) * n)
        close(rows, x.sum(1) * n)
    assert f.cache_info().misses == 3


USES = {
    "times": lambda y, lr: y * lr,
    "arithmetic": lambda y, lr: y * (2 * lr + 1),
    "a branch": lambda y, lr: y * (3.0 if lr > 0.04 else 2.0),
    "int": lambda y, lr: y * int(lr * 100),
    "root": lambda y, lr: y * lr**0.5,
}


@pytest.mark.parametrize("name", USES)
def test_the_learning_rate(name):
    use = USES[name]
    w, host = torch.nn.Parameter(torch.ones(3).to("pjrt")), torch.nn.Parameter(torch.ones(3))
    opt, other = torch.optim.SGD([w]), torch.optim.SGD([host])

    @tp.jit
    def step(x):
        opt.zero_grad()
        lr = opt.param_groups[0]["lr"]
        loss = torch.cond(x.sum() > 0, lambda x: use((x @ w).sum(), lr), lambda x: (x @ w).sum(), (x,))
        loss.backward()
        opt.step()
        return loss

    x = torch.arange(1.0, 7.0).reshape(2, 3)
    for i in range(4):
        lr = opt.param_groups[0]["lr"] = other.param_groups[0]["lr"] = 0.1 / (i + 1)
        other.zero_grad()
        expected = use((x @ host).sum(), lr)
        expected.backward()
        other.step()
        close(step(x.to("pjrt")), expected.detach())
        close(w, host)
