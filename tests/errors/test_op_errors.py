"""Bad input to ops: torch's own exception type, a message that names what was wrong, and tensors unharmed after it."""

import re
import warnings

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, fallbacks, outcome, python

pytestmark = pytest.mark.usefixtures("mode")


def t(*shape, dtype=torch.float32, device=DEVICE):
    return torch.ones(shape, dtype=dtype, device=device)


# Of each message the first line of torch CPU's must be in ours.
BAD = {
    "shapes do not broadcast": lambda d: t(2, 3, device=d) + t(4, device=d),
    "in place cannot grow": lambda d: t(3, device=d).add_(t(2, 3, device=d)),
    "inner sizes of mm": lambda d: t(2, 3, device=d) @ t(4, 5, device=d),
    "dtypes of mm": lambda d: t(2, 2, device=d) @ t(2, 2, dtype=torch.float64, device=d),
    "rank of mm": lambda d: torch.mm(t(2, device=d), t(2, 2, device=d)),
    "batch of bmm": lambda d: torch.bmm(t(2, 3, 4, device=d), t(3, 4, 5, device=d)),
    "cat of other sizes": lambda d: torch.cat([t(2, 3, device=d), t(2, 4, device=d)]),
    "stack of other sizes": lambda d: torch.stack([t(2, device=d), t(3, device=d)]),
    "dimension out of range": lambda d: t(2, 3, device=d).sum(2),
    "dimension twice": lambda d: t(2, 3, device=d).sum((0, 0)),
    "softmax of a missing dimension": lambda d: t(2, device=d).softmax(1),
    "reshape to another size": lambda d: t(2, 3, device=d).reshape(4),
    "view across strides": lambda d: t(2, 3, device=d).t().view(6),
    "expand of a size": lambda d: t(2, 3, device=d).expand(4, 3),
    "index of a missing dimension": lambda d: t(2, device=d)[0, 0],
    "python index out of range": lambda d: t(2, device=d)[5],
    "too many indices": lambda d: t(2, 2, device=d)[0, 0, 0],
    "float index": lambda d: t(2, device=d)[t(1, device=d)],
    "mask of another size": lambda d: t(3, device=d)[t(2, dtype=torch.bool, device=d)],
    "gather index dtype": lambda d: t(3, device=d).gather(0, t(1, device=d)),
    "result cannot be cast": lambda d: t(2, dtype=torch.int32, device=d).add_(0.5),
    "bitwise of floats": lambda d: t(2, device=d) & t(2, device=d),
    "mean of integers": lambda d: t(2, dtype=torch.int64, device=d).mean(),
    "sqrt out into integers": lambda d: torch.sqrt(t(2, device=d), out=t(2, dtype=torch.int32, device=d)),
    "conv channels": lambda d: F.conv2d(t(1, 3, 5, 5, device=d), t(2, 4, 3, 3, device=d)),
    "conv kernel too large": lambda d: F.conv2d(t(1, 1, 2, 2, device=d), t(1, 1, 3, 3, device=d)),
    "conv stride zero": lambda d: F.conv2d(t(1, 1, 5, 5, device=d), t(1, 1, 3, 3, device=d), stride=0),
    "pool padding": lambda d: F.max_pool2d(t(1, 1, 5, 5, device=d), 2, padding=3),
    "layer_norm shape": lambda d: F.layer_norm(t(2, 3, device=d), (4,)),
    "linear sizes": lambda d: F.linear(t(2, 3, device=d), t(5, 4, device=d)),
    "cross entropy sizes": lambda d: F.cross_entropy(t(2, 3, device=d), t(3, dtype=torch.int64, device=d)),
    "embedding of floats": lambda d: F.embedding(t(2, device=d), t(3, 3, device=d)),
    "topk too many": lambda d: t(3, device=d).topk(4),
    "split sizes": lambda d: t(5, device=d).split([2, 2]),
    "negative size": lambda d: torch.empty(-1, device=d),
    "arange the wrong way": lambda d: torch.arange(3, 0, device=d),
    "randint empty range": lambda d: torch.randint(3, 3, (2,), device=d),
    "bernoulli probability": lambda d: F.dropout(t(2, device=d), 1.5),
    "max of nothing": lambda d: t(0, device=d).max(),
    "item of many": lambda d: t(2, device=d).item(),
    "where dtypes": lambda d: torch.where(t(2, device=d), t(2, device=d), t(2, device=d)),
    "clamp without bounds": lambda d: t(2, device=d).clamp(),
    "svd of a vector": lambda d: torch.linalg.svd(t(2, device=d)),
    "cholesky of a negative matrix": lambda d: torch.linalg.cholesky(-torch.eye(2, device=d)).cpu(),
    "inverse of a singular matrix": lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d)).cpu(),
    "view dtype of another size": lambda d: t(3, device=d).view(torch.float64),
    "a string for a tensor": lambda d: torch.add(t(2, device=d), "x"),
    "unknown keyword": lambda d: torch.add(t(2, device=d), 1, beta=3),
    "backward twice": lambda d: _backward_twice(d),
    "backward of many without a gradient": lambda d: (t(2, device=d).requires_grad_() * 2).backward(),
}


def _backward_twice(device):
    x = t(2, device=device).requires_grad_()
    y = (x * x).sum()
    y.backward()
    y.backward()


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_as_torch_does(name):
    function = BAD[name]
    expected = outcome(lambda: function("cpu"))
    assert isinstance(expected, Exception), "the case is wrong: torch CPU accepts it"
    kept = torch.arange(3.0, device=DEVICE)
    actual = outcome(lambda: function(DEVICE))
    assert isinstance(actual, Exception), f"no error; torch CPU raises {expected!r}"
    assert isinstance(actual, type(expected)), f"raises {actual!r}; torch CPU raises {expected!r}"
    wanted = re.sub(r"^(torch\.)?\w+(\(\))?: ", "", str(expected).splitlines()[0])  # the op's name is put by each
    assert wanted in str(actual), f"{wanted!r} is not in: {actual}"
    assert (kept + 1).tolist() == [1, 2, 3], "the device goes on"


def _bools(*shape, device):
    return t(*shape, dtype=torch.bool, device=device)


# Products of truth values: torch has none, on any device.
BOOL_PRODUCTS = {
    "mm": lambda d: torch.mm(_bools(2, 2, device=d), _bools(2, 2, device=d)),
    "bmm": lambda d: torch.bmm(_bools(2, 2, 2, device=d), _bools(2, 2, 2, device=d)),
    "matmul": lambda d: _bools(3, 2, 2, device=d) @ _bools(3, 2, 2, device=d),
    "mv": lambda d: torch.mv(_bools(2, 2, device=d), _bools(2, device=d)),
    "dot": lambda d: torch.dot(_bools(2, device=d), _bools(2, device=d)),
    "linear": lambda d: F.linear(_bools(2, 2, device=d), _bools(2, 2, device=d)),
    "addmm": lambda d: torch.addmm(_bools(2, 2, device=d), _bools(2, 2, device=d), _bools(2, 2, device=d)),
    "baddbmm": lambda d: torch.baddbmm(*[_bools(2, 2, 2, device=d)] * 3),
}


@pytest.mark.parametrize("name", BOOL_PRODUCTS)
def test_what_torch_cannot_do_either_is_its_error_and_no_fallback(name):
    before = fallbacks()
    expected = outcome(lambda: BOOL_PRODUCTS[name]("cpu"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = outcome(lambda: BOOL_PRODUCTS[name](DEVICE))
    assert isinstance(expected, NotImplementedError)
    assert isinstance(actual, NotImplementedError)
    assert str(actual) == str(expected)
    assert fallbacks() == before


@pytest.mark.parametrize("op", ["add", "mm", "gather", "index_select", "cat"])
def test_out_that_overlaps_itself(op):
    def run(device):
        x, index = t(2, 2, device=device), t(2, 2, dtype=torch.int64, device=device)
        out = torch.zeros(2, 1, device=device).expand(2, 2)
        args = {"add": (x, x), "mm": (x, x), "gather": (x, 0, index), "index_select": (x, 0, index[0]), "cat": ([x],)}
        return getattr(torch, op)(*args[op], out=out)

    expected = outcome(lambda: run("cpu"))
    actual = outcome(lambda: run(DEVICE))
    assert isinstance(expected, RuntimeError)
    assert isinstance(actual, RuntimeError)
    assert str(expected) in str(actual)


IN_PLACE = {
    "shape": lambda x: x.add_(torch.ones(4, 4, 4, device=DEVICE)),
    "dtype": lambda x: x.add_(torch.ones(3, dtype=torch.complex64, device=DEVICE)),
    "copy_": lambda x: x.copy_(torch.ones(4, device=DEVICE)),
    "index": lambda x: x.index_add_(0, torch.tensor([0], device=DEVICE), torch.ones(2, 2, device=DEVICE)),
    "out": lambda x: torch.add(x, torch.ones(2, device=DEVICE), out=x),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_failed_write_leaves_the_tensor_as_it_was(name):
    x = torch.arange(3.0, device=DEVICE)
    view, version = x[1:], x._version
    with pytest.raises((RuntimeError, IndexError)):
        IN_PLACE[name](x)
    assert x.tolist() == [0, 1, 2]
    assert view.tolist() == [1, 2]
    assert x.shape == (3,)
    assert x._version == version
    x.add_(1)
    assert view.tolist() == [2, 3]


@pytest.mark.skipif(DEVICE == "cpu", reason="the device's own limits")
def test_out_of_memory_is_torchs_error_and_the_device_goes_on():
    kept = torch.arange(3.0, device=DEVICE)
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.ones(1 << 40, device=DEVICE).cpu()
    assert str(caught.value) == (
        "out of memory on the device (PJRT_LoadedExecutable_Execute): Out of memory allocating 4398046511104 bytes. "
        "Free tensors, or use smaller ones"
    )
    assert kept.tolist() == [0, 1, 2]


@pytest.mark.skipif(DEVICE == "cpu", reason="the device's own registry")
def test_an_op_without_a_kernel_falls_back_once_loudly_and_can_be_forbidden():
    code = """
import warnings, torch, torch_pjrt as tp
x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], device="pjrt")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        values = torch.linalg.eigvals(x)
print(values.device.type, sorted(round(v.real, 4) for v in values.cpu().tolist()))
print(len([w for w in caught if "falls back to CPU" in str(w.message)]))
print({k: v for k, v in tp.fallbacks().items()})
"""
    done = python(code)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    assert lines[0] == "pjrt [1.382, 3.618]"
    assert lines[1] == "1", "one warning an op"
    assert ": 3" in lines[2]
    forbidden = python(code, TORCH_PJRT_FALLBACK="error")
    assert forbidden.returncode == 1
    assert "NotImplementedError" in forbidden.stderr
    assert "linalg_eig" in forbidden.stderr
    assert "TORCH_PJRT_FALLBACK" in forbidden.stderr


@pytest.mark.skipif(DEVICE == "cpu", reason="a check of the device's debug mode")
def test_nan_checks_are_opt_in_and_name_the_op(mode):
    import torch_pjrt as tp

    zero = torch.zeros(2, device=DEVICE)
    assert (zero / zero).isnan().all().item()
    if mode == "debug":
        tp.eager_mode("debug", check_nan=True)
        with pytest.raises(RuntimeError, match=r"(?i)nan.*div|div.*nan"):
            zero / zero
        assert (zero + 1).tolist() == [1, 1]
        tp.eager_mode("debug", check_nan=False)
        assert (zero / zero).isnan().all().item()


def test_a_buffer_given_away_by_an_in_place_op_is_never_read():
    """In-place ops may reuse the old buffer: every alias, saved tensor and pending read must still be right."""
    x = torch.arange(1000.0, device=DEVICE)
    view, copied, old = x[10:20], x.clone(), x.detach()
    total = x.sum()
    for step in range(50):
        x.add_(1)
        if step % 10 == 0:
            assert view[0].item() == 11 + step
    assert total.item() == 499500
    assert copied[999].item() == 999
    assert old[0].item() == 50
    w = torch.ones(3, device=DEVICE, requires_grad=True)
    y = w * 2
    z = y.exp()
    saved = z.detach().clone()
    y.mul_(3)
    z.sum().backward()
    assert torch.allclose(w.grad.cpu(), 2 * saved.cpu())
