"""What a function reads of libraries: a function that is replaced, an order, memory, the calendar."""

import array
import collections
import ctypes
import datetime
import math
from datetime import date
from datetime import datetime as moment

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close


def _ones():
    return torch.ones(3, device="pjrt")


def _mine(x, *_, **__):
    return x * 7


def _in_a_closure():
    import torch.nn.functional as functional

    return lambda x: functional.relu(x)


relu, layer = nn.ReLU(), nn.Linear(3, 3).requires_grad_(False)

REPLACED = {
    "by its module": (lambda x: F.relu(x), F, "relu", _mine),
    "by its whole name": (lambda x: torch.nn.functional.relu(x), F, "relu", _mine),
    "in a closure": (_in_a_closure(), F, "relu", _mine),
    "in a function inside": (lambda x: (lambda y: F.relu(y))(x), F, "relu", _mine),
    "of torch": (lambda x: torch.cos(x * 0), torch, "cos", _mine),
    "that a module uses": (lambda x: relu(x), F, "relu", _mine),
    "that a part of a module's forward uses": (
        lambda x: nn.functional.linear(x, x.diag()) + conv(x.view(1, 1, 3)).sum(),
        F,
        "conv1d",
        lambda x, *_: x * 7,
    ),
    "forward of a module": (lambda x: relu(x), nn.ReLU, "forward", lambda self, x: x * 7),
    "method of tensors": (lambda x: x.relu(), torch.Tensor, "relu", _mine),
    "of the standard library": (lambda x: x * math.floor(1.5), math, "floor", lambda v: 7),
    "number": (lambda x: x * math.pi, math, "pi", 7.0),
    "of NumPy": (lambda x: x * float(np.floor(1.5)), np, "floor", lambda v: 7),
    "class": (lambda x: nn.ReLU()(x), nn, "ReLU", lambda: _mine),
}
conv = nn.Conv1d(1, 1, 1).to("pjrt").requires_grad_(False)


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_is_seen(name, monkeypatch):
    f, owner, attribute, other = REPLACED[name]
    traced, x = tp.jit(f), _ones()
    for _ in range(3):
        close(traced(x), f(x))
    assert traced.cache_info().misses == 1
    before = f(x)
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, other, raising=False)
        assert not torch.equal(f(x), before)
        close(traced(x), f(x))
    close(traced(x), f(x))
    assert traced.cache_info().misses == 2


def test_an_order_is_seen():
    held = collections.OrderedDict(a=1.0, b=2.0, c=3.0)
    held.move_to_end("a")

    def f(x):
        for v in held.values():
            x = x * v + 1
        return x

    traced = tp.jit(f)
    for change in (lambda: None, lambda: held.move_to_end("b"), lambda: held.move_to_end("c")):
        change()
        for _ in range(3):
            close(traced(_ones()), f(_ones()))
    assert traced.cache_info().misses == 3


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_an_order_that_the_function_changes(kind):
    def moved(held, last):
        held[last] = held.pop(last)

    held, expected = kind(a=1.0, b=2.0), kind(a=1.0, b=2.0)

    def body(held, x):
        moved(held, "a")
        for v in held.values():
            x = x * v + 1
        return x

    f = tp.jit(lambda x: body(held, x))
    for _ in range(4):
        close(f(_ones()), body(expected, _ones()))
        assert list(held) == list(expected)
    assert f.cache_info().misses == 2

    def failed(x):
        moved(held, "b")
        raise KeyError

    with pytest.raises(KeyError):
        tp.jit(failed)(_ones())
    assert list(held) == ["b", "a"]

    def turned(x):
        moved(held, next(iter(held)))
        return x

    turned = tp.jit(turned)
    with pytest.raises(tp.JitError, match=r"held \(order\) is changed by the function at every call"):
        for _ in range(3):
            turned(_ones())


class _Struct(ctypes.Structure):
    _fields_ = [("k", ctypes.c_int)]


def _memory():
    buffer = bytearray(b"\x01\x02")
    numbers, one, struct = (ctypes.c_float * 2)(1.0, 2.0), ctypes.c_double(3.0), _Struct(4)
    doubles = memoryview(array.array("d", [1.0, 2.0]))
    view = memoryview(buffer)
    return {
        "memoryview": (lambda x: x * view[0], lambda: buffer.__setitem__(0, 5)),
        "memoryview of doubles": (lambda x: x * doubles[1], lambda: doubles.__setitem__(1, 9.0)),
        "array": (lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 8.0)),
        "number": (lambda x: x * one.value, lambda: setattr(one, "value", 8.0)),
        "structure": (lambda x: x * struct.k, lambda: setattr(struct, "k", 8)),
    }


@pytest.mark.parametrize("name", _memory())
def test_memory_is_seen(name):
    f, change = _memory()[name]
    traced = tp.jit(f)
    for _ in range(2):
        close(traced(_ones()), f(_ones()))
    change()
    for _ in range(2):
        close(traced(_ones()), f(_ones()))
    assert traced.cache_info().misses == 2


NOW = {
    "datetime.now": lambda: datetime.datetime.now(),
    "utcnow": lambda: datetime.datetime.utcnow(),
    "today": lambda: date.today(),
    "imported": lambda: moment.now(datetime.UTC),
}


@pytest.mark.parametrize("name", NOW)
def test_the_calendar_is_refused(name):
    with pytest.raises(tp.JitError, match=r"test_libraries\.py:\d+: clock: .*Way out"):
        tp.jit(lambda x: x * NOW[name]().year)(_ones())
    assert NOW[name]().year > 2000


def test_dates_are_dates():
    start = moment(2020, 1, 2)
    months = {datetime.datetime: 1, date: 2}

    def f(x):
        if start is None:
            return moment.now()
        assert isinstance(start, moment)
        assert isinstance(start, date)
        assert issubclass(moment, date)
        assert type(moment(2020, 1, 1)) is type(start)
        assert moment.fromtimestamp(0) < start
        return x * (start - moment(2020, 1, 1)).days * months[type(start)]

    close(tp.jit(f)(_ones()), _ones())
    assert moment is datetime.datetime
