"""``torch.optim.LBFGS`` inside jit: its loops, early ends and line search are in the program; its state is torch's."""

import copy
import io
import pickle

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch.testing._internal.common_optimizers import optim_db

from tests.jit.support import close, compiles, equal

SEARCHES = [None, "strong_wolfe"]
INPUTS = next(info for info in optim_db if info.optim_cls is torch.optim.LBFGS).optim_inputs_func(device="cpu")


def net(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(dtype)


def trainer(module, maximize=False, prepare=lambda: None, **options):
    """An optimizer and an ordinary step with it."""
    opt = torch.optim.LBFGS(module.parameters(), maximize=maximize, **options)

    def step(x, y):
        def closure():
            opt.zero_grad()
            loss = ((module(x) - y) ** 2).mean() + sum(1e-2 * p.pow(2).sum() for p in module.parameters())
            loss = -loss if maximize else loss
            loss.backward()
            prepare()
            return loss

        return opt.step(closure)

    return opt, step


def data(dtype=torch.float64):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(16, 3, dtype=torch.float64, generator=g)
    return x.to(dtype), torch.stack([x.sum(1).sin(), x[:, 0]], 1).to(dtype)


def assert_same(device, host, compare=close):
    for p, q in zip(device.parameters(), host.parameters(), strict=True):
        compare(p, q)


def counts(opt):
    state = opt.state_dict()["state"][0]
    return state["n_iter"], state["func_evals"], len(state.get("old_dirs", ()))


def grown(actual, expected):
    close(actual, expected, grown=True)


def assert_same_state(actual, expected):
    actual, expected = (o.state_dict()["state"][0] for o in (actual, expected))
    assert list(actual) and set(actual) == set(expected)
    for name, value in expected.items():
        pairs = zip(actual[name], value, strict=True) if isinstance(value, list) else [(actual[name], value)]
        for a, b in pairs:
            assert (a is None) == (b is None), name
            if b is not None:
                grown(torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64))


@pytest.mark.parametrize("case", range(len(INPUTS)), ids=lambda i: INPUTS[i].desc)
def test_twenty_steps_under_a_schedule(case):
    host = net()
    device = copy.deepcopy(host).to("pjrt")
    x, y = data()
    runs = []
    for module in (host, device):
        options = {"max_iter": 4, "lr": 0.1} | copy.deepcopy(INPUTS[case].kwargs)
        opt, step = trainer(module, **options)
        runs.append((opt, step, torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)))
    (o1, eager, s1), (o2, step, s2) = runs
    traced = tp.jit(step)
    before = compiles()
    for i in range(20):
        expected, loss = eager(x, y), traced(x.to("pjrt"), y.to("pjrt"))
        s1.step()
        s2.step()
        if i == 2:
            before = compiles()
        close(loss, expected)
    assert traced.cache_info().misses == 2
    assert compiles() == before
    assert_same(device, host)
    assert_same_state(o2, o1)


@pytest.mark.parametrize("search", SEARCHES)
def test_float32_and_a_history_that_is_too_short(search):
    # Rounding is the device's own: in float32 it shows after few steps.
    host = net(torch.float32).to("pjrt")
    device = copy.deepcopy(host)
    x, y = (t.to("pjrt") for t in data(torch.float32))
    options = {"max_iter": 3, "history_size": 3, "lr": 0.3, "line_search_fn": search}
    (o1, eager), (o2, step) = trainer(host, **options), trainer(device, **options)
    traced = tp.jit(step)
    for _ in range(4):
        grown(traced(x, y), eager(x, y))
    assert counts(o2) == counts(o1)
    assert counts(o2)[2] == 3
    assert_same(device, host, grown)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    "ends",
    [{"tolerance_grad": 1e-2}, {"tolerance_change": 1e-2}, {"max_eval": 7}, {"max_iter": 1}, {"max_iter": 0}],
    ids=str,
)
def test_every_way_to_end(search, ends):
    host = net()
    device = copy.deepcopy(host).to("pjrt")
    x, y = data()
    options = {"max_iter": 30, "lr": 0.5, "history_size": 5, "line_search_fn": search} | ends
    (o1, eager), (o2, step) = trainer(host, **options), trainer(device, **options)
    traced = tp.jit(step)
    for _ in range(3):
        close(traced(x.to("pjrt"), y.to("pjrt")), eager(x, y))
        assert_same(device, host)
        for p, q in zip(device.parameters(), host.parameters(), strict=True):
            close(p.grad, q.grad)
        if ends != {"max_iter": 0}:
            assert counts(o2) == counts(o1)


def test_a_converged_optimizer_evaluates_once_and_stays():
    host = net()
    device = copy.deepcopy(host).to("pjrt")
    x, y = data()
    (o1, eager), (o2, step) = (trainer(m, tolerance_grad=1e9) for m in (host, device))
    traced = tp.jit(step)
    for i in range(3):
        eager(x, y)
        traced(x.to("pjrt"), y.to("pjrt"))
        assert counts(o2) == counts(o1) == (0, i + 1, 0)
        assert o2.state_dict()["state"][0] == o1.state_dict()["state"][0]
    assert_same(device, host, equal)


@pytest.mark.parametrize("search", SEARCHES)
def test_rosenbrock(search):
    def make(device):
        w = nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64).to(device))
        opt = torch.optim.LBFGS([w], lr=1e-3 if search is None else 1.0, max_iter=5, line_search_fn=search)

        def closure():
            opt.zero_grad()
            loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
            loss.backward()
            return loss

        return w, opt, lambda: opt.step(closure)

    (a, o1, eager), (b, o2, step) = make("cpu"), make("pjrt")
    step = tp.jit(step)
    for _ in range(5):
        eager()
        step()
        grown(b, a)
        assert counts(o2) == counts(o1)


@pytest.mark.parametrize("search", SEARCHES)
def test_eager_and_jit_steps_take_turns(search):
    one = net().to("pjrt")
    other = copy.deepcopy(one)
    x, y = (t.to("pjrt") for t in data())
    options = {"max_iter": 3, "history_size": 4, "lr": 0.3, "line_search_fn": search}
    (o1, eager), (o2, step) = trainer(one, **options), trainer(other, **options)
    traced = tp.jit(step)
    for kind in "eejjejeejjj":
        close((traced if kind == "j" else step)(x, y), eager(x, y))
    assert_same(other, one)
    assert_same_state(o2, o1)
    assert traced.cache_info().misses <= 2


def test_state_is_saved_loaded_and_looked_at():
    one = net().to("pjrt")
    x, y = (t.to("pjrt") for t in data())
    options = {"max_iter": 3, "lr": 0.3}
    opt, step = trainer(one, **options)
    traced = tp.jit(step)
    for _ in range(2):
        traced(x, y)
    file = io.BytesIO()
    torch.save({"optimizer": opt.state_dict(), "model": one.state_dict()}, file)
    saved = opt.state_dict()
    before = copy.deepcopy(saved)
    for _ in range(2):
        traced(x, y)
    assert saved["state"][0]["n_iter"] == before["state"][0]["n_iter"] == 4
    assert opt.state[opt.param_groups[0]["params"][0]]["n_iter"] == 8
    assert next(iter(copy.deepcopy(opt.state).values()))["n_iter"] == 8
    expected = [p.detach().cpu() for p in one.parameters()]

    file.seek(0)
    loaded = torch.load(file, weights_only=True, map_location="cpu")
    for device in ("cpu", "pjrt"):
        model = net().to(device)
        model.load_state_dict(loaded["model"])
        fresh, again = trainer(model, **options)
        # torch's optimizer on the CPU goes on with the very tensors that it is given.
        fresh.load_state_dict(copy.deepcopy(loaded["optimizer"]))
        again = tp.jit(again) if device == "pjrt" else again
        for _ in range(2):
            again(x.to(device), y.to(device))
        for p, q in zip(model.parameters(), expected, strict=True):
            close(p, q)
        assert counts(fresh) == counts(opt)
    # Back in the optimizer that went on meanwhile.
    one.load_state_dict(loaded["model"])
    opt.load_state_dict(before)
    for _ in range(2):
        traced(x, y)
    for p, q in zip(one.parameters(), expected, strict=True):
        close(p, q)


def test_lowering_changes_nothing():
    one = net().to("pjrt")
    x, y = (t.to("pjrt") for t in data())
    opt, step = trainer(one, max_iter=2)
    before = [p.detach().cpu() for p in one.parameters()]
    compiled = tp.jit(step).lower(x, y).compile()
    assert not opt.state_dict()["state"].get(0)
    for p, q in zip(one.parameters(), before, strict=True):
        equal(p, q)
        assert p.grad is None
    compiled(x, y)
    assert counts(opt)[:2] == (1, 2)


@pytest.mark.parametrize("search", SEARCHES)
def test_dropout_batch_norm_and_clipping_in_the_closure(search):
    torch.manual_seed(0)
    one = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 2)).double()
    one = one.to("pjrt")
    other = copy.deepcopy(one)
    x, y = (t.to("pjrt") for t in data())
    options = {"max_iter": 3, "lr": 0.05, "line_search_fn": search}
    found = []
    for module, wrap in ((one, lambda f: f), (other, tp.jit)):
        parameters = list(module.parameters())
        opt, step = trainer(module, prepare=lambda p=parameters: nn.utils.clip_grad_norm_(p, 0.5), **options)
        step = wrap(step)
        torch.manual_seed(5)
        losses = [step(x, y).cpu() for _ in range(3)]
        found.append((losses, torch.rand(3, device="pjrt").cpu(), counts(opt), list(module.buffers())))
    (l1, r1, c1, b1), (l2, r2, c2, b2) = found
    for a, b in zip(l2, l1, strict=True):
        close(a, b)
    assert c2 == c1
    assert torch.equal(r2, r1), "the random state went another way"
    for a, b in zip(b2, b1, strict=True):
        grown(a, b)
    assert_same(other, one, grown)


def test_numbers_are_inputs():
    one = net().to("pjrt")
    other = copy.deepcopy(one)
    x, y = (t.to("pjrt") for t in data())
    (o1, eager), (o2, step) = trainer(one, max_iter=3), trainer(other, max_iter=3)
    traced = tp.jit(step)
    for lr, grad, change in (
        (0.5, 1e-7, 1e-9),
        (0.3, 1e-7, 1e-9),
        (0.2, 1e-7, 0.05),
        (0.1, 1e-6, 1e-9),
        (0.4, 9.0, 0.1),
    ):
        for opt in (o1, o2):
            opt.param_groups[0].update(lr=lr, tolerance_grad=grad, tolerance_change=change)
        eager(x, y)
        traced(x, y)
        assert counts(o2) == counts(o1)
    assert_same(other, one)
    assert traced.cache_info().misses == 2
    o2.param_groups[0]["max_iter"] = o1.param_groups[0]["max_iter"] = 2
    eager(x, y)
    traced(x, y)
    assert_same(other, one)
    assert traced.cache_info().misses == 3


def test_the_state_is_pickled_and_copied():
    one = net().to("pjrt")
    x, y = (t.to("pjrt") for t in data())
    opt, step = trainer(one, max_iter=3)
    traced = tp.jit(step)
    for _ in range(2):
        traced(x, y)
    states = [copy.copy(opt.state), copy.deepcopy(opt.state)]
    traced(x, y)
    states.append(pickle.loads(pickle.dumps(opt.state)))
    # A shallow copy has the optimizer's own dict, as in torch.
    for state, steps in zip(states, (6, 4, 6), strict=True):
        (plain,) = state.values()
        assert dict(plain)["n_iter"] == len(plain["old_dirs"]) + 1 == steps
    assert repr(opt.state).count("old_dirs") == 1
