"""What belongs to a tensor (its gradient, hooks, attributes, class, bits, who it is) is that of the tensor which is in
its place at the call, and what a function does to it is done to that one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from .support import close, refusal


def of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).to("pjrt")


class Holder:
    t: Any = None


BITS: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]] = {
    "conjugate": (torch.tensor([1 + 2j, 3 - 1j]), lambda t: t.conj()),
    "negative": (torch.tensor([1.0, 2.0]), torch._neg_view),
    "imaginary part of a conjugate": (torch.tensor([1 + 2j, 3 - 1j]), lambda t: t.conj().imag),
    "negative of complex numbers": (torch.tensor([1 + 2j, 3 - 1j]), torch._neg_view),
}


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("place", ["argument", "state"])
def test_lazy_bits_of_what_is_passed_are_seen(name: str, place: str):
    values, change = BITS[name]
    plain = values.imag if name.startswith("imag") else values
    h = Holder()
    f = tp.jit(lambda t: t * (2 + 0 * t)) if place == "argument" else tp.jit(lambda t: h.t * (2 + 0 * h.t))
    for given, t in [(plain, plain.to("pjrt")), (change(values), change(values.to("pjrt")))] * 2:
        h.t = t
        assert t.is_conj() == given.is_conj()
        close(f(t), given * 2)
    assert f.cache_info().misses == 2


# --- gradients


def replaced_weight(l: nn.Linear) -> None:
    l.weight = nn.Parameter(l.weight.detach() * 2)


def assigned_state(l: nn.Linear) -> None:
    l.load_state_dict({k: v.clone() for k, v in l.state_dict().items()}, assign=True)


def replaced_data(l: nn.Linear) -> None:
    l.weight.data = l.weight.data * 2


@pytest.mark.parametrize("change", [replaced_weight, assigned_state, replaced_data])
def test_a_new_parameter_gets_the_gradient(change: Callable[[nn.Linear], None]):
    layer, x = nn.Linear(3, 1).to("pjrt"), torch.ones(1, 3).to("pjrt")
    step = tp.jit(lambda x: layer(x).sum().backward())
    old = []
    for _ in range(3):
        for _ in range(2):
            layer.zero_grad()
            step(x)
        assert layer.weight.grad is not None
        close(layer.weight.grad, x)
        for t in old:
            assert t.grad is None
        layer.zero_grad()
        old = [] if change is replaced_data else [layer.weight]
        change(layer)
    assert step.cache_info().misses <= 2


def test_parameters_in_a_list_that_is_filled_anew():
    params = [nn.Parameter(of(1, 2)) for _ in range(3)]
    step = tp.jit(lambda x: sum((p * x).sum() for p in params).backward())
    for k in range(3):
        step(of(3, 4))
        for p in params:
            assert p.grad is not None
            close(p.grad, of(3, 4))
        old = list(params)
        params[:] = [nn.Parameter(p.detach() + k) for p in old]


def test_arguments_get_their_own_gradients():
    step = tp.jit(lambda w, x: (w * x).sum().backward())
    weights = [of(k).requires_grad_() for k in range(4)]
    for w in weights:
        step(w, of(5))
    for w in weights:
        assert w.grad is not None
        close(w.grad, of(5))
    assert step.cache_info().misses == 1


def test_the_gradient_of_an_argument_is_read_now():
    f = tp.jit(lambda x: x.grad * 2)
    for k in range(3):
        t = of(1).requires_grad_()
        t.grad = of(k)
        close(f(t), of(2 * k))


def test_an_argument_with_hooks_is_not_one_without():
    f = tp.jit(lambda w: torch.autograd.grad((w * w).sum(), w)[0])
    plain, hooked = of(1).requires_grad_(), of(1).requires_grad_()
    hooked.register_hook(lambda g: g * 10)
    for _ in range(2):
        close(f(plain), of(2))
        close(f(hooked), of(20))


# --- attributes, class, who it is


def test_attributes_of_arguments_are_their_own():
    f = tp.jit(lambda x: x * x.scale)
    for k in (1, 1, 2, 3, 1):
        t = of(1)
        t.scale = k  # type: ignore[attr-defined]
        close(f(t), of(k))


@pytest.mark.parametrize("place", ["argument", "state"])
def test_an_attribute_that_a_tensor_gets_later_is_seen(place: str):
    h, t = Holder(), of(1)
    h.t = t
    f = tp.jit(lambda x: x * getattr(x if place == "argument" else h.t, "scale", 1))
    for _ in range(2):
        close(f(t), of(1))
    t.scale = 5  # type: ignore[attr-defined]
    for _ in range(2):
        close(f(t), of(5))
    close(f(of(1)), of(1 if place == "argument" else 5))


def test_the_class_of_a_tensor_is_seen():
    h = Holder()
    h.t = of(1)
    f = tp.jit(lambda x: x * (3 if isinstance(h.t, nn.Parameter) else 1) * h.t)
    for _ in range(2):
        close(f(of(1)), of(1))
    h.t = nn.Parameter(of(1), requires_grad=False)
    close(f(of(1)), of(3))


def test_one_tensor_twice_is_not_two_tensors():
    f = tp.jit(lambda a, b: (a * 2 if a is b else a * 3, b))
    a = of(1)
    other = a.detach()
    for _ in range(2):
        close(f(a, a)[0], of(2))
        assert f(a, a)[1] is a
        close(f(a, other)[0], of(3))
        assert f(a, other)[1] is other


def test_a_leaf_and_what_has_a_graph_are_two_programs():
    h, w = Holder(), of(3).requires_grad_()
    h.t = of(2).requires_grad_()
    f = tp.jit(lambda x: (h.t * x, h.t.is_leaf))
    for _ in range(2):
        out, is_leaf = f(of(5))
        assert is_leaf
        out.sum().backward()
    close(h.t.grad, of(10))
    h.t = w * 2
    out, is_leaf = f(of(5))
    assert not is_leaf
    out.sum().backward()
    assert w.grad is not None
    close(w.grad, of(10))


# --- what a function does to a tensor as a whole


def test_out_gets_its_shape_at_each_call():
    f = tp.jit(lambda a, out: torch.mul(a, 2, out=out))
    for k in range(3):
        out = torch.empty(0, device="pjrt")
        assert f(of(1, k), out) is out
        close(out, of(2, 2 * k))


CHANGES: dict[str, Callable[[torch.Tensor], Any]] = {
    "t_": lambda t: t.t_(),
    "transpose_": lambda t: t.transpose_(0, 1),
    "squeeze_": lambda t: t.unsqueeze_(0).squeeze_(0).t_(),
    "as_strided_": lambda t: t.as_strided_((2, 2), (1, 2)),
    "data": lambda t: setattr(t, "data", t.data.t()),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("place", ["argument", "state"])
def test_a_tensor_that_is_turned_is_turned_at_each_call(name: str, place: str):
    h = Holder()

    def f(t: torch.Tensor) -> torch.Tensor:
        it = t if place == "argument" else h.t
        CHANGES[name](it)
        return it * 1

    traced = tp.jit(f)
    host = torch.arange(4.0).view(2, 2)
    there = host.clone().to("pjrt")
    for _ in range(5):
        h.t = host
        expected = f(host)
        h.t = there
        close(traced(there), expected)
        close(there, host)


@pytest.mark.parametrize("change", [lambda x, y: setattr(x, "data", y * 2), lambda x, y: x.set_(y * 2)])
def test_each_argument_gets_its_own_data(change: Callable[[torch.Tensor, torch.Tensor], Any]):
    def whole(x: torch.Tensor, y: torch.Tensor) -> None:
        change(x, y)

    f = tp.jit(whole)
    held = []
    for k in range(4):
        x = of(0)
        f(x, of(k))
        held.append(x)
    for k, x in enumerate(held):
        close(x, of(2 * k))


def test_each_argument_gets_its_own_attributes():
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.tag, x.twice = "a", y * 2  # type: ignore[attr-defined]
        return x + y

    traced = tp.jit(f)
    for k in range(3):
        x = of(1)
        close(traced(x, of(k)), of(1 + k))
        assert x.tag == "a"  # type: ignore[attr-defined]
        close(x.twice, of(2 * k))  # type: ignore[attr-defined]


def test_a_tensor_that_leaves_its_graph_inside_is_refused():
    h, w = Holder(), of(3).requires_grad_()
    h.t = w * 2

    def f(x: torch.Tensor) -> torch.Tensor:
        h.t.detach_()
        return h.t * x

    assert "`h.t` left the graph" in refusal(f, of(1))


# --- writes through results


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "part": lambda x: x[:1],
    "turned": lambda x: x.view(2, 2).t(),
    "as ints": lambda x: x.view(torch.int32),
    "detached": lambda x: x.detach(),
    "expanded": lambda x: x.expand(2, 4),
    "negated": torch._neg_view,
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("new", [False, True])
def test_a_write_through_a_result_is_a_write_to_what_it_views(name: str, new: bool):
    w = nn.Parameter(of(1, 2, 3, 4))
    f = tp.jit(lambda x: (lambda z: (z, VIEWS[name](z)))(x * 2 if new else x))
    for _ in range(3):
        x = of(5, 6, 7, 8)
        z, part = f(x)
        loss = (w * z).sum()
        (part[0] if name == "expanded" else part).zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


# --- looks that run Python code


class Slow:
    """Equal to others by code that lets other threads run, or does what it is told."""

    during: Callable[[], Any] = staticmethod(lambda: time.sleep(0.0005))

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        Slow.during()
        return isinstance(other, Slow) and self.value == other.value


def test_another_thread_may_replace_a_tensor_while_a_call_looks():
    state: dict[str, Any] = {"t": of(1, 1, 1), "set": {Slow(1), Slow(2), Slow(3)}}
    f = tp.jit(lambda x: x * state["t"] * len(state["set"]))
    x = of(1, 1, 1)
    f(x)
    stop, junk = threading.Event(), []

    def replace() -> None:
        while not stop.is_set():
            state["t"] = of(1, 1, 1)
            junk[:] = [of(77, 77, 77) for _ in range(6)]

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(60):
            assert f(x).tolist() == [3, 3, 3]
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("which", ["another", "itself"])
def test_a_look_may_call_jit_functions(which: str, monkeypatch: pytest.MonkeyPatch):
    parts = {Slow(1), Slow(2)}
    other = tp.jit(lambda x: x + 1)
    f = tp.jit(lambda x: x * len(parts))
    x, inner = of(1), []
    close(f(x), of(2))
    close(other(x), of(2))
    depth = [0]

    def during() -> None:
        if depth[0] == 0:
            depth[0] = 1
            inner.append((other if which == "another" else f)(x))
            depth[0] = 0

    monkeypatch.setattr(Slow, "during", staticmethod(during))
    close(f(x), of(2))
    assert inner
    for out in inner:
        close(out, of(2))


def test_an_argument_that_shall_require_a_gradient_from_now_on():
    w = of(2, 3).requires_grad_()

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.requires_grad_()
        return torch.autograd.grad((x * x * w.detach()).sum(), x)[0], x * w

    traced = tp.jit(f)
    for k in range(4):
        x, host = of(1, k), torch.tensor([1.0, k])
        inside, out = traced(x)
        close(inside, 2 * host * w.detach().cpu())
        assert x.requires_grad
        out.sum().backward()
        close(x.grad, w)
        w.grad = None
    assert traced.cache_info().misses == 1


def test_a_parameter_that_is_frozen_and_thawed_inside():
    h = Holder()
    h.t = of(1, 2).requires_grad_()

    def toggle() -> torch.Tensor:
        h.t.requires_grad_(not h.t.requires_grad)
        return h.t * 1

    f = tp.jit(toggle)
    for k in range(6):
        out = f()
        assert h.t.requires_grad == out.requires_grad == bool(k % 2)
    assert f.cache_info().misses == 2


def test_a_tensor_of_no_device_is_known_by_its_shape():
    h = Holder()
    h.t = torch.empty(2, 3, device="meta")
    f = tp.jit(lambda x: x * h.t.shape[1] + h.t.stride(0) + h.t.element_size())
    for change in (
        lambda: None,
        lambda: h.t.resize_(2, 5),
        lambda: h.t.t_(),
        lambda: setattr(h.t, "data", h.t.double()),
        lambda: setattr(h, "t", torch.empty(4, 4, device="meta")),
    ):
        change()
        for _ in range(2):
            close(f(of(1)), of(h.t.shape[1] + h.t.stride(0) + h.t.element_size()))
