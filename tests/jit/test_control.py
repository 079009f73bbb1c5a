"""torch's higher-order operators become branches and loops of the program."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch._higher_order_ops import map as hop_map
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan

from tests.jit.support import close


def test_cond():
    f = tp.jit(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,)))
    x = torch.rand(2, 3).to("pjrt")
    close(f(x), x.sin())
    close(f(-x), (-x).cos() * 2)
    assert f.cache_info().misses == 1
    assert "stablehlo.if" in f.lower(x).as_text()


def test_cond_has_gradients_for_what_its_branches_close_over():
    lin = nn.Linear(3, 3).to("pjrt")
    f = tp.jit(lambda x: torch.cond(x.sum() > 0, lambda x: lin(x), lambda x: x.cos() * 2, (x,)).sum())
    x = torch.rand(2, 3).to("pjrt").requires_grad_()
    got = torch.autograd.grad(f(x), (x, lin.weight))
    for a, b in zip(got, torch.autograd.grad(lin(x).sum(), (x, lin.weight)), strict=True):
        close(a, b)


def test_while_loop():
    f = tp.jit(
        lambda x: torch.while_loop(
            lambda i, x: x.sum() < 100, lambda i, x: (i + 1, x * 2), (torch.zeros((), device="pjrt"), x)
        )
    )
    x = torch.rand(2, 3) + 0.1
    count, out = f(x.to("pjrt"))
    n = 0
    while x.sum() < 100:
        x, n = x * 2, n + 1
    close(out, x)
    assert count.item() == n


def rounds(x, w):
    start = (torch.zeros((), dtype=torch.int64, device=x.device), x)
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.tanh(x @ w)), start)[1]


def test_gradients_of_a_while_loop():
    def gradients(x, w):
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        return torch.autograd.grad(rounds(*leaves).sum(), leaves)

    given = torch.randn(2, 2), torch.randn(2, 2)
    there = [t.to("pjrt") for t in given]
    for got, expected in zip(gradients(*there), gradients(*given), strict=True):
        close(got, expected)
    with pytest.raises(tp.JitError, match=r"test_control.*gradient of a while_loop.*no_grad.*scan"):
        tp.jit(gradients)(*there)
    with torch.no_grad():
        close(tp.jit(rounds)(*(t.requires_grad_() for t in there)), rounds(*given))


def test_scan_with_gradients():
    w = torch.randn(3, 3).to("pjrt").requires_grad_()
    xs = torch.randn(10, 3).to("pjrt").requires_grad_()

    def step(c, x):
        c = torch.tanh(c @ w + x)
        return c, c.sin()

    f = tp.jit(lambda xs: scan(step, torch.zeros(3, device="pjrt"), xs)[1].sum())
    got = torch.autograd.grad(f(xs), (xs, w))
    c, total = torch.zeros(3, device="pjrt"), 0
    for i in range(10):
        c = torch.tanh(c @ w + xs[i])
        total = total + c.sin().sum()
    for a, b in zip(got, torch.autograd.grad(total, (xs, w)), strict=True):
        close(a, b)
    assert "stablehlo.while" in f.lower(xs).as_text()


def test_associative_scan():
    xs = torch.randn(9, 3)
    close(tp.jit(lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"))(xs.to("pjrt")), xs.cumsum(0))


def test_map_with_gradients():
    x = torch.randn(4, 3).to("pjrt").requires_grad_()
    f = tp.jit(lambda x: hop_map(lambda r: r.sin() * r.sum(), x).sum())
    (got,) = torch.autograd.grad(f(x), x)
    (expected,) = torch.autograd.grad((x.sin() * x.sum(1, keepdim=True)).sum(), x)
    close(got, expected)
