"""torch's own module database on the device: built once on the CPU, copied, run forward and backward on both."""

import copy

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten

from tests.opinfo import judge
from tests.opinfo.harness import gradients, on
from tests.support import DEVICE, SHARE, assert_no_fallback, assert_same, fallbacks, in_share, to_cpu

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# module, or module-dtype -> why it does not pass; each fails here once it starts to.
UNCLAIMED: dict[str, str] = {}
# Their values are random in training: only shapes are compared.
VALUELESS = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"}
VALUELESS |= {"FractionalMaxPool2d", "FractionalMaxPool3d"}


def cases():
    every = [
        (info, dtype, training)
        for info in module_db
        for dtype in (torch.float32, torch.float64)
        if dtype in info.dtypes
        for training in (True, False)
        if info.train_and_eval_differ or training
    ]
    return [c for i, c in enumerate(every) if c[1] == torch.float32 or in_share(i)]


def run(module, args, kwargs, device):
    """Outputs, gradients of floating inputs and parameters, and buffers afterwards."""
    torch.manual_seed(5)
    args, kwargs = on(device, (args, kwargs))
    out = module(*args, **kwargs)
    outs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
    leaves = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves += list(module.parameters())
    return to_cpu([outs, gradients(outs, leaves), list(module.buffers())])


def exact(module, args, kwargs):
    """What ``run`` gives in double precision on the CPU."""
    args, kwargs = judge.widened(args), judge.widened(kwargs)
    return run(copy.deepcopy(module).double(), args, kwargs, "cpu")


def check(info, dtype, training):
    before = fallbacks()
    inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    for i, sample in enumerate(inputs):
        if sample.forward_input is None or (SHARE < 1 and i >= 3):
            continue
        torch.manual_seed(4)
        built = sample.constructor_input
        module = info.module_cls(*built.args, **built.kwargs).to(dtype).train(training)
        twin = copy.deepcopy(module).to(DEVICE)
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        expected = run(module, args, kwargs, "cpu")
        actual = run(twin, args, kwargs, DEVICE)
        # A lazy module draws its weights where it runs, and two devices draw different ones.
        drawn = info.module_cls.__name__.startswith("Lazy")
        if drawn or (info.module_cls.__name__ in VALUELESS and training):
            expected, actual = ([[t.shape for t in r[0]]] for r in (expected, actual))
        try:
            assert_same(actual, expected, f"{info.name} {sample.desc or i}")
        except AssertionError:
            if drawn or not judge.as_exact(actual, expected, exact(module, args, kwargs)):
                raise
    assert_no_fallback(before)


@pytest.mark.parametrize(
    ("info", "dtype", "training"),
    cases(),
    ids=lambda v: v.name.removeprefix("nn.") if hasattr(v, "module_cls") else str(v).removeprefix("torch."),
)
def test_module(info, dtype, training):
    key = f"{info.name}-{str(dtype).removeprefix('torch.')}"
    reason = UNCLAIMED.get(key, UNCLAIMED.get(info.name)) if DEVICE != "cpu" else None
    if reason is None:
        check(info, dtype, training)
        return
    with pytest.raises(Exception, match=r".*"):
        check(info, dtype, training)
    pytest.xfail(reason)
