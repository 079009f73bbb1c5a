"""Tuples of tensors as state, such as the hidden state of an LSTM: each call puts a new tuple in their place."""

import types

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close


def _attribute(t):
    s = types.SimpleNamespace(h=(t(0), t(1)))

    def f(x):
        s.h = (s.h[0] + x, s.h[1] * 2 + x)
        return s.h[1]

    return f, lambda: [*s.h], lambda: setattr(s, "h", (t(2), s.h[0]))


def _exchanged(t):
    s = {"h": (t(0), t(1))}

    def f(x):
        s["h"] = (s["h"][1], s["h"][0] + x)
        return s["h"][0] * 2

    return f, lambda: [*s["h"]], lambda: s.update(h=(s["h"][0], t(3)))


def _in_a_list(t):
    s = [(t(0), t(1)), (t(2), t(3))]

    def f(x):
        for i in range(2):
            s[i] = (s[i][0] + x, s[i][1] - x)
            x = s[i][0]
        return x

    return f, lambda: [*s[0], *s[1]], lambda: s.reverse()


def _views(t):
    h = (t(0), t(1))

    def f(x):
        nonlocal h
        both = torch.stack([x, x * 2])
        h = (both[0], both[1] + h[1])
        h[0].add_(1)
        return h[0]

    def change():
        nonlocal h
        h = (h[1], t(4))

    return f, lambda: [*h, h[0]], change


def _shared(t):
    one = (t(0),)
    a, b = types.SimpleNamespace(t=one), types.SimpleNamespace(t=one)

    def f(x):
        a.t[0].add_(x)
        return b.t[0] + 0

    return f, lambda: [*a.t, *b.t], lambda: setattr(a, "t", (t(5),))


CASES = [_attribute, _exchanged, _in_a_list, _views, _shared]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__.strip("_"))
def test_as_in_eager(make):
    values = [torch.randn(3) for _ in range(6)]
    f, state, change = make(lambda i: values[i].to("pjrt", copy=True))
    expected, expected_state, expected_change = make(lambda i: values[i].clone())
    f = tp.jit(f)
    for i in range(7):
        if i == 4:
            change()
            expected_change()
        x = torch.randn(3)
        close(f(x.to("pjrt")), expected(x))
        for a, b in zip(state(), expected_state(), strict=True):
            close(a, b)
    assert f.cache_info().misses <= (1 if make in (_attribute, _exchanged, _in_a_list) else 2)


def test_an_lstm_that_keeps_its_state():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.h = nn.LSTM(3, 4, 2), None

        def forward(self, x):
            out, h = self.lstm(x, self.h)
            self.h = tuple(t.detach() for t in h)
            return out

    host, device = Net(), Net().to("pjrt")
    device.load_state_dict(host.state_dict())
    theirs, ours = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (host, device))

    def step(m, opt, x):
        opt.zero_grad()
        loss = m(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    traced = tp.jit(lambda x: step(device, ours, x))
    for i in range(6):
        if i == 4:
            host.h = device.h = None
        x = torch.randn(2, 1, 3)
        close(traced(x.to("pjrt")), step(host, theirs, x))
        for a, b in zip(device.h, host.h, strict=True):
            close(a, b)
    assert traced.cache_info().misses <= 3


OTHERS = [lambda t: (t, t[:1]), lambda t: (t.double(),), lambda t: [t], lambda t: t, lambda t: (1.0,)]


@pytest.mark.parametrize("other", OTHERS)
def test_another_kind_of_tuple_is_another_program(other):
    s = types.SimpleNamespace(h=(torch.ones(2, device="pjrt"),))
    f = tp.jit(lambda x: x + sum(s.h))
    x = torch.ones(2, device="pjrt")
    f(x)
    s.h = other(torch.full((2,), 3.0, device="pjrt"))
    close(f(x), x + sum(s.h))
    assert f.cache_info().misses == 2


def test_a_tensor_in_a_tuple_cannot_be_donated():
    x = torch.ones(2, device="pjrt")
    s = types.SimpleNamespace(h=(x,))
    with pytest.raises(tp.JitError, match=r"argument `x` is donated, but it is `s\.h` too"):
        tp.jit(lambda x: x + s.h[0], donate=0)(x)


class _Held:
    def __init__(self, t):
        self.t = t


CONTAINERS = [lambda t: (t, t), lambda t: [t], lambda t: {"k": t}, lambda t: {"k": [(t,)]}, _Held]


@pytest.mark.parametrize("make", CONTAINERS)
def test_a_graph_that_ends_in_a_container(make):
    s, w = types.SimpleNamespace(h=None), nn.Parameter(torch.ones(2, device="pjrt"))
    x = torch.ones(2, device="pjrt")

    @tp.jit
    def kept(x):
        s.h = make(w * x)
        return (w * x).sum()

    with pytest.raises(tp.JitError, match=r"test_tuples\.py:\d+: .*s\.h.*Way out: return it"):
        kept(x)
    assert s.h is None

    @tp.jit
    def detached(x):
        y = w * x
        s.h = make(y.detach())
        return y.sum()

    detached(x).backward()
    close(w.grad, x)

    @tp.jit
    def spent(x):
        y = w * x
        y.sum().backward()
        s.h = make(y)

    s.h = None
    spent(x)
    close(w.grad, x * 2)
