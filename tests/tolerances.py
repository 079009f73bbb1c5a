"""The one table of tolerances: how far a result on the device may be from torch CPU's, by dtype.

Integers and booleans must be equal. In floating types an element passes if |actual - expected| <= atol + rtol *
|expected|. The figures are a few units in the last place for one rounding, and room for sums taken in another order.
Steps that each go on from the last, with a search in each, magnify what they began with. No test has its own; tests of
random numbers compare what follows from their number.
"""

import torch

TOLERANCES: dict[torch.dtype, tuple[float, float]] = {  # dtype: (rtol, atol)
    torch.float64: (1e-7, 1e-7),
    torch.float32: (2e-5, 2e-5),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.complex128: (1e-7, 1e-7),
    torch.complex64: (2e-5, 2e-5),
    torch.complex32: (4e-3, 4e-3),
}
EXACT = (0.0, 0.0)
GROWN = 50
"""How many times the tolerance is where steps magnify roundings: several of LBFGS."""


def tolerance(dtype: torch.dtype, grown: bool = False) -> tuple[float, float]:
    """(rtol, atol) for results of type ``dtype``; ``grown`` where steps magnified roundings."""
    rtol, atol = TOLERANCES.get(dtype, EXACT)
    return (GROWN * rtol, GROWN * atol) if grown else (rtol, atol)
