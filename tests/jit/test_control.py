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


def rounds(x, w, n):
    """A loop that ends by a count that is a tensor, or once its values have settled."""
    start = (torch.zeros((), dtype=torch.int64, device=x.device), x, torch.full_like(x, 9.0))
    going = lambda i, x, was: (i < n) & ((x - was).abs().max() > 1e-9)
    return torch.while_loop(going, lambda i, x, was: (i + 1, torch.tanh(x @ w + 0.1), x.clone()), start)[1]


@pytest.mark.parametrize("n", [0, 1, 3, 40, 2500], ids="{}-rounds".format)
def test_gradients_of_a_while_loop(n):
    """As by a loop of Python; with more rounds than are kept, and none (torch's own form takes none for one)."""

    def gradients(loop, x, w, n):
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        out = loop(*leaves, n)
        return out.detach(), *torch.autograd.grad((out * out.cos()).sum(), leaves, allow_unused=True)

    def plainly(x, w, n):
        was, i = torch.full_like(x, 9.0), 0
        while i < n and (x - was).abs().max() > 1e-9:
            was, x, i = x, torch.tanh(x @ w + 0.1), i + 1
        return x

    torch.manual_seed(n)
    x, w = torch.randn(2, 3, dtype=torch.float64), torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]
    count = torch.tensor(n)
    expected = gradients(plainly, x, w, n)
    f = tp.jit(lambda *args: gradients(rounds, *args))
    for got, right in zip(f(x.to("pjrt"), w.to("pjrt"), count.to("pjrt")), expected, strict=True):
        close(got, torch.zeros_like(w) if right is None else right)


def test_a_while_loop_in_a_training_step():
    def make(device):
        torch.manual_seed(1)
        cell = nn.GRUCell(4, 4).to(device)
        return cell, torch.optim.SGD(cell.parameters(), lr=0.1)

    def step(cell, opt, x, loop):
        opt.zero_grad()
        loss = loop(cell, x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def looped(cell, x):
        start = (torch.zeros((), dtype=torch.int64, device=x.device), torch.zeros_like(x))
        return torch.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, cell(x, h)), start)[1]

    def unrolled(cell, x):
        h = torch.zeros_like(x)
        for _ in range(5):
            h = cell(x, h)
        return h

    x = torch.randn(3, 4)
    (cell, opt), (twin, other) = make("cpu"), make("pjrt")
    f = tp.jit(lambda x: step(twin, other, x, looped))
    for _ in range(4):
        close(f(x.to("pjrt")), step(cell, opt, x, unrolled))
    assert f.cache_info().misses <= 2
    for a, b in zip(twin.parameters(), cell.parameters(), strict=True):
        close(a, b)


def powers(x, n):
    start = (torch.zeros((), dtype=torch.int64, device=x.device), x)
    return torch.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), start)[1]


def test_gradients_of_complex_numbers_in_a_while_loop():
    x, n = torch.randn(4, dtype=torch.complex128), torch.tensor(3)

    def gradient(f, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(f(x).abs().sum(), x)[0]

    got = tp.jit(lambda x, n: gradient(lambda x: powers(x, n), x))(x.to("pjrt"), n.to("pjrt"))
    close(got, gradient(lambda x: x**4, x))


def test_gradients_of_a_while_loop_that_carries_a_tensor_without_elements():
    def gradients(x, none, n):
        start = (torch.zeros_like(n), x, none)
        _, y, rest = torch.while_loop(lambda i, y, e: i < n, lambda i, y, e: (i + 1, y * x, e * 3), start)
        return torch.autograd.grad(y.sum() + rest.sum(), (x, none))

    x, none = (torch.randn(size, device="pjrt", requires_grad=True) for size in ((4,), (0, 2)))
    got, nothing = tp.jit(gradients)(x, none, torch.tensor(3, device="pjrt"))
    close(got, 4 * x**3)
    assert nothing.shape == (0, 2)


def test_the_second_derivative_of_a_while_loop_is_refused():
    def penalty(x, n):
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(powers(x, n).sum(), x, create_graph=True)
        return torch.autograd.grad((x * 2 + g).sum(), x)

    with pytest.raises(tp.JitError, match=r"test_control.*gradient of a while_loop .*create_graph.*scan"):
        tp.jit(penalty)(torch.randn(4).to("pjrt"), torch.tensor(3).to("pjrt"))


def test_gradients_from_outside_of_a_scan_that_takes_rows():
    """Its backward part has checks of its own, which depend on the gradients that are given."""
    table, at = torch.randn(5, 3, dtype=torch.float64), torch.tensor([4, 0, 4, 2])
    seed = torch.randn(3, dtype=torch.float64)

    def sums(table, at):
        step = lambda carry, i: ((carry * 0.5 + table[i.reshape(1)].squeeze(0)).tanh(), carry.clone())
        return scan(step, torch.zeros_like(table[0]), at)[0]

    given = table.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sums(given, at), given, seed)
    there = table.to("pjrt").requires_grad_()
    made = tp.jit(sums)(there, at.to("pjrt"))
    (got,) = torch.autograd.grad(made, there, seed.to("pjrt"))
    close(got, expected)


def test_a_while_loop_without_gradients():
    x, w, n = torch.randn(2, 2).to("pjrt").requires_grad_(), torch.eye(2).to("pjrt"), torch.tensor(3).to("pjrt")
    with torch.no_grad():
        assert not tp.jit(rounds)(x, w, n).requires_grad
    made = tp.jit(rounds)(x, w, n)
    (got,) = torch.autograd.grad(made.sum(), x)
    (expected,) = torch.autograd.grad(rounds(x, w, n).sum(), x)
    close(got, expected)


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


def test_the_gradient_of_associative_scan():
    x = torch.linspace(0.5, 1.5, 12).reshape(4, 3)

    def gradient(scan, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(scan(x).square().sum(), x)[0]

    expected = gradient(lambda x: x.cumprod(0), x)
    scan = lambda x: associative_scan(torch.mul, x, 0, combine_mode="generic")
    close(tp.jit(lambda x: gradient(scan, x))(x.to("pjrt")), expected)
    close(gradient(scan, x.to("pjrt")), expected)


def test_associative_scan():
    xs = torch.randn(9, 3)
    close(tp.jit(lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"))(xs.to("pjrt")), xs.cumsum(0))


def test_map_with_gradients():
    x = torch.randn(4, 3).to("pjrt").requires_grad_()
    f = tp.jit(lambda x: hop_map(lambda r: r.sin() * r.sum(), x).sum())
    (got,) = torch.autograd.grad(f(x), x)
    (expected,) = torch.autograd.grad((x.sin() * x.sum(1, keepdim=True)).sum(), x)
    close(got, expected)
