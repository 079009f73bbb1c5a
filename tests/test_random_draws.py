"""Draws whose values nothing else compares: each against its distribution function, at many points."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE

pytestmark = pytest.mark.usefixtures("no_fallback")
MANY = 40_000


def far(x: torch.Tensor, distribution) -> float:
    """The largest distance of the draws' distribution from ``distribution`` (Kolmogorov's), in its usual unit."""
    x = x.flatten().cpu().double().sort().values
    n = x.numel()
    below, upto = torch.arange(n) / n, torch.arange(1, n + 1) / n
    expected = distribution(x)
    return max((upto - expected).max().item(), (expected - below).max().item()) * math.sqrt(n)


def normal(x, mean=0.0, deviation=1.0):
    return 0.5 * (1 + torch.erf((x - mean) / (deviation * math.sqrt(2))))


CONTINUOUS = {
    "exponential": (lambda x: x.exponential_(1.7), lambda x: 1 - torch.exp(-1.7 * x)),
    "log_normal": (lambda x: x.log_normal_(0.3, 0.6), lambda x: normal(x.log(), 0.3, 0.6)),
    "cauchy": (lambda x: x.cauchy_(-1.0, 2.0), lambda x: 0.5 + torch.atan((x + 1) / 2) / math.pi),
    "normal": (lambda x: x.normal_(2.0, 3.0), lambda x: normal(x, 2.0, 3.0)),
    "uniform": (lambda x: x.uniform_(-1.0, 3.0), lambda x: (x + 1) / 4),
    "rrelu": (lambda x: -F.rrelu(-torch.ones_like(x), 0.2, 0.6, training=True), lambda x: (x - 0.2) / 0.4),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name, dtype):
    draw, distribution = CONTINUOUS[name]
    x = draw(torch.empty(MANY, dtype=dtype, device=DEVICE).zero_())
    assert x.dtype == dtype
    assert far(x, distribution) < 1.95, "one in a thousand right generators is farther, and the seed is fixed"


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_geometric(p):
    x = torch.empty(MANY, device=DEVICE).geometric_(p).cpu()
    assert x.min() == 1 and torch.equal(x, x.round())
    for k in range(1, 6):
        expected = 1 - (1 - p) ** k
        spread = math.sqrt(max(expected * (1 - expected), 1e-9) / MANY)
        assert abs((x <= k).double().mean().item() - expected) < 4 * spread + 1e-4, k


@pytest.mark.parametrize("p", [0.0, 0.2, 0.7, 1.0])
def test_shares_of_bernoulli_and_of_every_dropout(p):
    def share(hits, units=MANY):
        assert abs(hits.double().mean().item() - p) <= 4 * math.sqrt(p * (1 - p) / units)

    ones = torch.ones(MANY, device=DEVICE)
    share(torch.empty_like(ones).bernoulli_(p).cpu())
    share(torch.bernoulli(ones * p).cpu())
    dropped = F.dropout(ones, p).cpu()
    share(dropped == 0)
    if p < 1:
        assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / (1 - p)))
    whole = F.dropout2d(ones.reshape(400, 100, 1, 1).expand(400, 100, 2, 2), p).cpu()
    share(whole == 0)
    assert ((whole == 0).all((2, 3)) == (whole == 0).any((2, 3))).all(), "a channel is dropped as a whole"


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_alpha_dropout_keeps_mean_and_variance(p):
    x = torch.randn(MANY * 4, device=DEVICE)
    y = F.alpha_dropout(x, p, training=True).cpu()
    assert abs(y.mean().item()) < 0.02
    assert abs(y.var().item() - 1) < 0.03
    least = y.mode().values
    assert abs((y == least).double().mean().item() - p) < 0.01


def test_dropout_of_attention():
    p, n = 0.3, 64
    q = torch.zeros(8, 8, n, n, device=DEVICE)
    values = torch.eye(n, device=DEVICE).expand(8, 8, n, n)
    weights = F.scaled_dot_product_attention(q, q, values, dropout_p=p).cpu()  # each is 1 / n, dropped or scaled
    units = weights.numel()
    assert abs((weights == 0).double().mean().item() - p) < 4 * math.sqrt(p * (1 - p) / units)
    kept = weights[weights != 0]
    assert torch.allclose(kept, torch.tensor(1 / n / (1 - p)))
