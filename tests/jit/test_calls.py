"""Calls that go the short way give what the long way gives, whatever the arguments are."""

import dataclasses
import gc
import sys
import weakref

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close
from tests.support import together


def ones(*shape):
    return torch.ones(*shape or (3,)).to("pjrt")


@dataclasses.dataclass
class Data:
    a: torch.Tensor
    n: int


class Plain:
    def __init__(self, n):
        self.n = n


class Sub(torch.Tensor):
    pass


def total(x):
    """All tensors and numbers of a structure, weighted by their order."""
    found, stack = [], [x]
    while stack:
        v = stack.pop(0)
        if isinstance(v, dict):
            stack = [*v.values(), *stack]
        elif isinstance(v, list | tuple):
            stack = [*v, *stack]
        elif isinstance(v, Data):
            stack = [v.a, v.n, *stack]
        elif isinstance(v, Plain):
            stack = [v.n, *stack]
        elif isinstance(v, torch.Tensor | int | float):
            found.append(v)
        elif v is not None:
            found.append(len(str(v)))
    return sum((k + 1) * (v.sum() if isinstance(v, torch.Tensor) else v) for k, v in enumerate(found))


first, second = Plain(2), Plain(5)
ARGUMENTS = {
    "tensor": lambda: (ones(),),
    "two shapes": lambda: (ones(2, 3),),
    "float64": lambda: (ones().double(),),
    "strided": lambda: (ones(3, 3)[:, 0],),
    "tuple": lambda: ((ones(), ones() * 2),),
    "list": lambda: ([ones(), ones() * 2],),
    "longer list": lambda: ([ones(), ones() * 2, ones()],),
    "nested": lambda: ({"a": [ones(), (ones() * 3, 2)], "b": None}, 1.5),
    "other keys": lambda: ({"a": [ones(), (ones() * 3, 2)], "c": None}, 1.5),
    "other order": lambda: ({"b": None, "a": [ones(), (ones() * 3, 2)]}, 1.5),
    "one": lambda: (ones(), 1),
    "true": lambda: (ones(), True),
    "one point zero": lambda: (ones(), 1.0),
    "zero": lambda: (ones(), 0),
    "none": lambda: (ones(), None),
    "text": lambda: (ones(), "text"),
    "bytes": lambda: (ones(), b"text"),
    "int keys": lambda: ({1: ones(), 2: ones() * 2},),
    "bool keys": lambda: ({True: ones(), 2: ones() * 2},),
    "object": lambda: (ones(), first),
    "another object": lambda: (ones(), second),
    "dataclass": lambda: (Data(ones(), 3),),
    "dtype": lambda: (ones(), torch.float16),
    "subclass": lambda: (ones().as_subclass(Sub), ones()),
    "CPU": lambda: (torch.ones(3) * 4,),
    "requires grad": lambda: (ones().requires_grad_(),),
    "empty": lambda: (ones(0), ones()),
    "nothing": lambda: (),
}


def test_arguments_of_any_kind_in_any_order():
    f = tp.jit(lambda *a, **k: (total(a), total(k)))
    for _ in range(3):
        for make in ARGUMENTS.values():
            args = make()
            for _ in range(3):
                for got, expected in zip(f(*args), (total(args), 0), strict=True):
                    close(torch.as_tensor(got).as_subclass(torch.Tensor), torch.as_tensor(expected).detach())
    misses = f.cache_info().misses
    assert misses <= len(ARGUMENTS) + 1
    assert f.cache_info().hits == 3 * 3 * len(ARGUMENTS) - misses


def test_keywords_are_told_apart():
    f = tp.jit(lambda x, y=None, **k: total((x, 0 if y is None else y, *k.values())))
    a, b = ones(), ones() * 7
    for _ in range(3):
        close(f(a, b), total((a, b)))
        close(f(a, y=b), total((a, b)))
        close(f(a, z=b), total((a, 0, b)))
        close(f(y=b, x=a), total((a, b)))


RESULTS = {
    "tensor": lambda x: x * 2,
    "none": lambda x: None,
    "tuple": lambda x: (x * 2,),
    "nested": lambda x: {"a": [x * 2, None, ("text", x)], 3: {}, "e": [], "t": ()},
    "dataclass": lambda x: Data(x * 2, 3),
    "int": lambda x: (x.dim(), x * 2),
    "twice": lambda x: (lambda y: (y, y, y[1:]))(x * 2),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_any_structure(name):
    f, x = tp.jit(RESULTS[name]), ones()
    for _ in range(4):
        got, expected = f(x), RESULTS[name](x)
        assert type(got) is type(expected)
        leaves, spec = torch.utils._pytree.tree_flatten(got)
        wanted, wanted_spec = torch.utils._pytree.tree_flatten(expected)
        assert spec == wanted_spec
        for a, b in zip(leaves, wanted, strict=True):
            if isinstance(b, torch.Tensor):
                close(a, b)
            else:
                assert a == b
        if name == "twice":
            assert got[0] is got[1] or got[0].data_ptr() == got[1].data_ptr()
            got[2].fill_(9)
            close(got[0][1:], torch.full((2,), 9.0))
    # A container that was handed out is the caller's.
    if name == "nested":
        got["e"].append(1)
        got["a"].clear()
        assert f(x)["e"] == []
        assert len(f(x)["a"]) == 3


def test_a_module_among_the_arguments():
    f = tp.jit(lambda m, x: m(x))
    x = ones(1, 3)
    modules = [nn.Linear(3, 3).to("pjrt").requires_grad_(False) for _ in range(2)]
    for _ in range(3):
        for m in modules:
            close(f(m, x), m(x))
    modules[0].weight.mul_(2)
    close(f(modules[0], x), modules[0](x))
    modules[0].bias = None
    close(f(modules[0], x), modules[0](x))


def test_an_object_that_died_is_not_another():
    f = tp.jit(lambda p, x: x * p.n)
    for n in range(6):
        p = Plain(n)
        for _ in range(3):
            close(f(p, ones()), ones() * n)
        gone = weakref.ref(p)
        del p
        f.clear_cache()
        gc.collect()
        assert gone() is None


def test_modes_are_seen():
    f = tp.jit(lambda x: (x @ x).sum())
    x = ones(3, 3)
    for _ in range(3):
        assert f(x).dtype == torch.float32
        with torch.autocast("pjrt", dtype=torch.bfloat16):
            assert f(x).dtype == (x @ x).sum().dtype
    y = ones(3, 3).requires_grad_()
    for _ in range(3):
        assert f(y).requires_grad
        with torch.no_grad():
            assert not f(y).requires_grad
    assert f.cache_info().misses == 4


def test_threads():
    f, x = tp.jit(lambda x, n: x * n + 1), ones()

    def work(n):
        for _ in range(200):
            assert f(x, n).cpu()[0] == n + 1

    for n in range(6):
        f(x, n)
    together(work, threads=6)


def test_an_error_of_the_device_comes_out():
    f = tp.jit(lambda t, i: t[i])
    t, good, bad = ones(3), torch.tensor([1]).to("pjrt"), torch.tensor([5]).to("pjrt")
    for _ in range(3):
        close(f(t, good), torch.ones(1))
        with pytest.raises(IndexError):
            f(t, bad)
            tp.synchronize()


class Equal:
    """Equal to others of its number."""

    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return hash(self.n)


STATICS = {
    "numbers": (2, 3, 2.5, True, None),
    "text": ("a", "bc", b"bc"),
    "tuples": ((1, 2), (1, 3), (1, (2.5, "a"))),
    "functions": (torch.sin, torch.cos),
    "dtypes": (torch.float32, torch.int64),
    "objects": (Plain(1), Plain(1)),
    "equal objects": (Equal(2), Equal(3)),
    "zeros": (0.0, 0, False),
}


@pytest.mark.parametrize("name", STATICS)
def test_static_arguments_are_told_apart(name):
    values = STATICS[name]

    def function(x, s, *, k):
        return x * (next(i for i, v in enumerate(values) if v == s) + 1) * (2 if k == "on" else 3)

    f = tp.jit(function, static_argnums=1, static_argnames="k")
    for _ in range(4):
        for v in values:
            for k in ("on", "off"):
                close(f(ones(), v, k=k), function(ones(), v, k=k))
    distinct = 2 * len({(type(v), v) for v in values})
    assert (f.cache_info().misses, f.cache_info().hits) == (distinct, 8 * len(values) - distinct)


def test_static_arguments_take_the_short_way():
    f = tp.jit(lambda x, n, how, *, k: x * n + len(how[0]) + k, static_argnums=(1, 2), static_argnames="k")
    for _ in range(3):
        close(f(ones(), 2.5, ("ab", torch.sin), k=1.5), torch.full((3,), 6.0))
    assert f._fast.hits == 1
    close(f(ones(), 3.5, ("ab", torch.sin), k=1.5), torch.full((3,), 7.0))
    assert f._fast.hits == 1
    close(f(torch.ones(2).to("pjrt"), 2.5, ("ab", torch.sin), k=1.5), torch.full((2,), 6.0))
    assert f.cache_info().misses == 3


def test_tensors_of_the_cpu_take_the_short_way():
    f = tp.jit(lambda batch, w: {"y": batch["x"] @ w + batch["x"].sum(), "same": batch["x"]})
    w = torch.randn(3, 2)
    for i in range(6):
        x = torch.randn(4 + i % 2, 3)
        out = f({"x": x}, w.to("pjrt"))
        close(out["y"], x @ w + x.sum())
        close(out["same"], x)
        assert out["same"].device.type == "pjrt"
    assert (f.cache_info().misses, f._fast.hits) == (2, 2)
    # The same places with tensors of the device, and one of each.
    close(f({"x": x.to("pjrt")}, w.to("pjrt"))["y"], x @ w + x.sum())
    close(f({"x": x.to("pjrt")}, w)["y"], x @ w + x.sum())
    assert f.cache_info().misses == 2


def test_gradients_reach_a_tensor_of_the_cpu():
    f = tp.jit(lambda x: (x * x).sum())
    for i in range(4):
        x = torch.full((3,), float(i), requires_grad=True)
        f(x).backward()
        close(x.grad, 2 * x.detach())


def test_the_tensor_of_the_cpu_is_not_given_away_twice():
    f = tp.jit(lambda x, y: x + y, donate=0)
    x = torch.ones(3)
    for _ in range(4):
        close(f(x, x), torch.full((3,), 2.0))
    close(x, torch.ones(3))


def test_a_call_runs_no_python_code_per_module():
    def calls(layers):
        model = nn.Sequential(*(nn.LayerNorm(4) for _ in range(layers))).to("pjrt")
        model.register_buffer("passing", torch.zeros(1, device="pjrt"), persistent=False)
        opt = torch.optim.AdamW(model.parameters())

        @tp.jit
        def step(x):
            opt.zero_grad()
            model(x).sum().backward()
            opt.step()

        x = torch.ones(2, 4, device="pjrt")
        for _ in range(4):
            step(x)
        count = 0

        def note(frame, event, argument):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        step(x)
        sys.setprofile(None)
        return count

    assert calls(2) == calls(20) < 30
