"""Shapes, dtypes and values at their edges. See ``tests/cases``."""

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, check

pytestmark = pytest.mark.usefixtures("mode")


@pytest.mark.parametrize("shape", [(16, 0), (0, 3), (0,), (2, 0, 3), (0, 0)])
def test_zero_size(shape):
    def case(device):
        x = torch.ones(shape, device=device)
        flat = [x.flatten(), x.flatten(0, -2) if x.dim() > 1 else x, x.reshape(-1), x.t() if x.dim() < 3 else x.mT]
        sums = [x.sum(d) for d in range(x.dim())] + [x.prod(), x.sum(), x.mean()]
        return *flat, *sums, torch.cat([x, x]), x + x, x.any(), x.all(), torch.empty_like(x), x.sort().values

    check(case)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.float32, torch.float64])
def test_python_number_on_the_left(dtype):
    def case(device):
        b = torch.tensor([1, 2, 3, 100], dtype=dtype, device=device)
        return 2 // b, 7 % b, 2 ** (b % 4), 1 - b, 5 / b, b < 3, 7 // b.clone().fill_(2), torch.rsub(b, 2, alpha=3)

    check(case)


def test_floor_division_and_remainder_round_down():
    def case(device):
        a = torch.tensor([7, -7, 7, -7, 0], device=device)
        b = torch.tensor([2, 2, -2, -2, 5], device=device)
        out = []
        for x, y in ((a, b), (a.float() / 3, b.float()), (a.double(), b)):
            out += [x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x / y]
        return out

    check(case)


def test_a_cpu_scalar_tensor_mixes_in():
    def case(device):
        a = torch.arange(6.0, device=device)
        s = torch.tensor(-1.0)
        out = [a.masked_fill(a > 2, s), torch.where(a > 2, a, torch.tensor(9.0)), a + s, s * a, a.add(s, alpha=2)]
        a.add_(torch.tensor(2.0, dtype=torch.float64))
        a[1] = torch.tensor(5)
        return *out, a, torch.maximum(a, torch.tensor(3.0))

    check(case)


@pytest.mark.parametrize(
    "op", [torch.add, torch.mul, torch.matmul, lambda a, b: torch.cat([a, b]), lambda a, b: torch.where(a > 0, a, b)]
)
def test_mixed_devices_are_an_error(op):
    check(lambda device: op(torch.ones(2, device=device), torch.ones(2, device="meta")).cpu())


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a second device")
@pytest.mark.parametrize("op", [torch.add, torch.matmul, lambda a, b: torch.cat([a, b])])
def test_a_cpu_tensor_with_a_device_tensor_is_an_error(op):
    x = torch.ones(2, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"(?i)device"):
        op(x, torch.ones(2)).cpu()
    assert x.cpu().tolist() == [1, 1]


def test_integer_and_bool_promotion():
    values = {
        torch.bool: [True, False, True],
        torch.uint8: [1, 2, 255],
        torch.int8: [1, -2, 3],
        torch.int16: [5, -6, 7],
        torch.int32: [8, 9, -10],
        torch.int64: [11, -12, 13],
        torch.float16: [0.5, -1.5, 2.0],
        torch.bfloat16: [0.5, -1.5, 2.0],
        torch.float32: [0.1, 1.2, -2.3],
        torch.float64: [0.1, 1.2, -2.3],
    }

    def case(device):
        out = []
        tensors = [torch.tensor(v, dtype=d, device=device) for d, v in values.items()]
        for a in tensors:
            out += [a.sum(), a + 1, a * 2.5, a / 2, (a == 1).sum(), a.float().mean()]
            out += (
                [a + b for b in tensors] + [a * b.sum() for b in tensors] + [torch.where(a > 0, a, b) for b in tensors]
            )
        return out

    check(case)


def test_huge_and_tiny_values_survive():
    def case(device):
        x = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e-40, 3e38, -0.0], device=device)
        return (
            torch.softmax(torch.tensor([1e4, 1e4 - 1, -1e4], device=device), 0),
            torch.log_softmax(torch.tensor([1e4, 1e4 - 1, -1e4], device=device), 0),
            x * 2,
            torch.logsumexp(x[3:], 0),
            torch.logsumexp(torch.tensor([-float("inf")] * 2, device=device), 0),
            x.isnan(),
            x.isinf(),
            torch.nan_to_num(x),
            x[[0, 1, 2, 4, 5]].sign(),  # XLA's CPU compares a subnormal as zero
            torch.signbit(x),
            torch.maximum(x, x.flip(0)),
            F.relu(x),
            x.clamp(-1, 1),
            torch.sigmoid(torch.tensor([-200.0, 200.0, 0.0], device=device)),
            F.softplus(torch.tensor([-200.0, 200.0, 0.0], device=device)),
        )

    check(case)


def test_ties_and_stability():
    def case(device):
        x = torch.tensor([[3.0, 1, 3, 2, 3], [0, 0, 0, 0, 0]], device=device)
        out = [x.argmax(), x.argmax(1), x.argmin(1), x.sort(stable=True).indices, x.topk(2).values, x.median()]
        out += [x.sort(dim=0, stable=True, descending=True).indices, *x.cummax(1), *x.cummin(1), *x.max(1), *x.min(1)]
        out += [x.median(1).values, x.mode(1).values, x.kthvalue(2, 1).values]
        nan = torch.tensor([1.0, float("nan"), 2.0], device=device)
        return *out, nan.argmax(), nan.max(), nan.sort().values, nan.cummax(0).values

    check(case)


@pytest.mark.untraceable("the shape of a result depends on values")
def test_unique_of_ties():
    check(lambda device: torch.tensor([[3.0, 1, 3, 2, 3], [0, 0, 0, 0, 0]], device=device).unique())


def test_copy_broadcasts_and_converts():
    def case(device):
        x = torch.zeros(2, 3, device=device)
        x.copy_(torch.tensor(2, device=device))
        y = torch.zeros(2, 3, dtype=torch.int32, device=device)
        y.copy_(x + 0.7)
        z = torch.zeros(3, device=device).copy_(torch.arange(3))
        w = torch.zeros(2, 3, device=device)
        w.t().copy_(torch.arange(3.0).unsqueeze(1))
        b = torch.zeros(3, dtype=torch.bool, device=device).copy_(torch.tensor([0.5, 0.0, -2.0], device=device))
        return x, y, z, w, b, torch.tensor([-1.9, 1.9, 300.0], device=device).to(torch.int64)

    check(case)
