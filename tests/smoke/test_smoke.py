"""A short run through everything, for the oldest supported torch or a fresh install; needs torch and pytest only."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F

from tests.support import assert_same

pytestmark = pytest.mark.usefixtures("no_fallback")
DEVICE = "pjrt"


def both(function):
    """``function(device)`` gives the same numbers on both devices."""
    actual, expected = function(DEVICE), function("cpu")
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert_same(a, e)


def test_the_device_exists():
    assert torch.device("pjrt").type == "pjrt"
    assert torch.pjrt.is_available()
    assert torch.accelerator.current_accelerator().type == "pjrt"


def test_arithmetic_views_and_writes():
    def work(device):
        x = torch.arange(24.0, device=device).reshape(4, 6)
        v = x.t()[1:5:2]
        v.add_(3)
        x.select(0, 3)[2:4] = 7
        picked = x[x > 5]
        return x, v, picked, x[[1, -1], ::2], x.softmax(-1), x.cumsum(0), x.sort(1, descending=True).values, x.argmax(1)

    both(work)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_training(optimizer):
    def work(device):
        torch.manual_seed(0)
        # Adam divides by the size of a gradient; before a BatchNorm some gradients are nothing but rounding.
        norm = torch.nn.BatchNorm2d(4) if optimizer is torch.optim.SGD else torch.nn.GroupNorm(2, 4)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            norm,
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(64, 3),
        ).to(device)
        opt = optimizer(net.parameters(), lr=0.05)
        x = torch.linspace(-1, 1, 4 * 36).reshape(4, 1, 6, 6).to(device)
        for _ in range(3):
            opt.zero_grad()
            F.cross_entropy(net(x), torch.tensor([0, 1, 2, 0], device=device)).backward()
            opt.step()
        return list(net.state_dict().values())

    both(work)


def test_attention():
    def work(device):
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 2, 5, 4).to(device).requires_grad_() for _ in range(3))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        return out, q.grad, k.grad, v.grad

    both(work)


def test_transforms():
    from torch.func import grad, vmap

    def work(device):
        m = torch.arange(6.0, device=device).reshape(2, 3)
        return vmap(grad(lambda t: (t.sin() * t).sum()))(m), torch.func.jacrev(torch.tanh)(m[0])

    both(work)


def test_copies_and_files():
    x = torch.arange(3.0, device=DEVICE)
    buffer = io.BytesIO()
    torch.save({"x": x}, buffer)
    buffer.seek(0)
    assert torch.load(buffer)["x"].device.type == DEVICE
    buffer.seek(0)
    assert torch.load(buffer, map_location="cpu")["x"].tolist() == [0, 1, 2]
    twin = copy.deepcopy(x)
    twin.add_(1)
    assert x.tolist() == [0, 1, 2]
    assert "pjrt" in repr(x)


def test_random_numbers_follow_the_seed():
    torch.manual_seed(1)
    first = torch.randn(4, device=DEVICE).tolist()
    torch.manual_seed(1)
    assert torch.randn(4, device=DEVICE).tolist() == first


def test_autocast():
    x = torch.ones(2, 2, device=DEVICE)
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16


def test_errors_are_torchs():
    with pytest.raises(RuntimeError):
        torch.ones(2, 3, device=DEVICE) + torch.ones(4, device=DEVICE)
    with pytest.raises(IndexError):
        torch.ones(2, device=DEVICE)[5]
