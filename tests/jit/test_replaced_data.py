"""``p.data = ...`` inside a jit function: the tensor has other data afterwards, at every call."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close, mlp, pair
from tests.support import DEVICE


def train(model, x, y):
    """Gradient descent as old tutorials write it."""
    loss = (model(x) - y).square().mean()
    loss.backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad = None
    return loss.detach()


def test_training_step():
    host, there = pair(mlp)
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    f = tp.jit(lambda x, y: train(there, x, y))
    for _ in range(5):
        close(f(x.to(DEVICE), y.to(DEVICE)), train(host, x, y))
    for a, b in zip(there.parameters(), host.parameters(), strict=True):
        close(a, b)
    assert f.cache_info().misses == 1


def test_who_shares_the_old_data_keeps_it():
    t = torch.ones(3, device=DEVICE)
    f = tp.jit(lambda: setattr(t, "data", t * 2))
    for n in range(3):
        alias = t.detach()
        f()
        assert t.tolist() == [2.0 ** (n + 1)] * 3
        assert alias.tolist() == [2.0**n] * 3


def test_data_of_an_argument_and_of_another_shape():
    t, x = torch.ones(3, device=DEVICE), torch.arange(4.0).to(DEVICE)

    @tp.jit
    def f(x):
        t.data = x[1:]
        return t + 1

    for n in range(3):
        assert f(x + n).tolist() == [n + 2.0, n + 3.0, n + 4.0]
        assert t.tolist() == [n + 1.0, n + 2.0, n + 3.0]

    @tp.jit
    def longer():
        t.data = torch.cat([t, t])
        return t.sum()

    for n in range(3):
        assert longer().item() == 2 ** (n + 1) * t[:3].sum().item()
        assert t.shape == (3 * 2 ** (n + 1),)


def test_an_error_leaves_the_old_data():
    t = torch.ones(3, device=DEVICE)

    def f():
        t.data = t * 2
        raise KeyError("mine")

    with pytest.raises(KeyError):
        tp.jit(f)()
    assert t.tolist() == [1.0] * 3
    tp.jit(lambda: setattr(t, "data", t * 2)).lower()
    assert t.tolist() == [1.0] * 3
