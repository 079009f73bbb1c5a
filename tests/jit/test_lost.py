"""What would get lost at the border of a trace is refused."""

import pytest
import torch
import torch_pjrt as tp

from tests.support import DEVICE


def squares(y):
    (y * 2).sum().backward()


@pytest.mark.parametrize("where", ["in the middle of a graph", "on the CPU"])
def test_backward_into_an_argument(where):
    p = torch.ones(3, device=DEVICE if where.startswith("in") else "cpu", requires_grad=True)
    f = tp.jit(squares)
    for _ in range(2):
        with pytest.raises(tp.JitError, match=r"backward\(\) went into an argument.*: y"):
            f(p * 3 if where.startswith("in") else p)
        assert p.grad is None
    leaf = torch.ones(3, device=DEVICE, requires_grad=True)
    f(leaf)
    assert torch.equal(leaf.grad.cpu(), torch.full((3,), 2.0))
    inside = tp.jit(lambda y: torch.autograd.grad((y * 2).sum(), y)[0])
    assert torch.equal(inside(p * 3).cpu(), torch.full((3,), 2.0))


@pytest.mark.parametrize("n", [3, 4])
def test_writes_and_gradients_of_padded_arguments(n):
    def f(x, total):
        total.add_(x.sum(0))
        return x * 2

    def g(x, total):
        x.mul_(2)
        return x

    x, total = torch.ones(n, 2, device=DEVICE), torch.zeros(2, device=DEVICE)
    tp.jit(f, pad_batch={"x": 0})(x, total)
    assert torch.equal(total.cpu(), torch.full((2,), float(n)))
    with pytest.raises(tp.JitError, match=r"that pad_batch pads, was written to.*: x"):
        tp.jit(g, pad_batch={"x": 0})(x, total)
    assert torch.equal(x.cpu(), torch.ones(n, 2))
    with pytest.raises(ValueError, match="pad_batch: argument `x` requires a gradient"):
        tp.jit(f, pad_batch={"x": 0})(x.clone().requires_grad_(), total)


def _through_data(c):
    c.data.add_(1)
    return c * 2


def _new_data(c):
    c.data = c.data + 1
    return c * 2


@pytest.mark.parametrize("write", [_through_data, _new_data])
def test_writes_to_the_data_of_a_copy(write):
    """Autograd does not count them."""
    there, here = torch.ones(3, device=DEVICE), torch.ones(3)
    f = tp.jit(write)
    for n in range(2):  # on the device they are no loss; the program made for that must not serve the copy
        assert torch.equal(f(there).cpu(), torch.full((3,), 2.0 * n + 4))
        assert torch.equal(there.cpu(), torch.full((3,), n + 2.0))
        for g in (f, tp.jit(write)):
            with pytest.raises(tp.JitError, match=r"a CPU tensor.*was written to.*: c"):
                g(here)
        assert torch.equal(here, torch.ones(3))
