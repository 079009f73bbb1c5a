"""From the second call on a program makes its results itself: they are what the function would have returned."""

from __future__ import annotations

import array
import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.support import to_cpu

from .support import close, refusal


class Own(torch.Tensor):
    """A kind of the user's."""


def tagged(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.tag, y.parts = "a", [1, {"k": 2.5}]  # type: ignore[attr-defined]
    return y


def tagged_parameter(x: torch.Tensor) -> torch.Tensor:
    p = nn.Parameter(x * 2)
    p.tag = "a"  # type: ignore[attr-defined]
    return p


def with_gradient(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().clone().requires_grad_()
    (y * y).abs().sum().backward()
    return y


def gradient_alone(x: torch.Tensor) -> torch.Tensor:
    grad = with_gradient(x).grad
    assert grad is not None
    return grad


REAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "parameter": lambda x: nn.Parameter(x * 2),
    "frozen parameter": lambda x: nn.Parameter(x * 2, requires_grad=False),
    "parameter over an argument": lambda x: nn.Parameter(x),
    "parameter that is a part": lambda x: nn.Parameter((x * 2)[1:]),
    "parameter without elements": lambda x: nn.Parameter(x[:0]),
    "buffer": lambda x: nn.Buffer(x * 2),
    "kind of the user's": lambda x: (x * 2).as_subclass(Own),
    "kind of the user's over an argument": lambda x: x.as_subclass(Own),
    "attributes": tagged,
    "parameter with attributes": tagged_parameter,
    "leaf": lambda x: (x * 2).requires_grad_(),
    "leaf over an argument": lambda x: x.detach().requires_grad_(),
    "leaf with its gradient": with_gradient,
    "gradient": gradient_alone,
    "other strides": lambda x: (x * 2).t(),
    "expanded": lambda x: (x * 2)[:1].expand(4, 4),
    "an argument expanded": lambda x: x[:1].expand(4, 4),
    "a part further on": lambda x: (x * 2)[1:, 2:],
    "data": lambda x: x.data,
    "as ints": lambda x: (x * 2).view(torch.int32),
    "as shorter ints": lambda x: (x * 2).view(torch.int16)[1:],
    "as longer floats": lambda x: (x * 2).view(torch.float64)[1:, :1],
    "as bytes": lambda x: (x * 2).view(torch.uint8)[:, 3:9],
    "as complex": lambda x: torch.view_as_complex((x * 2).view(4, 2, 2)),
    "an argument as ints": lambda x: x.view(torch.int32),
    "an argument as shorter ints": lambda x: x.view(torch.int16)[1:, 3:],
    "an argument as longer floats": lambda x: x[1:].view(torch.float64),
    "an argument as complex": lambda x: torch.view_as_complex(x.view(4, 2, 2)).t(),
    "negated": lambda x: torch._neg_view(x * 2),
    "an argument negated": lambda x: torch._neg_view(x)[1:],
}
COMPLEX: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conjugate": lambda x: (x * 2).conj(),
    "adjoint": lambda x: (x * 2).mH,
    "part of a conjugate": lambda x: (x * 2).conj()[1:, 1],
    "imaginary part": lambda x: (x * 2).imag,
    "imaginary part of a conjugate": lambda x: (x * 2).conj().imag,
    "real part": lambda x: (x * 2).real[:, 1:],
    "as real": lambda x: torch.view_as_real(x * 2)[..., 1],
    "an argument's conjugate": lambda x: x.conj(),
    "an argument's adjoint": lambda x: x.mH,
    "an argument's imaginary part": lambda x: x.imag,
    "an argument's imaginary part of a conjugate": lambda x: x.conj().imag.t(),
    "an argument as real": lambda x: torch.view_as_real(x),
    "parameter": lambda x: nn.Parameter((x * 2).conj()),
}
KINDS = [(name, f, False) for name, f in REAL.items()] + [(f"complex: {name}", f, True) for name, f in COMPLEX.items()]


def described(t: torch.Tensor) -> tuple[Any, ...]:
    attributes = dict(vars(t))
    bits = t.is_conj(), t.is_neg()
    grad = None if not t.is_leaf or t.grad is None else t.grad.shape
    return type(t), t.dtype, t.shape, t.stride(), t.storage_offset(), t.requires_grad, t.is_leaf, bits, attributes, grad


def given(k: int, is_complex: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(k)
    return torch.randn(4, 4, dtype=torch.complex64 if is_complex else torch.float32, generator=generator)


@pytest.mark.parametrize(("f", "is_complex"), [k[1:] for k in KINDS], ids=[k[0] for k in KINDS])
def test_a_result_is_what_the_function_returns(f: Callable[[torch.Tensor], torch.Tensor], is_complex: bool):
    traced = tp.jit(f)
    for k in range(3):
        x = given(k, is_complex)
        expected, out = f(x), traced(x.to("pjrt"))
        assert described(out) == described(expected), k
        close(out.detach().as_subclass(torch.Tensor), expected.detach().as_subclass(torch.Tensor))
        if expected.is_leaf and expected.grad is not None:
            assert out.grad is not None
            close(out.grad, expected.grad)
    assert traced.cache_info().misses == 1


@pytest.mark.parametrize(("f", "is_complex"), [k[1:] for k in KINDS], ids=[k[0] for k in KINDS])
def test_a_tensor_that_is_kept_is_what_the_function_puts_there(
    f: Callable[[torch.Tensor], torch.Tensor], is_complex: bool
):
    class Holder:
        t: Any = None

    h, held = Holder(), []

    @tp.jit
    def keep(x: torch.Tensor) -> None:
        h.t = f(x)

    for k in range(4):
        x = given(k, is_complex)
        expected = f(x)
        keep(x.to("pjrt"))
        assert described(h.t) == described(expected), k
        close(h.t.detach().as_subclass(torch.Tensor), expected.detach().as_subclass(torch.Tensor))
        # What somebody else has keeps its value.
        held.append((h.t, expected))
        for was, then in held:
            close(was.detach().as_subclass(torch.Tensor), then.detach().as_subclass(torch.Tensor))
    # A list that is another one at each call is another program.
    assert keep.cache_info().misses <= (4 if f is tagged else 2)


VIEWS = {
    "as real": lambda x: torch.view_as_real(torch.complex(x, x * 2)),
    "imaginary part": lambda x: torch.complex(x, x * 2).conj().imag,
    "conjugate": lambda x: torch.complex(x, x * 2).conj(),
    "part": lambda x: (x * x).t()[1:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_with_a_graph_and_leaves_beside_them(name: str):
    w = given(9, False)
    on_device = w.to("pjrt").requires_grad_()
    w.requires_grad_()

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return VIEWS[name](x * w), nn.Parameter(x * 2), x + 1

    traced = tp.jit(f)
    for k in range(3):
        x = given(k, False)
        expected, outs = f(x, w), traced(x.to("pjrt"), on_device)
        for out, e in zip(outs, expected, strict=True):
            close(out, e)
            assert (out.requires_grad, out.is_leaf, type(out)) == (e.requires_grad, e.is_leaf, type(e))
        (out,) = torch.autograd.grad(outs[0].abs().sum(), on_device)
        (grad,) = torch.autograd.grad(expected[0].abs().sum(), w)
        close(out, grad)


def test_what_is_written_through_a_result_is_written_to_the_argument():
    traced = tp.jit(lambda x: (x.view(torch.int32), torch.view_as_complex(x.view(4, 2, 2)), x.t()))
    for k in range(3):
        x = given(k, False).to("pjrt")
        as_ints, as_complex, turned = traced(x)
        as_ints[0] = 0
        as_complex[1] = 1j
        turned[:, 2] = 7
        expected = given(k, False)
        expected[0], expected[1], expected[2] = 0, torch.tensor([0.0, 1, 0, 1]), 7
        close(x, expected)


@pytest.mark.parametrize("value", [lambda x: x + 1, lambda x: [x + 1], lambda x: {"k": (x, 1)}])
def test_a_tensor_with_a_tensor_as_attribute_is_refused(value: Callable[[torch.Tensor], Any]):
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.scale = value(x)  # type: ignore[attr-defined]
        return y

    assert "attribute `scale`" in refusal(f, given(0, False).to("pjrt"))


def test_a_tensor_with_a_number_of_the_call_as_attribute_is_refused():
    def f(x: torch.Tensor, a: float) -> torch.Tensor:
        y = x * 2
        y.scale = a * 2  # type: ignore[attr-defined]
        return y

    assert "attribute `scale`" in refusal(f, given(0, False).to("pjrt"), 2.5)


HOST: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "CPU tensor": (lambda: torch.zeros(3), lambda o: o.add_(1)),
    "CPU parameter": (lambda: nn.Parameter(torch.zeros(3)), lambda o: o.data.add_(1)),
    "CPU tensors": (lambda: {"a": [torch.zeros(3)]}, lambda o: o["a"][0].add_(1)),
    "sparse CPU tensor": (lambda: torch.eye(3).to_sparse(), lambda o: o.mul_(3)),
    "array": (lambda: np.zeros(3), lambda o: o.__iadd__(1)),
    "arrays": (lambda: (1, [np.zeros(3)]), lambda o: o[1][0].__iadd__(1)),
    "masked array": (lambda: np.ma.array([1, 2], mask=[0, 1]), lambda o: o.__iadd__(1)),
    "array of the standard library": (lambda: array.array("f", [1]), lambda o: o.append(2)),
    "counter": (lambda: collections.Counter("ab"), lambda o: o.update("a")),
    "ordered dict": (lambda: collections.OrderedDict(a=1), lambda o: o.update(b=2)),
    "default dict": (lambda: collections.defaultdict(list), lambda o: o["a"].append(2)),
    "deque": (lambda: collections.deque([1]), lambda o: o.append(2)),
    "set": (lambda: {1}, lambda o: o.add(2)),
    "bytes": (lambda: bytearray(b"a"), lambda o: o.append(1)),
    "list": (lambda: [1, [2]], lambda o: o[1].append(3)),
}


@pytest.mark.parametrize("name", HOST)
def test_what_a_caller_does_to_its_result_is_not_in_the_next_one(name: str):
    make, change = HOST[name]
    f = tp.jit(lambda x: (x * 2, make()))
    held = []
    for _ in range(4):
        out = f(given(0, False).to("pjrt"))[1]
        assert type(out) is type(make())
        assert repr(out) == repr(make())
        change(out)
        held.append(out)
    assert len({repr(o) for o in held}) == 1
    assert f.cache_info().misses == 1


def test_what_was_there_before_is_returned_itself():
    tensor, arrays = torch.zeros(3), [np.zeros(3)]
    f = tp.jit(lambda x: (x * 2, tensor, tensor[1:], arrays, arrays[0]))
    for _ in range(3):
        _, t, part, found, one = f(given(0, False).to("pjrt"))
        assert t is tensor
        assert found is arrays
        assert one is arrays[0]
        part.add_(1)
    assert tensor.tolist() == [0, 3, 3]


def test_parameters_that_a_module_gets_anew():
    made = nn.Linear(3, 3)
    there = nn.Linear(3, 3)
    there.load_state_dict(made.state_dict())
    there.to("pjrt")
    held = []

    def renew(module: nn.Linear) -> None:
        module.weight = nn.Parameter(module.weight.detach() * 2)
        module.bias.data = module.bias.data + 1

    step = tp.jit(lambda: renew(there))
    for _ in range(4):
        renew(made)
        step()
        held.append(there.weight)
        assert [n for n, _ in there.named_parameters()] == ["weight", "bias"]
        assert type(there.weight) is nn.Parameter
        assert there.weight.requires_grad
        close(there.weight, made.weight)
        close(there.bias, made.bias)
    assert not torch.equal(to_cpu(held[0]), to_cpu(held[1]))
