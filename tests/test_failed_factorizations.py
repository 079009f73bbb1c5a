"""Factorizations that fail: which minor of Cholesky's, what of its factor there is, and the messages."""

import pytest
import torch

from tests.support import DEVICE, assert_no_fallback, check, fallbacks, outcome

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def matrix(n, failing, dtype):
    """Positive-definite up to the minor of order ``failing``; wholly for 0."""
    x = torch.randn(n, n, dtype=dtype)
    a = x @ x.mH + n * torch.eye(n, dtype=dtype)
    if failing:
        a[failing - 1, failing - 1] = -1
    return a


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("failing", range(6))
def test_each_order_of_a_small_matrix(mode, failing, dtype, upper):
    a = matrix(5, failing, dtype)
    assert torch.linalg.cholesky_ex(a, upper=upper).info == failing, "the case is wrong"
    check(lambda device: torch.linalg.cholesky_ex(a.to(device), upper=upper))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_batches_fail_one_by_one(mode, dtype, upper):
    a = torch.stack([matrix(4, k, dtype) for k in (0, 3, 1, 0, 4, 2)]).reshape(2, 3, 4, 4)
    before = fallbacks()
    check(lambda device: torch.linalg.cholesky_ex(a.to(device), upper=upper))
    assert_no_fallback(before)


@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [(0, 0), (1, 0), (1, 1), (2, 1)])
def test_special_values(mode, value, place):
    a = 4 * torch.eye(3, dtype=torch.float64)
    a[place] = value
    check(lambda device: torch.linalg.cholesky_ex(a.to(device)).info)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 1, 1), (0, 2, 2), (2, 0, 0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_matrices_of_no_and_one_element(mode, shape, sign):
    check(lambda device: torch.linalg.cholesky_ex(sign * torch.ones(shape, device=device)))


@pytest.mark.parametrize("failing", [5, 40, 96])
def test_the_order_of_a_large_matrix(mode, failing):
    """LAPACK works block by block: only the columns of the block before are the same."""
    a = matrix(96, failing, torch.float64)

    def run(device):
        factor, info = torch.linalg.cholesky_ex(a.to(device))
        return factor[: failing - 1, : failing - 1], info

    check(run)


MESSAGES = {
    "one": lambda d: torch.linalg.cholesky(matrix(4, 3, torch.float32).to(d)),
    "of a batch": lambda d: torch.linalg.cholesky(torch.stack([matrix(4, k, torch.float64) for k in (0, 2, 1)]).to(d)),
    "of cholesky_ex": lambda d: torch.linalg.cholesky_ex(matrix(3, 2, torch.float32).to(d), check_errors=True).L,
}


FAILING = {
    "linalg.cholesky_ex": lambda a: torch.linalg.cholesky_ex(a, check_errors=True).L,
    "linalg.inv_ex": lambda a: torch.linalg.inv_ex(a, check_errors=True).inverse,
    "linalg.lu_factor_ex": lambda a: torch.linalg.lu_factor_ex(a, check_errors=True).LU,
    "linalg.solve_ex": lambda a: torch.linalg.solve_ex(a, a, check_errors=True).result,
}


@pytest.mark.parametrize("name", FAILING)
def test_check_errors_of_the_ex_functions(name):
    a = torch.zeros(2, 2)
    expected = outcome(lambda: FAILING[name](a))
    actual = outcome(lambda: FAILING[name](a.to(DEVICE)))
    assert isinstance(expected, RuntimeError)
    assert type(actual) is type(expected)
    assert str(expected) in str(actual)


@pytest.mark.parametrize("name", MESSAGES)
def test_the_message_names_the_order(name):
    expected = outcome(lambda: MESSAGES[name]("cpu"))
    actual = outcome(lambda: MESSAGES[name](DEVICE))
    assert isinstance(expected, torch.linalg.LinAlgError)
    assert isinstance(actual, torch.linalg.LinAlgError)
    assert str(expected) in str(actual)


def test_the_gradient_of_those_that_did_not_fail(mode):
    a = torch.stack([matrix(4, k, torch.float64) for k in (0, 2)])

    def run(device):
        x = a.to(device).detach().requires_grad_()
        torch.linalg.cholesky_ex(x).L[0].real.sum().backward()
        return x.grad[0]

    check(run)
