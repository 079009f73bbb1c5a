"""Powers of integers, which wrap around whatever the exponent."""

import pytest
import torch

from tests.support import check

EXPONENTS = [0, 1, 2, 5, 31, 62, 63, 64, 65, 127]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers_to_large_powers(mode, dtype):
    def both(device):
        x = torch.arange(-8 if dtype.is_signed else 0, 9, device=device).to(dtype)
        e = torch.tensor(EXPONENTS, device=device).to(dtype).unsqueeze(1)
        return x**e, 3**e, torch.tensor(-3 % 251).to(dtype).to(device) ** e

    check(both)


@pytest.mark.parametrize("exponent", [64, 65, 1_000_000, 2**62 + 1])
def test_a_large_number_as_exponent(mode, exponent):
    check(lambda device: torch.arange(-8, 9, device=device) ** exponent)
