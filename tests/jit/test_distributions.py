"""Distributions under jit check their arguments and values on the device."""

import pytest
import torch
import torch_pjrt as tp
from torch import distributions as D

from tests.support import assert_same, to_cpu

A = torch.tensor([0.4, 0.9, 1.2], dtype=torch.float64)
B = torch.tensor([1.1, 0.5, 0.7], dtype=torch.float64)
P = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
COVARIANCE = torch.eye(3, dtype=torch.float64) * 2 + 0.3

CASES = {
    "Normal": (D.Normal, (A, B)),
    "Bernoulli": (D.Bernoulli, (P,)),
    "Beta": (D.Beta, (A, B)),
    "Binomial": (lambda p: D.Binomial(5, p), (P,)),
    "Categorical": (D.Categorical, (P,)),
    "Cauchy": (D.Cauchy, (A, B)),
    "Dirichlet": (D.Dirichlet, (A,)),
    "Gamma": (D.Gamma, (A, B)),
    "Geometric": (D.Geometric, (P,)),
    "Gumbel": (D.Gumbel, (A, B)),
    "Kumaraswamy": (D.Kumaraswamy, (A, B)),
    "LowRankMultivariateNormal": (D.LowRankMultivariateNormal, (A, COVARIANCE[:, :2].contiguous(), B)),
    "Mixture": (lambda p, a, b: D.MixtureSameFamily(D.Categorical(p), D.Normal(a, b)), (P, A, B)),
    "Multinomial": (lambda p: D.Multinomial(4, p), (P,)),
    "MultivariateNormal": (D.MultivariateNormal, (A, COVARIANCE)),
    "NegativeBinomial": (lambda p: D.NegativeBinomial(3, p), (P,)),
    "OneHotCategorical": (D.OneHotCategorical, (P,)),
    "Pareto": (D.Pareto, (A, B)),
    "Poisson": (D.Poisson, (A,)),
    "StudentT": (lambda a: D.StudentT(a + 2), (A,)),
    "Uniform": (lambda a, b: D.Uniform(a, a + b), (A, B)),
    "Weibull": (D.Weibull, (A, B)),
}


@pytest.fixture(autouse=True)
def validated(monkeypatch):
    """Checks are on, as they are by default; whatever was run before."""
    monkeypatch.setattr(D.Distribution, "_validate_args", True)


@pytest.mark.parametrize("name", CASES)
def test_log_probabilities_and_samples(name):
    make, arguments = CASES[name]
    values = make(*arguments).sample()
    there = [t.to("pjrt") for t in arguments]
    f = tp.jit(lambda values, *arguments: make(*arguments).log_prob(values))
    assert_same(to_cpu(f(values.to("pjrt"), *there)), make(*arguments).log_prob(values))
    sample = tp.jit(lambda *arguments: make(*arguments).sample())(*there)
    assert sample.shape == values.shape
    tp.synchronize()


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Bernoulli", "Uniform", "MultivariateNormal"])
def test_bad_arguments_are_errors(name):
    make, arguments = CASES[name]
    bad = [*arguments[:-1], -arguments[-1]]
    with pytest.raises(ValueError, match=r"Expected parameter|not defined"):
        make(*bad)
    with pytest.raises(ValueError, match=r"Expected parameter|not defined"):
        tp.jit(lambda *arguments: make(*arguments).mean * 1)(*(t.to("pjrt") for t in bad))
        tp.synchronize()
