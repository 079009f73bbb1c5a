"""What costs a program for each of its values is told once, and what is declared, or costs none, is not."""

import math
import types
import warnings

import pytest
import torch
import torch_pjrt as tp

FACTOR = 1
MODE = ""


def _x():
    return torch.arange(20.0, device="pjrt")


def _told(call, count=12):
    """The warnings of jit that calls of ``call`` with 1, 2, 3... gave."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(1, count + 1):
            call(i)
    return [w for w in found if str(w.message).startswith("jit:")]


def _of_a_closure():
    n = 1

    def f(x):
        return x[:n]

    def put(v):
        nonlocal n
        n = v

    return f, put


def _state(kind):
    held, listed = types.SimpleNamespace(n=1), [1]
    f, put = _of_a_closure()
    return {
        "closure": (f, put, "n"),
        "object": (lambda x: x[: held.n], lambda v: setattr(held, "n", v), "held.n"),
        "list": (lambda x: x[: listed[0]], lambda v: listed.__setitem__(0, v), "listed[0]"),
        "global": (lambda x: x[:FACTOR], lambda v: globals().update(FACTOR=v), "FACTOR"),
        "text": (lambda x: x * len(MODE), lambda v: globals().update(MODE="a" * v), "MODE"),
    }[kind]


ARGUMENTS = {
    "int": (lambda x, n: x[:n], lambda i: i, "n", "a tensor, or a float"),
    "text": (lambda x, n: x * len(n), lambda i: "a" * i, "n", "declare it"),
    "in a dict": (lambda x, n: x[: n["k"][0]], lambda i: {"k": [i]}, "n['k'][0]", "declare it"),
    "function": (lambda x, n: n(x), lambda i: lambda x: x * i, "n", "the same object"),
    "float that is asked for": (lambda x, n: x * math.sqrt(n), float, "n", "declared static"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("by_name", [False, True])
def test_an_argument_with_many_values(name, by_name):
    fn, value, what, way = ARGUMENTS[name]
    f = tp.jit(fn)
    x = _x()
    told = _told(lambda i: f(x, n=value(i)) if by_name else f(x, value(i)))
    assert len(told) == 1
    text = str(told[0].message)
    assert f"`{what}` has had 8 values" in text
    assert way in text
    assert f"test_retraces.py:{fn.__code__.co_firstlineno}: " in text
    assert told[0].filename == __file__
    reasons = f.cache_info().reasons
    assert len(reasons) == 12
    assert f"(value 8 of argument `{what}`" in reasons[7] or f"`{what}`, each with a program" in reasons[8]
    assert "each with a program" in reasons[-1]


@pytest.mark.parametrize("kind", ["closure", "object", "list", "global", "text"])
def test_something_that_the_function_reaches_with_many_values(kind):
    fn, put, what = _state(kind)
    f = tp.jit(fn)
    x = _x()

    def call(i):
        put(i)
        torch.testing.assert_close(f(x), fn(x), rtol=0, atol=0)

    told = _told(call)
    assert len(told) == 1
    assert f"`{what}` has had 8 values" in str(told[0].message)
    assert "each with a program" in f.cache_info().reasons[-1]


def test_what_is_declared_is_not_told():
    x = _x()
    for declared in ({"static_argnames": "n"}, {"static_argnums": 1}):
        for by_name in (False, True):
            f = tp.jit(lambda x, n: x[:n], **declared)
            assert not _told(lambda i, f=f, by_name=by_name: f(x, n=i) if by_name else f(x, i))
            assert f.cache_info().misses == 12


def test_what_costs_no_program_is_not_told():
    x, held = _x(), types.SimpleNamespace(n=1, k=0.5)
    by_value, by_place = tp.jit(lambda x, s: x * s), tp.jit(lambda x: x * held.n * held.k)

    def call(i):
        by_value(x, i / 2)
        held.n, held.k = i, i / 4
        by_place(x)

    assert not _told(call)
    assert by_value.cache_info().misses == 1
    shapes = tp.jit(lambda x, n: x[:n])
    assert not _told(lambda i: shapes(x, i % 7))
    both = tp.jit(lambda x, n, flag: x[:n] if flag else x)
    assert len(_told(lambda i: both(x, i, flag=i % 2 == 0))) == 1


def test_a_list_that_grows():
    losses: list[torch.Tensor] = []

    def f(x, losses):
        losses.append(x.sum())

    f = tp.jit(f)
    told = _told(lambda i: f(_x(), losses), count=10)
    assert len(told) == 1
    assert "the structure of the arguments has had 8 values (1 leaves, 2 leaves" in str(told[0].message)
    assert len(losses) == 10


@pytest.mark.parametrize("names", ["m", ("n", "m"), (1,)])
def test_a_name_that_is_none(names):
    with pytest.raises(ValueError, match=r"argument `static_argnames`: got .*parameters \(x, n\) of"):
        tp.jit(lambda x, n: x, static_argnames=names)
