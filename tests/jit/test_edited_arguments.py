"""Containers that are arguments and that the function changes: the caller's are changed, at each call, as in eager."""

import collections
import copy
import dataclasses
import typing

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: typing.Any = None


def _pop(a):
    y = a.pop("y")
    return a["x"] * y


def _put(a):
    a["z"] = a["x"] * 2
    a["y"] = None
    return a["z"] + 1


def _moved_to_the_end(a):
    a["x"] = a.pop("x")
    a["new"] = [a["y"], a["x"] + 1]
    return a["x"]


def _nested(a):
    inner = a["in"]
    inner[0]["k"] = inner[0]["k"] + a["x"]
    inner.append(a["x"])
    inner.insert(0, inner.pop(0))
    del a["y"]
    return inner[0]["k"]


def _grown(a):
    a.append(a[0] * a[1])
    a[0] = a[1]
    return a[-1]


def _emptied(a):
    total = sum(a)
    a.clear()
    return total


def _attribute(a):
    a.y = a.x * 3
    a.more = a.x + 1
    return a.y


def _float(a):
    a["s"] = a["s"] * 2
    a["n"] += 1
    return a["x"] * a["s"] * a["n"]


def _twice(a):
    a["x"] = a["x"] + 1
    return {"x": a["x"], "all": list(a)}


def _dict(kind=dict, **more):
    return lambda t: kind({"x": t(1), "y": t(2), **{k: v() for k, v in more.items()}})


CASES = {
    "pop": (_pop, _dict()),
    "pop of an OrderedDict": (_pop, _dict(collections.OrderedDict)),
    "pop of a defaultdict": (_pop, _dict(lambda d: collections.defaultdict(list, d))),
    "put": (_put, _dict()),
    "order": (_moved_to_the_end, _dict()),
    "nested": (_nested, lambda t: {"x": t(1), "y": t(2), "in": [{"k": t(3)}, t(4)]}),
    "list": (_grown, lambda t: [t(1), t(2)]),
    "deque": (_grown, lambda t: collections.deque([t(1), t(2)])),
    "clear": (_emptied, lambda t: [t(1), t(2)]),
    "dataclass": (_attribute, lambda t: Batch(t(1))),
    "numbers": (_float, _dict(s=lambda: 2.5, n=lambda: 3)),
    "returned too": (_twice, _dict()),
}


def _same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        close(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            _same(a[k], b[k])
    elif isinstance(a, list | tuple | collections.deque):
        assert len(a) == len(b)
        for v, w in zip(a, b, strict=True):
            _same(v, w)
    elif dataclasses.is_dataclass(a):
        _same(vars(a), vars(b))
    else:
        assert a == b


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_callers_containers_change(name, by_name):
    function, make = CASES[name]
    f = tp.jit(function)
    for k in range(4):
        values = {i: torch.randn(3) for i in range(5)}
        host, device = make(lambda i: values[i].clone()), make(lambda i: values[i].to("pjrt"))  # noqa: B023
        kept, theirs = copy.copy(device), copy.copy(host)
        expected = function(host)
        _same(f(a=device) if by_name else f(device), expected)
        _same(device, host)
        # What stays is what was there.
        if isinstance(device, dict):
            for key in kept.keys() & device.keys():
                assert (device[key] is kept[key]) == (host[key] is theirs[key]), (k, key)
    assert f.cache_info().misses == 1


def test_other_ways_of_a_call():
    def f(a, k):
        a["z"] = a["x"] * k
        return a["z"].sum()

    x = torch.arange(3.0)
    for jitted in (tp.jit(f, static_argnums=1), tp.jit(f, donate=0), tp.jit(lambda a, k: tp.jit(f)(a, k))):
        for k in (2, 3, 2):
            a = {"x": x.to("pjrt")}
            jitted(a, k)
            close(a["z"], x * k)
    a = {"x": x}
    tp.jit(f)(a, 2)
    close(a["z"], x * 2)
    assert a["x"] is x
    lowered = tp.jit(f).lower({"x": x}, 2)
    assert lowered.out_info.shape == ()
    a = {"x": x.to("pjrt")}
    close(lowered.compile()(a, 2), torch.tensor(6.0))
    close(a["z"], x * 2)
    assert tp.eval_shape(f, {"x": x}, 2).shape == ()


def test_gradients_of_what_is_stored():
    @tp.jit
    def f(a):
        a["loss"] = (a["x"] ** 2).sum()

    for _ in range(3):
        x = torch.arange(3.0).to("pjrt").requires_grad_()
        a = {"x": x}
        f(a)
        a["loss"].backward()
        close(x.grad, torch.arange(3.0) * 2)
        assert a["x"] is x


def test_a_failed_call_changes_nothing():
    def f(a):
        a.clear()
        raise KeyError

    a = {"x": torch.ones(2, device="pjrt")}
    with pytest.raises(KeyError):
        tp.jit(f)(a)
    assert list(a) == ["x"]


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


torch.utils._pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda items, _: Pair(*items))


def test_what_cannot_be_changed_is_refused():
    def put(p):
        p.a = p.b + 1

    x = torch.ones(2, device="pjrt")
    with pytest.raises(tp.JitError, match=r"test_edited_arguments\.py:\d+: put: an argument, a Pair, is changed"):
        tp.jit(put)(Pair(x, x))

    def append(a, b):
        a.append(b[0])
        return len(b)

    one = [x]
    with pytest.raises(tp.JitError, match=r"append: an argument that is there twice is changed.*Way out"):
        tp.jit(append)(one, one)
