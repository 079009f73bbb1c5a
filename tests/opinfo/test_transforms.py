"""Transforms of ``torch.func`` under jit over entries of the op database, in double precision, against torch CPU."""

from typing import Any

import pytest
import torch
import torch_pjrt as tp
from torch.func import grad, jacrev, jvp, vmap
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

from tests.opinfo.harness import UP_TO_SIGN, VALUELESS, full_name, unclaimed
from tests.support import assert_same, in_share, to_cpu, to_device

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EVERY = 24
"""One entry of so many: each is four programs, and the others take the same ways."""

TRANSFORMS = {
    "grad": grad,
    "vmap of grad": lambda f: lambda x: vmap(grad(f))(torch.stack([x, x * 1.0])),
    "jvp": lambda f: lambda x: jvp(f, (x,), (torch.ones_like(x),)),
    "jacrev of grad": lambda f: jacrev(grad(f)),
}
_REAL = (torch.float64, torch.complex128)
LEFT_OUT = VALUELESS | UP_TO_SIGN | {name.rpartition("-")[0] for name in unclaimed()}
ENTRIES = [
    op
    for op in op_db
    if torch.float64 in op.supported_dtypes("cpu") and op.supports_autograd and full_name(op) not in LEFT_OUT
]


def _sample(op: Any) -> Any:
    for s in op.sample_inputs("cpu", torch.float64, requires_grad=False):
        if isinstance(s.input, torch.Tensor) and s.input.is_floating_point() and 0 < s.input.numel() <= 30:
            return s
    return None


def _scalar(op: Any, args: Any, kwargs: Any) -> Any:
    """The op with one real number as its result."""

    def function(x: torch.Tensor) -> Any:
        out = [t for t in tree_leaves(op(x, *args, **kwargs)) if isinstance(t, torch.Tensor)]
        return sum((t.abs().square() if t.is_complex() else t).sum() for t in out if t.dtype in _REAL) * 1.0

    return function


@pytest.mark.parametrize("op", [o for i, o in enumerate(ENTRIES) if i % EVERY == 0], ids=full_name)
def test_transforms(op):
    sample = _sample(op)
    if sample is None:
        pytest.skip("torch has no small sample")
    ran, refused = 0, {}
    for i, (name, transform) in enumerate(TRANSFORMS.items()):
        if not in_share(i):
            continue

        def call(x, args, kwargs, transform=transform):
            return transform(_scalar(op.op, args, kwargs))(x)

        given = (sample.input, list(sample.args), dict(sample.kwargs))
        try:
            expected = call(*given)
        except Exception as error:  # what torch has no rule for
            refused[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            continue
        got = tp.jit(call)(*to_device(given, "pjrt"))
        assert_same(to_cpu(got), expected, f"{name} of {full_name(op)}")
        ran += 1
    if not ran:
        pytest.skip(f"torch CPU has no rule: {refused}")
