"""A place that several functions read is one place: what is there is read and stored once."""

import types

import pytest
import torch
import torch_pjrt as tp

FACTOR, COUNT = 1.0, 0
HELD = types.SimpleNamespace(k=1.0)


def _globals():
    def first(x):
        return x * FACTOR

    def second(x):
        global COUNT
        COUNT += 1
        return x * FACTOR * COUNT

    return first, second, lambda v: globals().update(FACTOR=v), lambda: (FACTOR, COUNT)


def _cells():
    k, n = 1.0, 0

    def first(x):
        return x * k

    def second(x):
        nonlocal n
        n += 1
        return x * k * n

    def put(v):
        nonlocal k
        k = v

    return first, second, put, lambda: (k, n)


def _a_dict_two_ways():
    held = types.SimpleNamespace(k=1.0, n=0)
    inside = vars(held)

    def first(x):
        return x * held.k

    def second(x):
        held.n += 1
        return x * inside["k"] * held.n

    return first, second, lambda v: setattr(held, "k", v), lambda: (held.k, held.n)


def _a_class_and_its_child():
    class Base:
        k, n = 1.0, 0

        def first(self, x):
            return x * self.k

    class Child(Base):
        def second(self, x):
            Base.n += 1
            return x * Base.k * self.n

    c = Child()
    return c.first, c.second, lambda v: setattr(Base, "k", v), lambda: (Base.k, Base.n)


@pytest.mark.parametrize("make", [_globals, _cells, _a_dict_two_ways, _a_class_and_its_child])
def test_numbers(make, monkeypatch):
    monkeypatch.setitem(globals(), "COUNT", 0)
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    first, second, put, held = make()
    f = tp.jit(lambda x: first(x) + second(x))
    x = torch.ones(2, device="pjrt")
    for n, k in enumerate((1.0, 4.0, 2.0, 2.0, 3.0, 8.0), 1):
        put(k)
        assert f(x).tolist() == [k + k * n] * 2
        assert held() == (k, n)


def test_tensors(monkeypatch):
    monkeypatch.setitem(globals(), "HELD", torch.zeros(2, device="pjrt"))

    def first(x):
        global HELD
        HELD = HELD + x

    def second(x):
        global HELD
        HELD = HELD * 2
        return HELD.sum()

    @tp.jit
    def f(x):
        first(x)
        return second(x)

    x, want = torch.ones(2, device="pjrt"), 0
    for _ in range(4):
        want = (want + 1) * 2
        assert f(x).item() == 2 * want
        assert HELD.tolist() == [want] * 2
    assert f.cache_info().misses <= 2
