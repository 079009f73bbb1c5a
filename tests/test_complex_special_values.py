"""Functions of complex numbers whose parts are infinite, NaN, or zeros with a sign: C99's values, as on CPU."""

import pytest
import torch

from tests.support import check

PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, float("inf"), -float("inf"), float("nan")]
NUMBERS = [complex(a, b) for a in PARTS for b in PARTS]

FUNCTIONS = [
    *("abs", "angle", "sgn", "sqrt", "exp", "exp2", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
    *("square", "conj_physical", "isnan", "isinf", "isfinite"),
]
# Signs of zeros that C99 leaves open, or where torch CPU has another one than C99.
SIGNS_DIFFER = {"cos", "acos", "log1p"}


def in_parts(y):
    """The real numbers in ``y``: complex ones compare as NaN if one part is."""
    return torch.view_as_real(y) if y.is_complex() else y


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(mode, name, dtype):
    def run(device, x):
        y = in_parts(getattr(torch, name)(x))
        signs = torch.signbit(y) & (y == 0) & (name not in SIGNS_DIFFER)
        return y, signs

    check(run, lambda device: torch.tensor(NUMBERS, dtype=dtype, device=device))


@pytest.mark.parametrize("form", ["one", "in place", "out"])
def test_forms(mode, form):
    def run(device):
        x = torch.tensor(complex(-float("inf"), float("nan")), device=device)
        if form == "in place":
            return in_parts(x.sqrt_())
        if form == "out":
            return in_parts(torch.sqrt(x, out=torch.empty_like(x)))
        return in_parts(x.sqrt()), abs(x)

    check(run)


def test_the_sides_of_cuts_are_told_by_zeros(mode):
    """The square root, say, of numbers just below the negative axis lies below the real axis."""
    below = [complex(-4.0, -0.0), complex(-0.25, -0.0), complex(3.0, -0.0), complex(-0.0, 3.0), complex(-0.0, -3.0)]

    def run(device, x):
        return [in_parts(f(x)) for f in (torch.sqrt, torch.acosh, torch.asin, torch.acos, torch.atanh, torch.atan)]

    check(run, lambda device: torch.tensor(below, dtype=torch.complex128, device=device))


def test_the_gradient_of_abs_where_a_part_is_infinite(mode):
    def run(device):
        x = torch.tensor([3 + 4j, complex(float("inf"), float("nan"))], device=device, requires_grad=True)
        x.abs()[0].backward()
        return in_parts(x.grad[0])

    check(run)
