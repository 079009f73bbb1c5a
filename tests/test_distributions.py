"""Draws of the distributions that torch.distributions is made of: moments, edges, reproducibility, gradients."""

import pytest
import torch

from tests.support import DEVICE, assert_same

MANY = 40_000


def moments(x: torch.Tensor) -> tuple[float, float]:
    x = x.cpu().double()
    return x.mean().item(), x.var().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [0.3, 1.0, 7.5, 300.0])
def test_gamma_has_its_mean_and_variance(shape, dtype, no_fallback):
    mean, variance = moments(torch._standard_gamma(torch.full((MANY,), shape, dtype=dtype, device=DEVICE)))
    assert mean == pytest.approx(shape, rel=0.05)
    assert variance == pytest.approx(shape, rel=0.1)


def test_gamma_of_no_shape_is_no_number():
    x = torch._standard_gamma(torch.tensor([torch.nan, -1.0, torch.inf], device=DEVICE)).cpu()
    assert x[:2].isnan().all()
    assert x[2] == torch.inf


def test_draws_after_gamma_do_not_depend_on_its_rounds():
    after = []
    for shape in (0.1, 50.0):
        torch.manual_seed(3)
        torch._standard_gamma(torch.full((100,), shape, device=DEVICE))
        after.append(torch.rand(4, device=DEVICE).cpu())
    if DEVICE != "cpu":
        assert torch.equal(*after)


def test_gradient_of_gamma(no_fallback):
    alpha = torch.tensor([0.05, 0.5, 1.0, 4.0, 9.5, 60.0, 700.0, 4000.0], dtype=torch.float64).repeat_interleave(3)
    x = alpha * torch.tensor([0.6, 1.0, 1.3], dtype=torch.float64).repeat(8)
    # dx/da from the distribution function, by central differences.
    h = alpha * 1e-4
    slope = (torch.special.gammainc(alpha + h, x) - torch.special.gammainc(alpha - h, x)) / (2 * h)
    density = torch.exp((alpha - 1) * x.log() - x - torch.lgamma(alpha))
    kept = density > 1e-8
    expected = (-slope / density)[kept]
    actual = torch._standard_gamma_grad(alpha.to(DEVICE), x.to(DEVICE)).cpu()[kept]
    torch.testing.assert_close(actual, expected, rtol=2e-3, atol=1e-6)


def test_dirichlet_sums_to_one_around_its_mean(no_fallback):
    alpha = torch.tensor([0.5, 1.0, 3.0])
    x = torch._sample_dirichlet(alpha.expand(MANY, 3).to(DEVICE)).cpu()
    assert_same(x.sum(-1), torch.ones(MANY))
    torch.testing.assert_close(x.mean(0), alpha / alpha.sum(), rtol=0.05, atol=0)
    assert (x > 0).all() and (x < 1).all()


@pytest.mark.parametrize(("count", "p"), [(1, 0.3), (10, 0.5), (40, 0.9), (1000, 0.01), (100_000, 0.7)])
def test_binomial_has_its_mean_and_variance(count, p, no_fallback):
    x = torch.binomial(torch.full((MANY,), float(count)).to(DEVICE), torch.full((MANY,), p).to(DEVICE))
    mean, variance = moments(x)
    assert mean == pytest.approx(count * p, rel=0.05)
    assert variance == pytest.approx(count * p * (1 - p), rel=0.1)
    assert x.min().item() >= 0 and x.max().item() <= count


def test_binomial_at_its_edges():
    count, p = torch.tensor([5.0, 5.0, 0.0]), torch.tensor([0.0, 1.0, 0.5])
    assert torch.binomial(count.to(DEVICE), p.to(DEVICE)).tolist() == [0.0, 5.0, 0.0]
    with pytest.raises(RuntimeError):
        torch.binomial(count.to(DEVICE), p.to(DEVICE) + 1).cpu()


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling_at_given_places(n, no_fallback):
    x = torch.randn(2, 3, *(9, 8, 7)[:n])
    samples = torch.rand(2, 3, n)
    pool = (torch.nn.functional.fractional_max_pool2d, torch.nn.functional.fractional_max_pool3d)[n - 2]

    def run(device):
        leaf = x.to(device, copy=True).requires_grad_()
        y, places = pool(leaf, 2, (4,) * n, return_indices=True, _random_samples=samples.to(device))
        y.square().sum().backward()
        return [y.detach(), places, leaf.grad]

    assert_same(run(DEVICE), run("cpu"))
