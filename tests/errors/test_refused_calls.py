"""Calls that a kernel refuses: type and words of the error are torch CPU's, also in a trace, and nothing falls back."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, check, fallbacks, in_mode, outcome

pytestmark = pytest.mark.usefixtures("mode")
f32, f64 = torch.float32, torch.float64


def t(*shape, dtype=f32, device=DEVICE):
    return torch.ones(shape, dtype=dtype, device=device)


# Dtypes that do not meet.
TWO_DTYPES = {
    "mm": lambda d: torch.mm(t(2, 2, device=d), t(2, 2, dtype=f64, device=d)),
    "addmm of the matrices": lambda d: torch.addmm(t(2, 2, device=d), t(2, 2, device=d), t(2, 2, dtype=f64, device=d)),
    "addmm of the sum": lambda d: torch.addmm(t(2, 2, dtype=f64, device=d), t(2, 2, device=d), t(2, 2, device=d)),
    "mv": lambda d: torch.mv(t(2, 2, device=d), t(2, dtype=f64, device=d)),
    "addmv": lambda d: torch.addmv(t(2, device=d), t(2, 2, device=d), t(2, dtype=f64, device=d)),
    "bmm": lambda d: torch.bmm(t(2, 2, 2, device=d), t(2, 2, 2, dtype=f64, device=d)),
    "baddbmm": lambda d: torch.baddbmm(t(2, 2, 2, dtype=f64, device=d), t(2, 2, 2, device=d), t(2, 2, 2, device=d)),
    "dot": lambda d: torch.dot(t(2, device=d), t(2, dtype=f64, device=d)),
    "matmul of batches": lambda d: t(3, 2, 2, device=d) @ t(2, 2, dtype=f64, device=d),
    "linear": lambda d: F.linear(t(2, 2, device=d), t(2, 2, dtype=f64, device=d)),
    "bias of linear": lambda d: F.linear(t(2, 2, device=d), t(2, 2, device=d), t(2, dtype=f64, device=d)),
    "conv1d": lambda d: F.conv1d(t(1, 1, 4, device=d), t(1, 1, 2, dtype=f64, device=d)),
    "conv2d": lambda d: F.conv2d(t(1, 1, 4, 4, device=d), t(1, 1, 2, 2, dtype=f64, device=d)),
    "bias of conv2d": lambda d: F.conv2d(
        t(1, 1, 4, 4, device=d), t(1, 1, 2, 2, device=d), t(1, dtype=torch.float16, device=d)
    ),
    "uint64 and int64": lambda d: t(2, dtype=torch.uint64, device=d) + t(2, dtype=torch.int64, device=d),
}
COMPLEX, BOOL, INT, HALF = torch.complex64, torch.bool, torch.int64, torch.float16
# Functions of one tensor and a dtype that torch has no kernel for.
ONE_DTYPE = {
    "sub": (lambda x: x - x, BOOL),
    "linalg.cross": (lambda x: torch.linalg.cross(x[:, :3], x[:, :3]), BOOL),
    "linalg.inv": (torch.linalg.inv, INT),
    "linalg.cholesky": (torch.linalg.cholesky, HALF),
    "linalg.qr": (torch.linalg.qr, HALF),
    "linalg.lu_factor": (torch.linalg.lu_factor, BOOL),
    "linalg.vector_norm": (torch.linalg.vector_norm, INT),
    "std": (torch.std, INT),
    "var_mean": (torch.var_mean, INT),
    "amax": (torch.amax, COMPLEX),
    "max": (torch.max, COMPLEX),
    "max of a dim": (lambda x: x.max(0), COMPLEX),
    "argmin": (torch.argmin, COMPLEX),
    "sort": (torch.sort, COMPLEX),
    "topk": (lambda x: x.topk(1), COMPLEX),
    "median": (torch.median, COMPLEX),
    "cummax": (lambda x: x.cummax(0), COMPLEX),
    "nansum": (torch.nansum, COMPLEX),
    "isposinf": (torch.isposinf, COMPLEX),
    "heaviside": (lambda x: torch.heaviside(x, x), COMPLEX),
    "normal_": (lambda x: x.normal_(), INT),
    "uniform_": (lambda x: x.uniform_(), BOOL),
    "geometric_": (lambda x: x.geometric_(0.5), COMPLEX),
    "bernoulli": (torch.bernoulli, INT),
    "mse_loss": (lambda x: F.mse_loss(x, x), INT),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x), INT),
    "huber_loss": (lambda x: F.huber_loss(x, x), INT),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), COMPLEX),
    "group_norm": (lambda x: F.group_norm(x, 2), COMPLEX),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), COMPLEX),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x[None], 2), INT),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), BOOL),
    "conv2d": (lambda x: F.conv2d(x[None, None], x[None, None]), BOOL),
    "grid_sample": (
        lambda x: F.grid_sample(x[None, None], x[None, :, :2, None].expand(1, 4, 2, 2), align_corners=False),
        INT,
    ),
    "interpolate": (lambda x: F.interpolate(x[None], scale_factor=2, mode="linear"), INT),
    "scatter_reduce": (lambda x: x.scatter_reduce(0, torch.zeros_like(x, dtype=INT), x, "amax"), COMPLEX),
    "mvlgamma": (lambda x: x.mvlgamma(1), BOOL),
    "stft": (lambda x: torch.stft(x[0], 4, return_complex=True), HALF),
    "embedding_bag": (lambda x: F.embedding_bag(torch.zeros_like(x, dtype=INT), x, mode="mean"), INT),
}


MODES = pytest.mark.parametrize("mode", ["strict", "debug", "jit"], indirect=True)


def refused(function):
    before = fallbacks()
    expected = outcome(lambda: function("cpu"))
    assert isinstance(expected, Exception), "the case is wrong: torch CPU accepts it"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = outcome(in_mode(lambda: function(DEVICE)))
    assert type(actual) is type(expected), f"raises {actual!r}; torch CPU raises {expected!r}"
    assert str(actual) == str(expected)
    assert fallbacks() == before


@MODES
@pytest.mark.parametrize("name", TWO_DTYPES)
def test_two_dtypes(name):
    refused(TWO_DTYPES[name])


@MODES
@pytest.mark.parametrize("name", ONE_DTYPE)
def test_a_dtype_without_a_kernel(name):
    function, dtype = ONE_DTYPE[name]
    refused(lambda device: function(t(4, 4, dtype=dtype, device=device)))


@pytest.mark.parametrize("dtype", [f64, HALF, INT, COMPLEX], ids=str)
@pytest.mark.parametrize("which", range(3))
def test_addr_promotes(mode, which, dtype):
    def run(device):
        shapes = [(2, 3), (2,), (3,)]
        return torch.addr(*(t(*s, dtype=dtype if i == which else f32, device=device) for i, s in enumerate(shapes)))

    check(run)


def test_the_attempt_on_the_cpu_changes_nothing():
    """Neither the arguments nor the CPU's random numbers, whatever torch CPU makes of the call."""
    x = torch.arange(3.0, device=DEVICE)
    state = torch.get_rng_state()
    for bad in (lambda: x.add_(t(2)), lambda: x.copy_(t(2)), lambda: t(3, dtype=INT).normal_()):
        with pytest.raises(RuntimeError):
            bad()
    assert torch.equal(torch.get_rng_state(), state)
    assert x.tolist() == [0, 1, 2]
    assert x._version == 0


def test_the_attempt_on_the_cpu_writes_to_no_cpu_tensor(monkeypatch):
    """torch CPU would take these calls, and would write to what the caller has there."""
    monkeypatch.setenv("TORCH_PJRT_FALLBACK", "error")
    number, values = torch.zeros(()), torch.zeros(2, dtype=COMPLEX)
    with pytest.raises(RuntimeError, match="must be on the pjrt device"):
        number.add_(t())
    with pytest.raises(NotImplementedError, match="TORCH_PJRT_FALLBACK=error"):
        torch._C._linalg.linalg_eigvals(t(2, 2), out=values)
    assert number.item() == 0
    assert values.tolist() == [0, 0]


def test_a_call_with_much_memory_is_not_tried():
    """Its error is the device's own."""
    a, b = torch.zeros(1 << 25, device=DEVICE), torch.zeros(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="size"):
        a + b
