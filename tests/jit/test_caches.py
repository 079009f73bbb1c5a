"""``functools.lru_cache`` under a trace: it keeps what it had, and gets what is not of the trace."""

import functools
import types

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close

X = torch.arange(8.0).reshape(2, 4)
SIZES = (None, 128, 3)


@pytest.mark.parametrize("size", SIZES)
def test_what_was_there_stays_and_host_values_come(size):
    calls = []

    @functools.lru_cache(maxsize=size)
    def table(n):
        calls.append(n)
        return types.SimpleNamespace(factor=float(n))

    first = table(8)
    f = tp.jit(lambda x: x * table(8).factor * table(2).factor)
    close(f(X.to("pjrt")), X * 16)
    close(f(X.to("pjrt")), X * 16)
    assert table(8) is first
    assert table(2).factor == 2.0
    assert calls == [8, 2]
    info = table.cache_info()
    assert (info.misses, info.currsize) == (2, 2)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("fails", [False, True])
def test_tensors_of_the_trace_are_dropped_alone(size, fails):
    @functools.lru_cache(maxsize=size)
    def ones(n):
        return {"it": [torch.ones(n, device="pjrt") * n]}

    kept = ones(2)

    @tp.jit
    def f(x):
        out = x * ones(4)["it"][0] + ones(2)["it"][0][0]
        if fails:
            raise ValueError("mine")
        return out

    for _ in range(2):
        if fails:
            with pytest.raises(ValueError, match="mine"):
                f(X.to("pjrt"))
        else:
            close(f(X.to("pjrt")), X * 4 + 2)
    assert ones(2) is kept
    assert ones.cache_info().currsize == 1
    for n in (4, 5, 6, 4, 7, 8, 4):  # past the size of the smallest: entries come and go as ever
        close(ones(n)["it"][0], torch.full((n,), float(n)))
        close(f(X.to("pjrt")), X * 4 + 2) if not fails else None
    assert ones.cache_info().currsize <= (size or 128)


@pytest.mark.parametrize("size", SIZES)
def test_numbers_that_are_followed(size):
    here = {"n": 1}

    @functools.lru_cache(maxsize=size)
    def table(n):
        return [n, (n, 2)]

    f = tp.jit(lambda x: x * table(here["n"])[0])
    for n in (1, 2, 3, 4, 2):
        here["n"] = n
        close(f(X.to("pjrt")), X * n)
    for n in (1, 2, 3, 4):
        assert table(n) == [n, (n, 2)]
        assert type(table(n)[0]) is int
        assert type(table(n)[1][0]) is int
