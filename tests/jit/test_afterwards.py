"""Numbers that the function itself changes, schedules that it steps: they go on at every call, without a new trace."""

import queue
import types

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch.optim import lr_scheduler as schedules

from tests.jit.support import close, mlp, pair

SCHEDULES = {
    "StepLR": lambda o: schedules.StepLR(o, 2),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [1, 4]),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda i: 1 / (i + 1)),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda i: 0.95),
    "ConstantLR": lambda o: schedules.ConstantLR(o, total_iters=3),
    "LinearLR": lambda o: schedules.LinearLR(o, total_iters=4),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 8),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 3),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=9),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.01, 0.1, step_size_up=2, cycle_momentum=False),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, total_iters=3), schedules.CosineAnnealingLR(o, 5)], [3]
    ),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ExponentialLR(o, 0.9), schedules.ConstantLR(o, total_iters=2)]
    ),
}


def _agree(make, calls=8, misses=2):
    """Runs the step that ``make(model, wrap)`` gives on the host and traced on the device."""
    host, device = pair(mlp)
    step, state = make(host, lambda f: f)
    traced, state2 = make(device, tp.jit)
    for i in range(calls):
        torch.manual_seed(i)
        x = torch.randn(5, 3)
        for a, b in zip(traced(x.to("pjrt"), i), step(x, i), strict=True):
            if isinstance(b, torch.Tensor):
                close(a, b, 2e-5)
            else:
                assert a == pytest.approx(b)
        for p, q in zip(device.parameters(), host.parameters(), strict=True):
            close(p, q, 2e-5)
        assert state2() == pytest.approx(state())
    return traced


def _training(model, opt, x):
    opt.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    opt.step()
    return loss


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_inside(name):
    steps = []

    def make(model, wrap):
        opt = torch.optim.AdamW(model.parameters(), lr=0.02)
        schedule = SCHEDULES[name](opt)

        @wrap
        def step(x):
            before = schedule.get_last_lr() if name != "ChainedScheduler" else None
            loss = _training(model, opt, x)
            schedule.step()
            return loss, *(before or ())

        steps.append(step)
        return lambda x, i: step(x), lambda: [opt.param_groups[0]["lr"], *opt.param_groups[0]["betas"]]

    _agree(make)
    assert steps[-1].cache_info().misses <= 3


def _assigned(model, wrap):
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @wrap
    def step(x, lr):
        for group in opt.param_groups:
            group["lr"] = lr * 0.5
        return (_training(model, opt, x),)

    step_of = lambda x, i: step(x, 0.02 * (i + 1))
    return step_of, lambda: [opt.param_groups[0]["lr"]]


def _multiplied(model, wrap):
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @wrap
    def step(x):
        loss = _training(model, opt, x)
        opt.param_groups[0]["lr"] *= 0.9
        opt.param_groups[0]["momentum"] = 0.5
        return (loss,)

    return lambda x, i: step(x), lambda: [opt.param_groups[0]["lr"], opt.param_groups[0]["momentum"]]


def _tuple_assigned(model, wrap):
    opt = torch.optim.AdamW(model.parameters(), lr=0.1)

    @wrap
    def step(x):
        group = opt.param_groups[0]
        group["betas"] = (group["betas"][0] * 0.9, group["betas"][1])
        return (_training(model, opt, x),)

    return lambda x, i: step(x), lambda: list(opt.param_groups[0]["betas"])


def _annealed_outside(model, wrap):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    here = types.SimpleNamespace(beta=1.0)
    weights = {"l2": 0.5}
    temperature = 2.0

    @wrap
    def step(x):
        loss = (model(x) / temperature).pow(2).mean() * here.beta + weights["l2"] * model[0].weight.pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return (loss,)

    def call(x, i):
        nonlocal temperature
        out = step(x)
        here.beta *= 0.9
        weights["l2"] += 0.1
        temperature += 0.5
        return out

    return call, lambda: [here.beta, weights["l2"], temperature]


def _annealed_inside(model, wrap):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model.beta = 1.0

    @wrap
    def step(x):
        loss = model(x).pow(2).mean() * model.beta
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.beta = model.beta * 0.9 + 0.01
        return loss, model.beta

    return lambda x, i: step(x), lambda: [model.beta]


NUMBERS = {
    "assigned": _assigned,
    "multiplied": _multiplied,
    "tuple": _tuple_assigned,
    "outside": _annealed_outside,
    "inside": _annealed_inside,
}


def _agree_with_few_traces(case):
    wrapped = []

    def make(model, wrap):
        def keep(f):
            wrapped.append(wrap(f))
            return wrapped[-1]

        return case(model, keep)

    _agree(make)
    assert wrapped[-1].cache_info().misses <= 3


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_change(name):
    _agree_with_few_traces(NUMBERS[name])


def _moving_average(model, wrap):
    class Average:
        def __init__(self):
            self.decay, self.updates = 0.999, 0
            self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

        @torch.no_grad()
        def update(self):
            self.updates += 1
            decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
            for k, v in model.state_dict().items():
                self.shadow[k].mul_(decay).add_(v, alpha=1 - decay)

    opt, average = torch.optim.Adam(model.parameters(), lr=0.01), Average()

    @wrap
    def step(x):
        loss = _training(model, opt, x)
        average.update()
        return loss, *average.shadow.values()

    return lambda x, i: step(x), lambda: [average.updates]


def _counted(model, wrap):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    here = types.SimpleNamespace(steps=0, samples=-5, total=0.0)

    @wrap
    def step(x):
        here.steps += 1
        here.samples = here.samples + 2 * x.shape[0]
        here.total = here.total + 0.5 * here.steps
        assert isinstance(here.steps, int)
        return _training(model, opt, x) + here.steps, here.steps, here.total

    return lambda x, i: step(x), lambda: [here.steps, here.samples, here.total]


def _bias_correction(model, wrap):
    class Adam(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.01, "betas": (0.9, 0.99)})

        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                b1, b2 = group["betas"]
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                    state["step"] += 1
                    state["m"].lerp_(p.grad, 1 - b1)
                    state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                    first, second = 1 - b1 ** state["step"], 1 - b2 ** state["step"]
                    p.addcdiv_(state["m"], (state["v"] / second).sqrt_().add_(1e-8), value=-group["lr"] / first)

    opt = Adam(model.parameters())

    @wrap
    def step(x):
        return (_training(model, opt, x),)

    return lambda x, i: step(x), lambda: [s["step"] for s in opt.state.values()]


def _asked_for_outside(model, wrap):
    here = types.SimpleNamespace(rows=2)

    @wrap
    def step(x):
        rows = [x[i] for i in range(here.rows)]
        return torch.stack(rows), x[: here.rows], x.new_zeros(here.rows, 2), [0] * here.rows

    def call(x, i):
        here.rows = 1 + i % 2
        *tensors, zeros = step(x)
        return *tensors, len(zeros)

    return call, lambda: [here.rows]


COUNTS = {
    "moving average": _moving_average,
    "counted": _counted,
    "bias correction": _bias_correction,
    "asked for": _asked_for_outside,
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_change(name):
    _agree_with_few_traces(COUNTS[name])


def test_a_count_whose_value_is_asked_for_is_refused():
    here = types.SimpleNamespace(n=0)

    @tp.jit
    def f(x):
        here.n += 1
        return x if here.n % 2 else x * 2

    x = torch.ones(2).to("pjrt")
    with pytest.raises(tp.JitError, match=r"here\.n is changed by the function at every call.*asked for.*Way out"):
        for i in range(4):
            close(f(x), torch.ones(2) * (1 if i % 2 == 0 else 2))
    assert i == here.n == 2


def test_counts_are_ints_again_after_the_trace():
    here = types.SimpleNamespace(n=0)
    kept = queue.SimpleQueue()

    @tp.jit
    def f(x):
        here.n += 1
        kept.put(here.n)
        return x + here.n

    x = torch.zeros(2).to("pjrt")
    for i in range(4):
        close(f(x), torch.full((2,), i + 1.0))
    assert type(here.n) is int
    assert [kept.get() * 2 + 1 for _ in range(kept.qsize())] == [3, 5]


def _problem():
    model = mlp().to("pjrt")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, opt, torch.ones(2, 3).to("pjrt")


def test_what_comes_after_a_schedule_is_refused():
    model, opt, x = _problem()
    schedule = schedules.ExponentialLR(opt, 0.9)

    def used(x):
        schedule.step()
        return _training(model, opt, x)

    def returned(x):
        loss = _training(model, opt, x)
        schedule.step()
        return loss, schedule.get_last_lr()

    def read(x):
        loss = _training(model, opt, x)
        schedule.step()
        return loss, opt.param_groups[0]["lr"]

    for f in (used, returned, read):
        with pytest.raises(tp.JitError, match=r"test_afterwards\.py.*after its schedule was stepped.*Way out"):
            tp.jit(f)(x)
        assert opt.param_groups[0]["lr"] == 0.1
        assert schedule.last_epoch == 0


def test_a_plateau_of_a_value_is_refused():
    model, opt, x = _problem()
    schedule = schedules.ReduceLROnPlateau(opt)

    @tp.jit
    def step(x):
        loss = _training(model, opt, x)
        schedule.step(loss)

    with pytest.raises(tp.JitError, match="return the value and step the schedule outside"):
        step(x)


def test_a_failed_call_stores_nothing():
    model, opt, x = _problem()
    schedule = schedules.ExponentialLR(opt, 0.5)

    def step(x, fail):
        loss = _training(model, opt, x)
        schedule.step()
        if fail:
            raise ValueError("no")
        return loss

    traced = tp.jit(step)
    with pytest.raises(ValueError, match="no"):
        traced(x, True)
    assert opt.param_groups[0]["lr"] == 0.1
    traced.lower(x, False)
    assert opt.param_groups[0]["lr"] == 0.1
    traced(x, False)
    assert opt.param_groups[0]["lr"] == 0.05
    assert "step" not in vars(schedule)


def test_a_list_that_grows_at_every_call_is_refused():
    log = []

    @tp.jit
    def f(x):
        log.append(x * 2)

    with pytest.raises(tp.JitError, match="log is changed by the function at every call"):
        for i in range(3):
            f(torch.full((2,), float(i)).to("pjrt"))
    assert [float(t[0]) for t in log] == [0.0, 2.0]


def test_numbers_of_a_frozen_module_are_left_alone():
    m = nn.Dropout(0.5)
    f = tp.jit(lambda x: m(x))
    x = torch.ones(64).to("pjrt")
    for p in (0.5, 0.0, 1.0, 0.0):
        m.p = p
        if p in (0.0, 1.0):
            close(f(x), torch.full((64,), 1.0 - p))
        else:
            f(x)
