"""Training steps: every optimizer, schedules, accumulation, scaling, checkpoints; compile counts."""

import inspect

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch.testing._internal.common_optimizers import optim_db
from torch.utils.checkpoint import checkpoint

from tests.jit.support import close, compiles, mlp, pair

# LBFGS takes a closure, see test_lbfgs.py; SparseAdam sparse gradients, see test_sparse.py.
OTHERS = ("LBFGS", "SparseAdam")


def _cases():
    for info in optim_db:
        cls = info.optim_cls
        if cls.__name__ in OTHERS:
            continue
        yield cls, {}
        for impl in ("foreach", "fused"):
            if impl in info.supported_impls:
                yield cls, {impl: True}
        if "foreach" in info.supported_impls:
            yield cls, {"foreach": False}
        if "capturable" in inspect.signature(cls).parameters:
            yield cls, {"capturable": True}


@pytest.mark.parametrize(
    ("cls", "options"),
    list(_cases()),
    ids=lambda p: p.__name__ if isinstance(p, type) else "-".join(map(str, p.items())),
)
def test_twenty_steps_under_a_schedule(cls, options):
    host, device = pair(mlp)
    matrices = cls.__name__ == "Muon"

    def make(m, **kw):
        ps = [p for p in m.parameters() if p.dim() == 2 or not matrices]
        opt = cls(ps, lr=0.02, **kw)
        schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

        def step(x, y):
            opt.zero_grad()
            loss = ((m(x) - y) ** 2).mean()
            loss.backward()
            opt.step()
            return loss

        return step, schedule

    step, schedule = make(host, **{k: v for k, v in options.items() if k != "capturable"})
    traced, schedule2 = make(device, **options)
    traced = tp.jit(traced)
    torch.manual_seed(1)
    start = before = compiles()
    for i in range(20):
        x, y = torch.randn(5, 3), torch.randn(5, 2)
        expected, loss = step(x, y), traced(x.to("pjrt"), y.to("pjrt"))
        schedule.step()
        schedule2.step()
        if i == 2:
            before = compiles()
        close(loss, expected)
    assert traced.cache_info().misses <= 2
    assert compiles() == before
    assert compiles() - start <= traced.cache_info().misses, "one program a trace"
    for p, q in zip(device.parameters(), host.parameters(), strict=True):
        close(p, q)


def test_one_cycle_moves_betas_too():
    host, device = pair(mlp)

    def make(m):
        opt = torch.optim.AdamW(m.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=10)

        def step(x):
            opt.zero_grad()
            m(x).pow(2).mean().backward()
            opt.step()

        return step, schedule

    (a, sa), (b, sb) = make(host), make(device)
    b = tp.jit(b)
    for _ in range(8):
        x = torch.randn(5, 3)
        a(x)
        b(x.to("pjrt"))
        sa.step()
        sb.step()
    for p, q in zip(device.parameters(), host.parameters(), strict=True):
        close(p, q)
    assert b.cache_info().misses == 2


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_zero_grad_both_ways(set_to_none, inside):
    host, device = pair(mlp)

    def make(m):
        opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            if inside:
                opt.zero_grad(set_to_none)
            m(x).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            opt.step()

        return opt, step

    (oa, a), (ob, b) = make(host), make(device)
    b = tp.jit(b)
    for _ in range(5):
        x = torch.randn(5, 3)
        a(x)
        b(x.to("pjrt"))
        for p, q in zip(device.parameters(), host.parameters(), strict=True):
            close(p, q)
            close(p.grad, q.grad)
        if not inside:
            oa.zero_grad(set_to_none)
            ob.zero_grad(set_to_none)
    assert b.cache_info().misses <= 3


def test_a_gradient_that_the_user_keeps_stays():
    _, m = pair(mlp)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)

    @tp.jit
    def step(x):
        opt.zero_grad()
        m(x).pow(2).mean().backward()
        opt.step()

    kept = []
    for _ in range(5):
        step(torch.randn(5, 3).to("pjrt"))
        kept.append((m[0].weight.grad, m[0].weight.grad.cpu()))
    for grad, was in kept:
        close(grad, was)


def test_gradient_accumulation_and_ema():
    host, device = pair(mlp)

    def make(m, wrap):
        opt = torch.optim.SGD(m.parameters(), lr=0.1)
        average = [p.detach().clone() for p in m.parameters()]

        def micro(x):
            m(x).pow(2).mean().backward()

        def update():
            opt.step()
            opt.zero_grad()
            with torch.no_grad():
                for a, p in zip(average, m.parameters(), strict=True):
                    a.lerp_(p, 0.1)

        return wrap(micro), wrap(update), average

    ma, ua, ea = make(host, lambda f: f)
    mb, ub, eb = make(device, tp.jit)
    for _ in range(4):
        for _ in range(3):
            x = torch.randn(2, 3)
            ma(x)
            mb(x.to("pjrt"))
        ua()
        ub()
    for p, q in zip([*device.parameters(), *eb], [*host.parameters(), *ea], strict=True):
        close(p, q)
    assert mb.cache_info().misses <= 3


def test_grad_scaler_skips_infinite_steps():
    host, device = pair(mlp)

    def make(m, kind):
        opt = torch.optim.Adam(m.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(kind, init_scale=16.0)

        def step(x):
            opt.zero_grad()
            loss = m(x).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            return loss

        return step, scaler

    (a, sa), (b, sb) = make(host, "cpu"), make(device, "pjrt")
    b = tp.jit(b)
    for i in range(6):
        x = torch.randn(4, 3)
        if i == 3:
            x = x * float("inf")
        a(x)
        b(x.to("pjrt"))
        for p, q in zip(device.parameters(), host.parameters(), strict=True):
            close(p, q)
        assert sa.get_scale() == sb.get_scale()
    assert b.cache_info().misses <= 3


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_computes_again_and_saves_memory(reentrant):
    torch.manual_seed(0)
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Dropout(0.5), nn.Linear(128, 32)) for _ in range(4)
    ).to("pjrt")
    x = torch.randn(256, 32).to("pjrt")

    def make(saved):
        def step(x):
            h = x.clone().requires_grad_()
            for b in blocks:
                h = checkpoint(b, h, use_reentrant=reentrant) if saved else b(h)
            h.pow(2).mean().backward()
            return h.detach()

        return tp.jit(step)

    found = {}
    for saved in (False, True):
        f = make(saved)
        blocks.zero_grad()
        torch.manual_seed(1)
        out = f(x)
        lowered = f.lower(x)
        memory = lowered.compile().memory_analysis()["temporaries"]
        found[saved] = (out.cpu(), blocks[0][0].weight.grad.cpu(), memory, lowered.as_text().count("dot_general"))
    close(found[True][0], found[False][0])
    close(found[True][1], found[False][1])
    assert found[True][2] < found[False][2]
    assert found[True][3] > found[False][3]


def test_hooks_run():
    _, m = pair(mlp)
    m[0].register_forward_hook(lambda mod, i, o: o * 2)
    m[0].weight.register_hook(lambda g: g * 3)
    x = torch.randn(5, 3).to("pjrt")
    f = tp.jit(lambda x: m(x).pow(2).mean().backward())
    f(x)
    got = m[0].weight.grad.cpu()
    m.zero_grad()
    m(x).pow(2).mean().backward()
    close(got, m[0].weight.grad)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (nn.BatchNorm1d, (5, 4)),
        (nn.SyncBatchNorm, (5, 4)),
        (nn.BatchNorm2d, (5, 4, 3, 2)),
        (nn.BatchNorm3d, (5, 4, 1, 2, 2)),
    ],
    ids=["1d", "sync", "2d", "3d"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_batch_norm_averages_over_all_batches(make, shape, dtype):
    host, device = pair(lambda: nn.Sequential(nn.Identity(), make(4, momentum=None)).to(dtype))
    f = tp.jit(lambda x: device(x))
    for k in range(4):
        x = torch.randn(shape, dtype=dtype) * (k + 1)
        close(f(x), host(x))
    device.eval(), host.eval()
    close(f(x), host(x))
    assert f.cache_info().misses == 2
    for name, t in host.state_dict().items():
        close(device.state_dict()[name], t)
    assert torch.nn.modules.batchnorm._BatchNorm.forward.__module__ == "torch.nn.modules.batchnorm"
