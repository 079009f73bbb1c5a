"""Objects that answer, or refuse, whatever they are asked: a function that reaches one is traced as any other."""

import types

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close

X = torch.arange(8.0).reshape(2, 4)


class One:
    def __getattribute__(self, name):
        return 1


class Itself:
    def __getattribute__(self, name):
        return self

    def __call__(self, *args):
        return self


class NoClass:
    @property
    def __class__(self):
        return 5


class Raising:
    def __getattribute__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("cls", [One, Itself, NoClass, Raising])
def test_it_is_traced_and_another_one_is_seen(cls):
    made = cls()
    here = {"it": made}

    def f(x):
        return x * (2 if here["it"] is made else 3)

    traced = tp.jit(f)
    for _ in range(2):
        close(traced(X.to("pjrt")), X * 2)
    here["it"] = cls()
    close(traced(X.to("pjrt")), X * 3)
    assert traced.cache_info().misses == 2


@pytest.mark.parametrize("cls", [One, Itself, NoClass, Raising])
def test_a_variable(cls):
    made = cls()
    traced = tp.jit(lambda x: x * (2 if made is not None else 3))
    for _ in range(2):
        close(traced(X.to("pjrt")), X * 2)
    assert traced.cache_info().misses == 1


@pytest.mark.parametrize("cls", [One, Itself, NoClass])
def test_an_argument_and_a_result(cls):
    made = cls()
    traced = tp.jit(lambda x, it: (x * 2, it))
    for _ in range(2):
        out, it = traced(X.to("pjrt"), made)
        close(out, X * 2)
        assert it is made


class Proxy:
    """Reads another object's attributes, whatever they are."""

    __slots__ = ("_it", "_scale")

    def __init__(self, it):
        object.__setattr__(self, "_it", it)
        object.__setattr__(self, "_scale", 2)

    def __getattribute__(self, name):
        if name == "__class__":
            return None
        it = object.__getattribute__(self, "_it")
        return getattr(it, name) * object.__getattribute__(self, "_scale")


def test_what_it_holds_is_watched():
    behind = types.SimpleNamespace(factor=2)
    proxy = Proxy(behind)
    traced = tp.jit(lambda x: x * proxy.factor)
    close(traced(X.to("pjrt")), X * 4)
    behind.factor = 3
    close(traced(X.to("pjrt")), X * 6)
    object.__setattr__(proxy, "_scale", 1)
    close(traced(X.to("pjrt")), X * 3)
    object.__setattr__(proxy, "_it", types.SimpleNamespace(factor=7))
    close(traced(X.to("pjrt")), X * 7)
