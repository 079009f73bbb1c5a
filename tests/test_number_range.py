"""Python numbers that a tensor's dtype cannot hold."""

import itertools
import math

import pytest
import torch

from tests.support import assert_same_outcome, check

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64, torch.complex64, torch.bool]  # fmt: skip
NUMBERS = [0, -1, 127, 255, 300, -300, 2**31, -(2**40), 1.5, -1.0, 1e6, 1e39, math.inf, -math.inf, math.nan, 1j, 2 + 0j]


def _tensor(dtype, device):
    return torch.tensor([1, 0, 1], device="cpu").to(dtype).to(device)


def _put(x, key, n):
    x[key] = n
    return x


STORES = {
    "fill_": lambda x, n: x.fill_(n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype, device=x.device),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((2,), n),
    "x[0] =": lambda x, n: _put(x, 0, n),
    "x[:] =": lambda x, n: _put(x, slice(None), n),
    "x[list] =": lambda x, n: _put(x, [0, 1], n),
    "x[mask] =": lambda x, n: _put(x, torch.tensor([True, False, True], device=x.device), n),
    "masked_fill": lambda x, n: x.masked_fill(torch.tensor([True, False, True], device=x.device), n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0], device=x.device), n),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([0], device=x.device), n),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 1), value=n),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_number_is_stored_or_refused_as_on_cpu(device, dtype, store):
    """Above all, no imaginary part is lost and no integer wraps where torch refuses."""
    half = dtype in (torch.float16, torch.bfloat16)
    for n in NUMBERS:
        if half and store == "x[0] =" and not isinstance(n, complex) and not -6e4 < n < 6e4:
            continue  # on CPU one element becomes infinite where several are refused; on a device both are `fill_`
        on = {d: lambda d=d, n=n: STORES[store](_tensor(dtype, d), n) for d in (device, "cpu")}
        assert_same_outcome(on[device], on["cpu"], f"{store} {n!r}")


def test_a_refused_number_leaves_the_tensor_as_it_was(device):
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        x[0] = 1j
    assert x.tolist() == [1.0, 1.0, 1.0]


BOUNDS = [None, -1000, -1, 0, 3, 100, 255, 300, 2**40, -(2**40)]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_bounds_past_the_ends_of_a_dtype_are_its_ends(device, dtype):
    """clamp, in place too; hardtanh on numbers that its bounds' order allows."""
    for low, high in itertools.product(BOUNDS, BOUNDS):
        if low is None and high is None:
            continue

        def clamp(d, low=low, high=high):
            return torch.tensor([1, 5, 100], dtype=dtype).to(d).clamp(low, high)

        def clamp_(d, low=low, high=high):
            return torch.tensor([1, 5, 100], dtype=dtype).to(d).clamp_(low, high)

        def hardtanh(d, low=low, high=high):
            return torch.nn.functional.hardtanh(torch.tensor([1, 5, 100], dtype=dtype).to(d), low, high)

        cases = [clamp, clamp_] if None in (low, high) or low > high or low < 0 or low == high else [clamp, hardtanh]
        for case in cases:
            assert_same_outcome(lambda case=case: case(device), lambda case=case: case("cpu"), f"{low}, {high}")


def test_bounds_that_a_float_dtype_has_no_number_for(mode):
    def case(device):
        return torch.ones(2, device=device).clamp(-1e39, 1e39)

    check(case)


def test_new_numbers_need_no_new_program(device):
    if device == "cpu":
        pytest.skip("there are no programs on the CPU")
    import torch_pjrt as tp

    x = torch.ones(4, dtype=torch.int8, device=device)
    x.clamp(-300, 400)
    x.fill_(3)
    before = tp.cache_info()["misses"]
    x.clamp(-3, 999)
    x.fill_(5)
    assert tp.cache_info()["misses"] == before
