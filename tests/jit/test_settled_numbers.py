"""What a function leaves behind holds plain numbers, whatever the trace followed; and so does what gets out unseen."""

import collections
import copy
import json
import math
import queue
import types

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close

X = torch.arange(8.0).reshape(2, 4)


def _calls(function, change, values):
    """Calls the traced function, with one more change before each call; gives the results."""
    traced, out = tp.jit(function), []
    for v in values:
        change(v)
        out.append(traced(X.to("pjrt")))
    return traced, out


def _is_plain(v):
    if isinstance(v, dict):
        return all(map(_is_plain, [*v.keys(), *v.values()]))
    if isinstance(v, list | tuple | set | frozenset | collections.deque):
        return all(map(_is_plain, v))
    return type(v) in (int, float, str, torch.Tensor)


MEMOS = {
    "item": lambda memo, n: memo[n] if n in memo else memo.__setitem__(n, float(n)) or memo[n],
    "setdefault": lambda memo, n: memo.setdefault(n, n * 2.0),
    "tuple": lambda memo, n: memo.setdefault((n, "x"), (n, [n, {n: n}]))[0],
    "set": lambda memo, n: memo.setdefault("seen", set()).add(n) or n,
    "deque": lambda memo, n: memo.setdefault("last", collections.deque(maxlen=2)).append(n) or n,
    "frozenset": lambda memo, n: memo.setdefault(n, frozenset({n, (n, n)})) and n,
}


@pytest.mark.parametrize("name", MEMOS)
@pytest.mark.parametrize("kind", [int, float])
def test_memos(name, kind):
    memo, expected, here = {"first": 1}, {"first": 1}, {"n": 1}

    def f(x):
        return x * MEMOS[name](memo, here["n"])

    traced = tp.jit(f)
    for i, v in enumerate((1, 1, 2, 3, 4, 2)):
        here["n"] = kind(v)
        if name in ("set", "deque") and i > 3:
            break  # it changes at every call, which is refused
        close(traced(X.to("pjrt")), X * MEMOS[name](expected, kind(v)))
        assert memo == expected
        assert list(memo) == list(expected)
        assert _is_plain(memo)


def test_a_set_and_a_tuple_of_an_object():
    t = types.SimpleNamespace(epoch=0, best=None, hist={}, seen=set(), ring=collections.deque())

    def f(x):
        loss = (x * t.epoch).sum()
        t.hist[t.epoch] = loss.detach()
        return loss

    traced, out = _calls(f, lambda v: setattr(t, "epoch", v), range(4))
    assert [float(v) for v in out] == [28.0 * i for i in range(4)]
    assert json.loads(json.dumps({k: float(v) for k, v in t.hist.items()})) == {str(i): 28.0 * i for i in range(4)}
    assert list(map(type, t.hist)) == [int] * 4

    def best(x):
        if t.best is None or t.epoch > t.best[0]:
            t.best = (t.epoch, "name", [t.epoch])
            t.seen.add(t.epoch)
            t.ring.append((t.epoch,))
        return x + t.epoch

    traced = tp.jit(best)
    t.epoch = 0
    traced(X.to("pjrt"))
    t.epoch = 5
    close(traced(X.to("pjrt")), X + 5)
    assert t.best == (5, "name", [5])
    assert _is_plain(t.best)
    assert t.seen == {0, 5}
    assert _is_plain(t.seen)
    assert list(t.ring) == [(0,), (5,)]
    assert _is_plain(t.ring)


class _Made:
    def __init__(self, n):
        self.n, self.pair = n, (n, [n])


def test_objects_closures_and_results():
    here, kept = {"n": 1}, {}

    def f(x):
        n = here["n"]
        kept["object"] = _Made(n)
        kept["function"] = lambda: n
        return {n: x * n, "all": [{n: n}, (n, {n})], "made": frozenset({n})}

    for kind in (int, float):
        traced = tp.jit(f)
        for v in (1, 2):
            here["n"] = kind(v)
            out = traced(X.to("pjrt"))
            assert list(out) == [v, "all", "made"]
            assert _is_plain(out)
            assert _is_plain([kept["object"].n, kept["object"].pair, kept["function"]()])
            close(out[v], X * v)


def test_keys_of_an_argument_that_is_changed():
    here = {"n": 1}

    @tp.jit
    def f(x, batch):
        batch[here["n"]] = x * here["n"]

    for v in (1, 2, 3, 2):
        here["n"], batch = v, {}
        f(X.to("pjrt"), batch)
        assert list(map(type, batch)) == [int]
        close(batch[v], X * v)


@pytest.mark.parametrize("kind", [int, float])
def test_exceptions_hold_numbers_and_leave_everything(kind):
    here, memo = {"n": 1}, {"a": 1}

    def f(x):
        if "fail" in here:
            memo[here["n"]] = here["n"]
            error = KeyError(here["n"], [here["n"]])
            error.n = here["n"]
            raise error from ValueError(here["n"])
        return x * here["n"]

    traced, _ = _calls(f, lambda v: here.update(n=kind(v)), (1, 2))
    here["fail"] = True
    with pytest.raises(KeyError) as found:
        traced(X.to("pjrt"))
    assert found.value.args == (2, [2])
    assert _is_plain([*found.value.args, found.value.n, *found.value.__cause__.args])
    assert memo == {"a": 1}


@pytest.mark.parametrize("kind", [int, float])
def test_a_number_that_got_out_unseen_is_the_value_that_it_was(kind):
    here, out = {"n": 1}, queue.SimpleQueue()

    def f(x):
        out.put(here["n"])
        return x * here["n"]

    _calls(f, lambda v: here.update(n=kind(v)), (1, 2, 3))
    escaped = [out.get() for _ in range(out.qsize())]
    for n in escaped:
        v = kind(n)
        assert hash(n) == hash(v)
        assert n == v
        assert v == n
        assert {n: 1}[v] == 1
        assert {v: 1}[n] == 1
        assert -n == -v
        assert +n == v
        assert abs(n) == v
        assert n + 1 == 1 + n == v + 1
        assert n - 0.5 == v - 0.5
        assert 2 * n == n * 2.0 == 2 * v
        assert n**2 == v**2
        assert 2**n == 2.0**n == 2**v
        assert n / 2 == v / 2
        assert 7 // n == 7 // v
        assert divmod(7, n) == divmod(7, v)
        assert n < v + 1
        assert v + 1 > n
        assert bool(n)
        assert (n != v) is False
        assert math.floor(n) == math.ceil(n) == int(n) == v
        assert f"{n} {n:5}" == f"{v} {v:5}"
        assert repr(n) == str(n) == str(v)
        assert round(n) == v
        assert isinstance(n, kind)
        assert copy.deepcopy([n]) == [v]
        assert n.is_integer() if kind is float else n.bit_length()
        close(torch.mul(X.to("pjrt"), n), X * v)
        close(X.to("pjrt") + n, X + v)
    assert escaped == [kind(v) for v in (1, 2)]
    # A number of an earlier trace beside one that is followed.
    old, here2 = escaped[-1], {"n": 5}

    def g(x):
        return x * (here2["n"] + old), here2["n"] * old, old < here2["n"], old - here2["n"]

    traced, _ = _calls(g, lambda v: here2.update(n=kind(v)), (5, 6))
    for v in (7, 8):
        here2["n"] = kind(v)
        y, product, less, difference = traced(X.to("pjrt"))
        close(y, X * (v + 2))
        assert (product, less, difference) == (v * 2, True, 2 - v)


def test_a_learning_rate_as_a_key():
    w = torch.nn.Parameter(torch.ones(4).to("pjrt"))
    opt = torch.optim.SGD([w], lr=0.5)
    memo, out = {}, queue.SimpleQueue()

    @tp.jit
    def step(x):
        opt.zero_grad()
        (x @ w).sum().backward()
        opt.step()
        lr = opt.param_groups[0]["lr"]
        memo.setdefault(lr, [lr])
        out.put(lr)

    for lr in (0.5, 0.25, 0.125):
        opt.param_groups[0]["lr"] = lr
        step(X.to("pjrt"))
    assert memo == {0.5: [0.5], 0.25: [0.25], 0.125: [0.125]}
    assert _is_plain(memo)
    escaped = [out.get() for _ in range(3)]
    assert [v + 0.0 for v in escaped] == [0.5, 0.25, 0.125]
    assert [hash(v) for v in escaped] == [hash(0.5), hash(0.25), hash(0.125)]
    assert escaped == [0.5, 0.25, 0.125]
    assert [v > 1 for v in escaped] == [False] * 3
