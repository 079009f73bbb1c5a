"""What a function takes out of Python that cannot be watched is refused."""

import itertools
import mmap
import queue
import time
from time import perf_counter

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close


def _ones(value=1.0):
    return torch.full((3,), value).to("pjrt")


def _batches():
    while True:
        yield _ones()


ITERATORS = {
    "list": lambda: iter([_ones(float(i)) for i in range(9)]),
    "generator": _batches,
    "count": lambda: map(_ones, itertools.count(1.0)),
    "enumerate": lambda: (x[1] for x in enumerate([_ones(), _ones(2.0)])),
    "zip": lambda: (x[0] for x in zip([_ones(), _ones(2.0)], [1, 2], strict=True)),
    "loader": lambda: iter(torch.utils.data.DataLoader([torch.ones(3)] * 4)),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_items_of_iterators_are_refused(name):
    it = ITERATORS[name]()

    @tp.jit
    def f(x):
        return x * next(it).to("pjrt")

    with pytest.raises(tp.JitError, match=r"test_unwatchable\.py:\d+: f: an item was taken from it.*as an argument"):
        f(_ones())


def test_a_queue_is_refused():
    q = queue.Queue()
    for i in range(4):
        q.put(_ones(float(i)))
    f = tp.jit(lambda x: x * q.get())
    with pytest.raises(tp.JitError, match="changed by the function at every call"):
        for i in range(4):
            close(f(_ones()), _ones(float(i)))


def test_reading_on_in_mapped_memory_is_refused():
    with mmap.mmap(-1, 16) as m:
        with pytest.raises(tp.JitError, match=r"test_unwatchable\.py:\d+: .*an item was taken from m"):
            tp.jit(lambda x: x * m.read_byte())(_ones())


@pytest.mark.parametrize("clock", [lambda: time.time(), lambda: perf_counter()], ids=["module", "imported"])
def test_the_clock_is_refused(clock):
    with pytest.raises(tp.JitError, match=r"test_unwatchable\.py.*clock.*Way out"):
        tp.jit(lambda x: x * clock())(_ones())
    assert clock() > 0
