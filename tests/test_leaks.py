"""Nothing accumulates: buffers die with their tensors, and memory stays flat over 100,000 ops."""

import contextlib
import gc

import pytest
import torch

from tests.support import DEVICE


def resident_kib() -> int:
    """Resident memory of this process."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def live() -> int:
    if DEVICE == "cpu":
        return 0
    import torch_pjrt as tp

    gc.collect()
    tp.synchronize()
    torch.pjrt.empty_cache()  # a bounded number of Python numbers is kept on the device
    return tp.live_buffers()


def a_hundred_ops(x, w, i):
    y = x
    for _ in range(12):
        y = (y * w).add_(i * 1e-6).t().reshape(4, 4)[:, 1:].sum(1, keepdim=True) * 0.25 + x.detach()
        y = y.expand(4, 4).clone()
        y[0] = i
    y.sum().backward()
    w.grad = None


def test_a_hundred_thousand_ops_leave_no_buffer_and_no_memory():
    x = torch.ones(4, 4, device=DEVICE)
    w = torch.full((4, 4), 0.5, device=DEVICE, requires_grad=True)
    for i in range(100):
        a_hundred_ops(x, w, i)
    buffers, memory = live(), resident_kib()
    for i in range(900):
        a_hundred_ops(x, w, i)
    assert live() <= buffers + 2
    assert resident_kib() - memory < 20_000, "KiB more after 90,000 further ops"


@pytest.mark.skipif(DEVICE == "cpu", reason="counts the device's buffers")
def test_every_way_to_drop_a_tensor_frees_its_buffer():
    before = live()
    x = torch.ones(64, device=DEVICE)
    views = [x[i:] for i in range(8)]
    parameter = torch.nn.Parameter(x.clone())
    parameter.data = x
    (parameter * 2).sum().backward()
    with contextlib.suppress(RuntimeError):
        x + torch.ones(7, device=DEVICE)
    cycle = [x]
    cycle.append(cycle)
    del x, views, parameter, cycle
    assert live() <= before + 1
