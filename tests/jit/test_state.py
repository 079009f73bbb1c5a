"""State is read at each call and written back; nothing is stale."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(2, 3).to("pjrt")


@pytest.fixture
def lin():
    torch.manual_seed(0)
    return nn.Linear(3, 3).to("pjrt").requires_grad_(False)


CHANGES = {
    "data": lambda m: setattr(m.weight, "data", torch.full((3, 3), 0.5).to("pjrt")),
    "parameter": lambda m: setattr(m, "weight", nn.Parameter(torch.ones(3, 3).to("pjrt"), requires_grad=False)),
    "load_state_dict": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "in place": lambda m: m.weight.mul_(2),
    "bias removed": lambda m: setattr(m, "bias", None),
    "hook": lambda m: m.register_forward_hook(lambda m, i, o: o + 1),
    "forward replaced": lambda m: setattr(m, "forward", lambda x: x),
    "dtype": lambda m: m.double(),
    "there and back": lambda m: m.cpu().to("pjrt"),
    "tied": lambda m: setattr(m, "bias", nn.Parameter(m.weight[0], requires_grad=False)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_module_are_seen(lin, x, change):
    f = tp.jit(lambda x: lin(x.to(lin.weight.dtype)) * 2)
    for _ in range(2):
        close(f(x), lin(x) * 2)
    CHANGES[change](lin)
    for _ in range(2):
        close(f(x), lin(x.to(lin.weight.dtype)) * 2)


def test_a_new_value_needs_no_new_trace(lin, x):
    f = tp.jit(lambda x: lin(x))
    f(x)
    for change in ("data", "parameter", "load_state_dict", "in place", "there and back"):
        CHANGES[change](lin)
        close(f(x), lin(x))
    assert f.cache_info().misses == 1


def test_modes_are_part_of_the_key(x):
    m = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)).to("pjrt")
    f = tp.jit(m)
    f(x)
    m.eval()
    close(f(x), m(x))
    assert "training is False, was True" in f.cache_info().reasons[-1]
    with torch.autocast("pjrt", dtype=torch.bfloat16):
        assert f(x).dtype == m(x).dtype
    torch.set_float32_matmul_precision("medium")
    try:
        f(x)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert f.cache_info().misses == 4


def test_random_numbers_differ_by_call_and_equal_eager(x):
    m = nn.Dropout(0.5)
    f = tp.jit(lambda x: m(x) + torch.rand_like(x))
    torch.manual_seed(0)
    traced = [f(x) for _ in range(3)]
    torch.manual_seed(0)
    for a in traced:
        close(a, m(x) + torch.rand_like(x))
    assert not torch.equal(traced[0].cpu(), traced[1].cpu())


def test_batch_norm_statistics_are_written_back(x):
    a, b = nn.BatchNorm1d(3).to("pjrt"), nn.BatchNorm1d(3).to("pjrt")
    f = tp.jit(a)
    for _ in range(3):
        close(f(x), b(x))
    for p, q in zip(a.buffers(), b.buffers(), strict=True):
        close(p, q)


def test_writes_through_views_reach_the_base():
    base = torch.zeros(4, 4).to("pjrt")
    rows = base[1:3]

    @tp.jit
    def f(x):
        rows.add_(1)
        base[:, 0] = x
        return base.t(), rows

    expected = torch.zeros(4, 4)
    for i in range(3):
        t, same = f(torch.full((4,), float(i)).to("pjrt"))
        expected[1:3].add_(1)
        expected[:, 0] = float(i)
        close(base, expected)
        close(t, expected.t())
        assert same is rows
    t.add_(1)
    close(base, expected + 1)


def test_tied_weights_stay_tied(x):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    m = Tied().to("pjrt")
    assert m.a.weight is m.b.weight
    opt = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        m(x).pow(2).mean().backward()
        opt.step()

    f = tp.jit(step)
    for _ in range(3):
        f(x)
    assert m.a.weight is m.b.weight
    with torch.no_grad():
        g = tp.jit(m)
        g(x)
        m.b.weight = nn.Parameter(m.a.weight.detach().clone() + 1)
        close(g(x), m(x))


def test_attributes_that_the_function_assigns(x):
    class Holder:
        last = None

    h = Holder()
    h.last = torch.zeros(2, 3).to("pjrt")

    @tp.jit
    def f(x):
        h.last = h.last * 0.5 + x
        return h.last.sum()

    expected = torch.zeros(2, 3)
    kept = []
    for _ in range(4):
        total = f(x)
        expected = expected * 0.5 + x.cpu()
        close(h.last, expected)
        close(total, expected.sum())
        kept.append((h.last, expected.clone()))
    for value, was in kept:
        close(value, was)
    assert f.cache_info().misses == 1


def test_an_exception_leaves_everything_as_it_was(x):
    w = nn.Parameter(torch.ones(3).to("pjrt"))
    items = [1]

    def f(x):
        with torch.no_grad():
            w.add_(1)
        (w * x).sum().backward()
        items.append(2)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        tp.jit(f)(x)
    close(w, torch.ones(3))
    assert w.grad is None
    assert items == [1]


def test_an_index_out_of_range_leaves_the_state_as_it_was():
    table, total = nn.Embedding(5, 2).to("pjrt"), torch.zeros(2).to("pjrt")

    @tp.jit
    def f(i):
        total.add_(table(i).sum(0).detach())

    f(torch.tensor([1, 2]).to("pjrt"))
    before = total.cpu()
    with pytest.raises(IndexError, match=r"out of range.*test_state\.py"):
        f(torch.tensor([1, 9]).to("pjrt"))
        tp.synchronize()
    close(total, before)


def test_dropped_functions_free_their_state():
    import gc
    import weakref

    class Owner:
        def __init__(self):
            self.w = torch.ones(1000).to("pjrt")
            self.step = tp.jit(self.run)

        def run(self, x):
            return self.w * x

    owner = Owner()
    owner.step(torch.ones(1000).to("pjrt"))
    gone, buffers = weakref.ref(owner), tp.live_buffers()
    del owner
    gc.collect()
    assert gone() is None
    assert tp.live_buffers() < buffers


WRITES = {
    "parameter": lambda w, buffer: w.add_(1),
    "through a view": lambda w, buffer: w[0].mul_(2),
    "copy": lambda w, buffer: w.copy_(buffer),
}


@pytest.mark.parametrize("write", WRITES)
def test_autograd_sees_writes_of_a_program(write):
    w, buffer, y = (torch.ones(3).to("pjrt") for _ in range(3))
    y.requires_grad_()

    def f():
        WRITES[write](w, buffer)
        return buffer.sum()

    f = tp.jit(f)
    for _ in range(3):
        before = w._version, buffer._version
        out = (w * y).sum()
        f()
        assert (w._version > before[0], buffer._version) == (True, before[1])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_autograd_sees_the_steps_of_an_optimizer(x):
    m = nn.Linear(3, 3).to("pjrt")
    opt = torch.optim.Adam(m.parameters(), lr=0.1)

    @tp.jit
    def step(x):
        opt.zero_grad()
        m(x).pow(2).mean().backward()
        opt.step()

    for _ in range(4):
        loss = m(m(x)).sum()
        step(x)
        assert m.weight._version > 0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_lowering_leaves_the_versions(x):
    w = torch.ones(3).to("pjrt")
    before = w._version
    tp.jit(lambda: w.add_(1)).lower()
    assert w._version == before
