"""Results that are no pytrees: each call has its own with its own tensors; what was there before is returned itself."""

import types

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close


class Inner:
    def __init__(self, t):
        self.t, self.all, self.name = t, [t, {"k": t * 2}], "inner"


class Result:
    def __init__(self, t):
        self.t, self.inner, self.n = t, Inner(t + 1), 3
        self.normal = torch.distributions.Normal(t, 1.0)

    @property
    def twice(self):
        return self.t * 2


class Slots:
    __slots__ = ("more", "t")

    def __init__(self, t):
        self.t = t


class Looped:
    def __init__(self, t):
        self.t, self.me = t, self


class Number(float):
    pass


def _x():
    return torch.randn(3)


def test_objects_with_tensors():
    f = tp.jit(lambda x: (Result(x * 2), [Result(x)], Slots(x + 1), types.SimpleNamespace(t=x - 1)))
    found = []
    for _ in range(3):
        x = _x()
        first, (second,), slots, plain = out = f(x.to("pjrt"))
        assert [type(o) for o in (first, second, slots, plain)] == [Result, Result, Slots, types.SimpleNamespace]
        close(first.t, x * 2)
        close(first.twice, x * 4)
        close(first.inner.all[1]["k"], (x * 2 + 1) * 2)
        close(second.normal.log_prob(x.to("pjrt")), torch.distributions.Normal(x, 1.0).log_prob(x))
        close(slots.t, x + 1)
        assert not hasattr(slots, "more")
        close(plain.t, x - 1)
        assert (first.n, first.inner.name) == (3, "inner")
        found.append(out)
    assert len({id(o[0].inner) for o in found}) == 3
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("kind", ["Normal", "Categorical", "Independent"])
def test_distributions_of_a_policy(kind):
    make = {
        "Normal": lambda h: torch.distributions.Normal(h, 1.0),
        "Categorical": lambda h: torch.distributions.Categorical(logits=h),
        "Independent": lambda h: torch.distributions.Independent(torch.distributions.Normal(h, h.exp()), 1),
    }[kind]
    host = nn.Linear(3, 2)
    device = nn.Linear(3, 2).to("pjrt")
    device.load_state_dict(host.state_dict())
    policy = tp.jit(lambda x: make(device(x)))
    for _ in range(3):
        x, a = torch.randn(4, 3), torch.ones(4, dtype=torch.long) if kind == "Categorical" else torch.randn(4, 2)
        expected, got = make(host(x)), policy(x.to("pjrt"))
        for net, loss in ((host, expected.log_prob(a).sum()), (device, got.log_prob(a.to("pjrt")).sum())):
            net.zero_grad()
            loss.backward()
        close(got.log_prob(a.to("pjrt")), expected.log_prob(a))
        close(device.weight.grad, host.weight.grad)


def test_what_is_made_is_new_at_each_call():
    f = tp.jit(lambda x: {"set": {1}, "bytes": bytearray(2), "space": types.SimpleNamespace(k=1), "inner": Inner(x)})
    outs = [f(_x().to("pjrt")) for _ in range(3)]
    outs[0]["set"].add(2)
    outs[0]["bytes"][0] = 1
    outs[0]["space"].k = 5
    outs[0]["inner"].name = "other"
    for out in outs[1:]:
        assert (out["set"], out["bytes"], out["space"].k, out["inner"].name) == ({1}, bytearray(2), 1, "inner")


def test_what_was_there_is_itself():
    held, model = {"list": [1], "t": torch.zeros(3, device="pjrt")}, nn.Linear(3, 3).to("pjrt")
    space = types.SimpleNamespace(t=torch.zeros(3, device="pjrt"))

    @tp.jit
    def f(x):
        held["t"] = held["t"] + x
        space.t = space.t + x
        return held, [held["list"], x], space, model

    total = torch.zeros(3)
    for _ in range(4):
        x = _x()
        total += x
        first, (inner, t), third, fourth = f(x.to("pjrt"))
        assert first is held
        assert inner is held["list"]
        assert third is space
        assert fourth is model
        for got, want in ((held["t"], total), (space.t, total), (t, x)):
            close(got, want)
    assert f.cache_info().misses == 1


def _subclass(x):
    made = Number(1.0)
    made.t = x
    return made


@pytest.mark.parametrize("function", [Looped, _subclass])
def test_what_cannot_be_made_anew_is_refused(function):
    with pytest.raises(tp.JitError, match=r"test_results\.py:\d+: .*an object that cannot be made anew .*Way out"):
        tp.jit(lambda x: function(x * 2))(_x().to("pjrt"))
