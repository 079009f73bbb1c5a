"""Divisions are rounded once, as IEEE and torch do: XLA would multiply by a reciprocal."""

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, on_device

FLOATS = [torch.float32, torch.float64]


def equal(function):
    """``function(device)`` gives the very same numbers in the mode under test."""
    actual, expected = on_device(function, DEVICE), function("cpu")
    assert len(actual) == len(expected)
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert torch.equal(a.cpu(), e), f"result {i}: {int((a.cpu() != e).sum())} of {e.numel()} differ"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)
def test_multiples_of_every_number_to_a_thousand(mode, dtype):
    def by(x, k):
        return x / k

    if mode == "jit":
        import torch_pjrt as tp

        by = tp.jit(by)
    m = torch.tensor([1.0, 3.0, 7.0, 11.0, 19.0, 1.5, -5.0], dtype=dtype)
    quotients = [by((m * k).to(DEVICE), float(k)).cpu() for k in range(1, 1001)]
    wrong = [k for k, q in enumerate(quotients, 1) if not torch.equal(q, m)]
    assert not wrong, f"k * m / k is not m for {len(wrong)} of 1000 divisors: {wrong[:9]}"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)
def test_every_form_of_division(mode, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(1, 1000, (60, 49), generator=generator).to(dtype)
    y = torch.randint(1, 1000, (60, 49), generator=generator).to(dtype)

    def work(device):
        a, b = x.to(device), y.to(device)
        column, row = b[:, :1], b[0]
        return [
            a / 49.0, a / 49, a.div(49.0), a.true_divide(b[0, 0]), a / column, a / row, a / b.t().t(), a / 3.0 / 7.0,
            a / 3.0 / b, a / (b / 7.0), a / column / row, a / 8.0, 1.0 / a, a.reciprocal(), 7.0 / column,
            torch.div(a, 49.0, rounding_mode="floor"), torch.div(a * 0.7, column, rounding_mode="trunc"),
            a / torch.full((), 49.0, device=device, dtype=a.dtype), (a / 49.0).sub(a / column),
            torch.addcdiv(a, a, column, value=3.0) if dtype == torch.float64 else a / 5.0,
        ]  # fmt: skip

    equal(work)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)
def test_means_of_integers(mode, dtype):
    # Sums of these are exact in every order, so that only the division rounds.
    x = torch.randint(-40, 40, (6, 49, 49), generator=torch.Generator().manual_seed(0)).to(dtype)

    def work(device):
        a = x.to(device)
        ones = torch.ones(49, 49, device=device, dtype=a.dtype).mul(49)
        return [
            ones.mean(), ones.mean(0), ones.mean(1, keepdim=True), a.mean(), a.mean(0), a.mean((1, 2)),
            F.avg_pool2d(a, 7), F.avg_pool1d(a, 3), F.l1_loss(a, a * 0),
            F.mse_loss(a[0], ones), F.layer_norm(ones, (49,)), torch.var(ones), a[0].index_reduce(
                0, torch.zeros(49, dtype=torch.int64, device=device), a[1], "mean"),
        ]  # fmt: skip

    equal(work)


@pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)
def test_what_is_no_number_stays_so(mode):
    def work(device):
        a = torch.tensor([0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan], device=device)
        return [(a / s).nan_to_num(7.0, 8.0, 9.0) for s in (0.0, -0.0, 3.0, torch.inf, torch.nan)] + [
            (a / 3.0 / 0.0).nan_to_num(7.0, 8.0, 9.0), (a / (a / 3.0)).nan_to_num(7.0, 8.0, 9.0)
        ]  # fmt: skip

    equal(work)
