"""Whatever refuses to trace, Rust or Python, raises a JitError with a line of the user's and a way out."""

import functools
import re
from pathlib import Path

import pytest
import torch
import torch_pjrt as tp
from torch import nn

HERE = Path(__file__).name


def _x():
    return torch.ones(3, 2, device="pjrt")


def _by_a_closure():
    p = nn.Parameter(torch.ones(2, device="pjrt"))
    opt = torch.optim.SGD([p], lr=0.1)

    def closure():
        loss = p.sum()
        loss.backward()
        return loss if loss.item() > 0 else -loss

    return lambda x: opt.step(closure)


def _generator():
    g = torch.pjrt.default_generator if hasattr(torch.pjrt, "default_generator") else torch.Generator()
    return lambda x: torch.rand(2, device="pjrt", generator=g)


def _iterator():
    def rows(x):
        yield from x

    return rows


def _sparse_result():
    w = nn.Parameter(torch.ones(3, 2, device="pjrt"))
    return lambda x: (w * x).to_sparse()


def _sparse_written():
    e = nn.Embedding(4, 2, sparse=True).to("pjrt")
    i = torch.tensor([1, 1], device="pjrt")
    e(i).sum().backward()

    def again(x):
        e(i).sum().backward()

    return again


def _sparse_norm():
    i = torch.tensor([[0, 0]], device="pjrt")
    return lambda x: torch.sparse_coo_tensor(i, x[:2, 0], (3,)).coalesce().values()


def _taken():
    it = iter([1.0, 2.0, 3.0])
    return lambda x: x * next(it)


def _at_every_call():
    texts = ["a"]

    def f(x):
        texts[0] += "a"
        return x * len(texts[0])

    f = tp.jit(f)
    for _ in range(2):
        f(_x())
    return f


class _Printing(nn.Linear):
    def forward(self, x):
        tp.debug.print("{}", x)
        return x


def _print_in_a_loop():
    layers = nn.ModuleList(_Printing(2, 2, device="pjrt") for _ in range(3))
    return lambda x: tp.scan_layers(layers, x)


def _donated():
    def f(x):
        return x * kept

    kept = _x()
    f = tp.jit(f, donate=0)
    return lambda _: f(kept)


CASES = [
    _by_a_closure,
    _generator,
    _iterator,
    _sparse_result,
    _sparse_written,
    _sparse_norm,
    _taken,
    _at_every_call,
    _print_in_a_loop,
    _donated,
]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__.strip("_"))
def test_each_has_its_type_its_line_and_a_way_out(make):
    f = make()
    call = f if isinstance(f, type(tp.jit(len))) or make is _donated else tp.jit(f)
    with pytest.raises(tp.JitError, match=r"Way out: ") as error:
        call(_x())
    found = re.match(r"jit: \S*?([^/\s]+):\d+: ", str(error.value))
    assert found, str(error.value)
    assert found[1] == HERE, str(error.value)


def test_an_argument_of_another_layout():
    with pytest.raises(tp.JitError, match=rf"{HERE}:\d+: .*got an argument with layout .*Way out: "):
        tp.jit(lambda x: x.sum())(_x().to_sparse())


@functools.cache
def _sources():
    return {p.name: p.read_text() for p in Path(tp.__file__).parent.glob("*.py")}


def test_one_function_makes_them():
    made = {name for name, text in _sources().items() if re.search(r"\bJitError\(", text)}
    assert made == {"_jit_errors.py"}


def test_a_container_that_is_new_at_each_call_names_its_way_out():
    class Cell:
        h = [torch.zeros(2, device="pjrt"), torch.zeros(2, device="pjrt")]

    c = Cell()
    c.h = Cell.h

    @tp.jit
    def step(x):
        c.h = [c.h[0] + x, c.h[1] * 2 + x]
        return c.h[1]

    with pytest.raises(tp.JitError, match=rf"{HERE}:\d+: step: c\.h is changed .* each tensor a place that stays"):
        for _ in range(3):
            step(_x()[0])
