"""Floats are inputs: another value is neither stale nor a new trace."""

import math

import pytest
import torch
import torch.nn.functional as F
import torch_pjrt as tp

from tests.jit.support import close, compiles

VALUES = (0.5, 0.25, 0.125)


@pytest.fixture
def x():
    return torch.arange(1.0, 7.0).reshape(2, 3).to("pjrt")


def written(x, s):
    x = x.clone()
    x[0, 1] = s
    return x


FOLLOWED = {
    "pow": lambda x, s: x**s,
    "mul": lambda x, s: x * s,
    "rmul": lambda x, s: s * x,
    "rsub": lambda x, s: s - x,
    "div": lambda x, s: x / s,
    "rdiv": lambda x, s: s / x,
    "rpow": lambda x, s: s**x,
    "in place": lambda x, s: x.clone().mul_(s),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "clamp": lambda x, s: x.clamp(s, 8 * s),
    "full": lambda x, s: torch.full((2, 3), s, device="pjrt"),
    "fill": lambda x, s: x.clone().fill_(s),
    "where": lambda x, s: torch.where(x > 2, x, s),
    "compare": lambda x, s: x > 4 * s,
    "masked_fill": lambda x, s: x.masked_fill(x > 2, s),
    "setitem": written,
    "lerp": lambda x, s: torch.lerp(x, x * 2, s),
    "addcmul": lambda x, s: torch.addcmul(x, x, x, value=s),
    "foreach": lambda x, s: torch._foreach_mul([x, x], s)[1],
    "foreach list": lambda x, s: torch._foreach_mul([x, x], [s, 2 * s])[1],
    "leaky_relu": lambda x, s: F.leaky_relu(-x, s),
    "arithmetic": lambda x, s: x * (2 * s + 1) - s / 3 + (1 - s) ** 2,
    "isinstance": lambda x, s: x * s if isinstance(s, float) else x,
    "sum": lambda x, s: x * sum([s, s]),
    "int64": lambda x, s: x.long() * s,
    "half": lambda x, s: x.half() * s,
    "func.grad": lambda x, s: torch.func.grad(lambda y: ((y * s).pow(2) / s).sum())(x),
    "func.vmap": lambda x, s: torch.func.vmap(lambda r: r * s)(x),
}
BOUND = {
    "math.sqrt": lambda x, s: x * math.sqrt(s),
    "float": lambda x, s: x * float(s),
    "torch.tensor": lambda x, s: x * torch.tensor(s, device="pjrt"),
    "list of numbers": lambda x, s: x + torch.tensor([s, s, 1.0], device="pjrt"),
    "format": lambda x, s: x * len(f"{s}"),
    "floor division": lambda x, s: x * (s // 0.2),
    "round": lambda x, s: x * round(s, 1),
    "method": lambda x, s: x * (2 if s.is_integer() else 3) * s.hex().__len__(),
    "CPU tensor": lambda x, s: x * (torch.ones(3) * s).to("pjrt"),
    "eps": lambda x, s: F.layer_norm(x, (3,), eps=s),
    "label smoothing": lambda x, s: F.cross_entropy(x, torch.tensor([0, 1]).to("pjrt"), label_smoothing=s),
    "dict key": lambda x, s: x * {0.5: 1, 0.25: 2, 0.125: 3}[s],
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_new_value_is_no_new_trace(x, name):
    f = tp.jit(FOLLOWED[name])
    for s in VALUES:
        got, expected = f(x, s), FOLLOWED[name](x, s)
        assert got.dtype == expected.dtype
        close(got, expected, 1e-3 if name == "half" else 1e-5)
    info = f.cache_info()
    assert (info.misses, info.entries) == (1, 1)


@pytest.mark.parametrize("name", BOUND)
def test_a_value_that_python_needs_binds_the_program(x, name):
    f = tp.jit(BOUND[name])
    for _ in range(2):
        for s in VALUES:
            close(f(x, s), BOUND[name](x, s))
    info = f.cache_info()
    assert (info.misses, info.hits) == (3, 3)
    assert "s is 0.25, and the program holds where s is 0.5" in info.reasons[1]


def test_a_branch_binds_the_program_to_its_outcome(x):
    @tp.jit
    def f(x, s):
        if s > 0 and 1 >= s:  # noqa: SIM300
            return x * s
        return -x

    for s in (0.5, 0.25, -1.0, 1.0, 2.0, -2.0, 3.0, float("nan"), 0.125):
        close(f(x, s), x * s if 0 < s <= 1 else -x)
    reasons = f.cache_info().reasons
    assert len(reasons) <= 4
    assert reasons[1] == "s is -1.0, and the program holds where s > 0.0"


def test_zero_signs_and_nan_are_values(x):
    f = tp.jit(lambda x, s: x * math.copysign(1.0, s) if not math.isnan(s) else x * 7)
    for s in (0.0, -0.0, float("nan"), 0.0, -0.0, float("nan")):
        close(f(x, s), x * (7 if math.isnan(s) else math.copysign(1.0, s)))
    assert f.cache_info().misses == 3


def test_division_by_zero_is_python_s_own_error(x):
    f = tp.jit(lambda x, s: x * (1 / s))
    close(f(x, 2.0), x / 2)
    with pytest.raises(ZeroDivisionError):
        f(x, 0.0)
    close(f(x, 4.0), x / 4)


def test_results_that_are_numbers_are_computed_anew(x):
    f = tp.jit(lambda x, s: (x * s, s, 2 * s + 1, "text"))
    for s in VALUES:
        y, same, more, text = f(x, s)
        assert (type(same), same, more, text) == (float, s, 2 * s + 1, "text")
        close(y, x * s)
    assert f.cache_info().misses == 1


def test_ints_and_bools_are_static(x):
    f = tp.jit(lambda x, n, on: x.repeat(n, 1) * n if on else x)
    for n in (2, 3):
        assert f(x, n, True).shape == (2 * n, 3)
    assert f(x, 2, False).shape == (2, 3)
    assert f.cache_info().misses == 3
    assert "n: 3, was 2" in f.cache_info().reasons[1]


def test_numbers_in_containers_and_static_ones(x):
    f = tp.jit(lambda x, p, k: x * p["a"][1] + k, static_argnames="k")
    for s in VALUES:
        close(f(x, {"a": (1, s)}, k=1.5), x * s + 1.5)
    close(f(x, {"a": (1, 0.5)}, k=2.5), x * 0.5 + 2.5)
    assert f.cache_info().misses == 2


def test_a_number_that_the_function_stores_is_a_float(x):
    class Holder:
        scale = 0.0

    h = Holder()
    h.scale = 0.0
    kept = []

    def f(x, s):
        h.scale = s
        kept.append(s)
        return x * s

    f = tp.jit(f)
    for s in (0.5, 0.25):
        close(f(x, s), x * s)
        assert (type(h.scale), h.scale) == (float, s)
    for s, was in zip(kept, (0.5, 0.25), strict=False):
        assert s == was
        close(torch.ones(2) * s, torch.ones(2) * was)
        close(x * s, x * was)
        assert s + 1 == 1 + s == was + 1


def test_gradients_from_outside(x):
    w = torch.ones(2, 3).to("pjrt").requires_grad_()
    f = tp.jit(lambda x, w, s: ((w * s) ** 2 * x).sum())
    for s in VALUES:
        w.grad = None
        f(x, w, s).backward()
        close(w.grad, 2 * s * s * x)
    assert f.cache_info().misses == 1


def test_a_step_with_a_float_argument_compiles_once(x):
    w = torch.nn.Parameter(torch.ones(3).to("pjrt"))
    opt = torch.optim.SGD([w], lr=0.1)

    @tp.jit
    def step(x, temperature):
        opt.zero_grad()
        loss = ((x @ w) / temperature).pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    host = torch.ones(3)
    for i in range(6):
        t = 1.0 + i / 7
        if i == 3:
            before = compiles()
        xs = x.cpu()
        h = host.clone().requires_grad_()
        loss = ((xs @ h) / t).pow(2).mean()
        loss.backward()
        host = host - 0.1 * h.grad
        close(step(x, t), loss)
        close(w, host)
    assert compiles() == before


def test_debug_print_shows_the_value_of_each_call(x, capsys):
    @tp.jit
    def f(x, s):
        tp.debug.print("s {}", s)
        return x * s

    for s in VALUES:
        f(x, s)
    for line, s in zip(capsys.readouterr().out.splitlines(), VALUES, strict=True):
        assert str(s) in line


class Scaled(torch.optim.Optimizer):
    """An optimizer that does not come from torch."""

    def __init__(self, params, lr=0.1, decay=0.01, betas=(0.9, 0.99)):
        super().__init__(params, {"lr": lr, "decay": decay, "betas": betas, "nesterov": False})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(group["betas"][0]).add_(p.grad, alpha=1 - group["betas"][0])
                p.mul_(1 - group["lr"] * group["decay"]).add_(m, alpha=-group["lr"])


class Bound(Scaled):
    """One that computes with its numbers where nobody can follow."""

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad, alpha=-math.sqrt(group["lr"]))


@pytest.mark.parametrize(("cls", "misses"), [(Scaled, 2), (Bound, 6)])
def test_optimizers_of_others(cls, misses):
    def make(device):
        w = torch.nn.Parameter(torch.ones(3, device=device))
        opt = cls([w])

        def step(x):
            opt.zero_grad()
            (w * x).pow(2).sum().backward()
            opt.step()

        return w, opt, step

    (a, oa, sa), (b, ob, sb) = make("cpu"), make("pjrt")
    traced = tp.jit(sb)
    for i in range(6):
        for opt in (oa, ob):
            opt.param_groups[0]["lr"] = 0.1 / (i + 1)
        x = torch.arange(3.0) + i
        sa(x)
        traced(x.to("pjrt"))
        close(b, a)
    assert traced.cache_info().misses <= misses


def test_a_learning_rate_that_is_returned_is_not_stale(x):
    w = torch.nn.Parameter(torch.ones(3).to("pjrt"))
    opt = torch.optim.SGD([w], lr=0.5)

    @tp.jit
    def step(x):
        opt.zero_grad()
        (x @ w).sum().backward()
        opt.step()
        return opt.param_groups[0]["lr"]

    for lr in (0.5, 0.25, 0.125):
        opt.param_groups[0]["lr"] = lr
        assert step(x) == lr
