"""Mixed precision: ``torch.autocast("pjrt")`` and GradScaler."""

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE

pytestmark = pytest.mark.skipif(DEVICE != "pjrt", reason="about autocast on pjrt")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_policies(dtype):
    x = torch.randn(4, 4, device=DEVICE)
    conv = torch.nn.Conv2d(1, 2, 3).to(DEVICE)
    with torch.autocast("pjrt", dtype=dtype):
        low = [x @ x, F.linear(x, x), conv(x[None, None]), torch.bmm(x[None], x[None]), torch.einsum("ij,jk", x, x)]
        low.append(F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]))
        half = x @ x
        wide = [half.exp(), F.softmax(half, -1), half.sum(), F.layer_norm(half, (4,)), F.mse_loss(half, half)]
        wide += [F.cross_entropy(half, torch.tensor([0, 1, 2, 3], device=DEVICE)), half.pow(2), half.float() + half]
        wide.append(torch.cat([half, x]))
        kept = [half + half, F.relu(half), half * 2]
        untouched = [x.double() @ x.double(), torch.ones(2, 2, dtype=torch.int64, device=DEVICE) + 1]
    assert {t.dtype for t in low + kept} == {dtype}
    assert {t.dtype for t in wide} == {torch.float32}
    assert [t.dtype for t in untouched] == [torch.float64, torch.int64]
    assert (x @ x).dtype == torch.float32


def test_training_under_autocast_follows_cpu_autocast():
    def run(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 2)).to(device)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.linspace(-1, 1, 64).reshape(8, 8).to(device)
        target = torch.arange(8).remainder(2).to(device)
        losses = []
        for _ in range(5):
            opt.zero_grad()
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x), target)
            loss.backward()
            assert all(p.grad.dtype == torch.float32 for p in net.parameters())
            opt.step()
            losses.append(loss.item())
        return losses

    assert run(DEVICE) == pytest.approx(run("cpu"), rel=3e-2)


def test_a_weight_is_cast_once_and_gets_its_gradient():
    w = torch.randn(4, 4, device=DEVICE, requires_grad=True)
    x = torch.ones(2, 4, device=DEVICE)
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        with torch.no_grad():
            x @ w
        y = (x @ w).sum() + (x @ w).sum()
    y.backward()
    assert w.grad.cpu().tolist() == [[4.0] * 4] * 4
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        before = (x @ w).sum().item()
        with torch.no_grad():
            w.zero_()
        assert (x @ w).sum().item() == 0 != before, "a changed weight is cast again"


def test_autocast_can_be_left_inside_and_refuses_what_torch_refuses():
    x = torch.rand(2, 2, device=DEVICE)
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        with torch.autocast("pjrt", enabled=False):
            assert (x @ x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            F.binary_cross_entropy(x, x)
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("pjrt", dtype=torch.float64):
        assert (x @ x).dtype == torch.float32


def test_grad_scaler_skips_steps_that_overflow():
    scaler = torch.amp.GradScaler("pjrt", init_scale=8.0, growth_interval=1)
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0], device=DEVICE))
    opt = torch.optim.SGD([w], lr=0.5)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(opt)
    assert w.grad.cpu().tolist() == [1.0, 1.0]
    scaler.step(opt)
    scaler.update()
    assert w.tolist() == [0.5, 1.5]
    assert scaler.get_scale() == 16.0
    opt.zero_grad()
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(opt)
    scaler.update()
    assert w.tolist() == [0.5, 1.5], "the step with infinite gradients is skipped"
    assert scaler.get_scale() == 8.0
