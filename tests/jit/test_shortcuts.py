"""What a call looks at in memory, past torch's and Python's own functions, and what it does where it cannot."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch_pjrt import _native, _tags

from .support import close, equal, sees


@pytest.fixture(params=["looks", "asks"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways to the same answers."""
    was = _native.ask_for_all(request.param == "asks")
    yield request.param
    _native.ask_for_all(was)


def device(*dims: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(dims).to("pjrt")


def test_torch_keeps_what_describes_a_tensor_where_it_was_found():
    assert _native.layout_found()


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="an attribute can be stored without a new tag there")
def test_this_interpreter_tags_its_dicts():
    assert _tags.are_told()


def test_an_interpreter_whose_tags_miss_a_change_is_not_trusted(monkeypatch: pytest.MonkeyPatch):
    true = _native.dict_words
    monkeypatch.setattr(_native, "dict_words", lambda d: (true(d)[0], 7))
    assert not _tags.are_told()
    monkeypatch.setattr(_native, "dict_words", lambda d: (3, true(d)[1]))
    assert not _tags.are_told()
    seen = []
    monkeypatch.setattr(
        _native, "dict_words", lambda d: (true(d)[0], seen.append(d) or len(seen) if len(d) < 30 else 0)
    )
    assert not _tags.are_told(), "dicts with many keys stay as they are"


class Holder:
    def __init__(self, t: torch.Tensor) -> None:
        self.t = t


def exchange(h: Holder, other: torch.Tensor) -> None:
    h.t = other


def as_view(h: Holder) -> None:
    h.t.data = device(5, 4)[1:]


TENSORS: dict[str, Callable[[Holder], Any]] = {
    "another tensor": lambda h: exchange(h, device(4, 4) + 1),
    "another parameter": lambda h: exchange(h, nn.Parameter(device(4, 4) + 1)),
    "other values": lambda h: h.t.detach().mul_(2),
    "other data": lambda h: setattr(h.t, "data", device(4, 4) * 3),
    "another dtype": lambda h: setattr(h.t, "data", (device(4, 4) * 3).half()),
    "other sizes": lambda h: setattr(h.t, "data", device(4, 1) * 3),
    "another rank": lambda h: setattr(h.t, "data", device(2, 4, 4) * 3),
    "another offset": as_view,
    "other strides": lambda h: h.t.detach_().t_(),
    "other strides, by data": lambda h: setattr(h.t, "data", (device(4, 4) * 3).t()),
    "another storage": lambda h: h.t.detach_().set_(device(4, 4) * 3),
    "a resized tensor": lambda h: h.t.detach_().resize_(1, 4),
    "more than five dims": lambda h: setattr(h.t, "data", device(1, 1, 1, 1, 1, 4, 4) * 3),
    "a tensor of complex numbers": lambda h: setattr(h.t, "data", device(4, 4).to(torch.complex64)),
    "a lazy conjugation": lambda h: exchange(h, (device(4, 4) * 1j).conj()),
}


@pytest.mark.parametrize("trained", [False, True], ids=["plain", "trained"])
@pytest.mark.parametrize("change", TENSORS)
def test_what_is_done_to_a_tensor_is_seen(way: str, change: str, trained: bool):
    h = Holder(device(4, 4).requires_grad_(trained))
    x = device(4, 4)

    @torch.no_grad()
    def f(x: torch.Tensor) -> torch.Tensor:
        out = h.t * x if h.t.dim() < 6 else h.t.sum() * x
        return out if out.dtype == torch.float32 else torch.view_as_real(out.to(torch.complex64))

    sees(f, lambda: TENSORS[change](h), x)


def test_tensors_of_many_dims_are_read_anew(way: str):
    h = Holder(device(1, 2, 1, 2, 1, 2, 3))
    f = tp.jit(lambda x: h.t + x)
    for k in range(4):
        h.t.add_(k)
        close(f(h.t), h.t + h.t)
        h.t.data = h.t.data.flip(0) * 2
        close(f(h.t), h.t + h.t)
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("start", [False, True])
def test_requires_grad_is_seen_whichever_way_it_is_set(way: str, start: bool):
    p = nn.Parameter(device(4), requires_grad=start)
    other = nn.Parameter(device(4))

    def step() -> None:
        p.grad = other.grad = None
        (p * p * other).sum().backward()

    f = tp.jit(step)
    for k in range(6):
        on = p.requires_grad
        f()
        close(other.grad, p.detach() ** 2)
        assert (p.grad is not None) == on
        p.requires_grad_(not on) if k % 2 else setattr(p, "requires_grad", not on)


def test_a_tensor_with_a_graph_is_seen(way: str):
    h = Holder(device(4))
    w = device(4).requires_grad_()
    f = tp.jit(lambda x: h.t * x)
    assert not f(device(4)).requires_grad
    h.t.mul_(w)  # now it has a graph, and no flag of its own
    out = f(device(4))
    out.sum().backward()
    close(w.grad, device(4) * device(4))


def test_a_dead_tensor_is_not_taken_for_what_follows_at_its_address(way: str):
    h = Holder(device(4))
    f = tp.jit(lambda x: x + (h.t if isinstance(h.t, torch.Tensor) else 0))
    x = device(4)
    close(f(x), x + h.t)
    for other in (5, 2.5, "text", b"bytes" * 9, [1], (1, 2), object(), Holder(x), {1: 2}, device, None):
        h.t = device(4) * 2
        close(f(x), x + h.t)
        del h.t
        h.t = other
        close(f(x), x)


# --- versions

VERSIONS = {
    "parameter": lambda: nn.Parameter(device(4)),
    "tensor": lambda: device(4),
    "view": lambda: device(2, 4)[1],
    "kind of the user's": lambda: device(4).as_subclass(type("Own", (torch.Tensor,), {})),
}


@pytest.mark.parametrize("kind", VERSIONS)
def test_versions_are_counted_as_torch_counts_them(way: str, kind: str):
    t = VERSIONS[kind]()
    alias = t.detach()
    f = tp.jit(lambda x: t.detach().add_(x))
    for _ in range(4):
        before = t._version
        f(device(4))
        assert t._version == alias._version > before


def test_a_graph_that_saved_a_tensor_learns_that_a_call_wrote_to_it(way: str):
    w = nn.Parameter(device(4))

    @tp.jit
    @torch.no_grad()
    def step() -> None:
        w.add_(1)

    step()
    loss = (w * w).sum()
    step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_lists_of_tensors_are_counted_too(way: str):
    many = [device(4) for _ in range(3)]
    before = [t._version for t in many]
    torch._foreach_add_(many, 1.0)
    assert [t._version for t in many] == [v + 1 for v in before]


def test_tensors_without_versions_are_written_to(way: str):
    with torch.inference_mode():
        t = device(4)
        f = tp.jit(lambda x: t.add_(x))
        expected = t.cpu()
        for _ in range(3):
            f(torch.ones(4, device="pjrt"))
            expected += 1
            equal(t, expected)


# --- dicts


class Plain:
    pass


def plain() -> Any:
    made = Plain()
    made.scale, made.name, made.items = 2.0, "a", {"a": 1.0}
    return made


def many() -> Any:
    made = plain()
    for k in range(40):
        setattr(made, f"other{k}", k)
    return made


def module() -> Any:
    made = types.ModuleType("made")
    made.scale, made.name, made.items = 2.0, "a", {"a": 1.0}  # type: ignore[attr-defined]
    return made


def of_torch() -> Any:
    made: Any = nn.Linear(1, 1)
    made.scale, made.name, made.items = 2.0, "a", {"a": 1.0}
    return made


def again(o: Any) -> None:
    del o.name
    o.name = "b"


def replaced(o: Any) -> None:
    o.__dict__ = {**vars(o), "name": "b"}


DICTS: dict[str, Callable[[Any], Any]] = {
    "a float": lambda o: setattr(o, "scale", 3.0),
    "a text": lambda o: setattr(o, "name", "b"),
    "through object": lambda o: object.__setattr__(o, "name", "b"),
    "through the dict": lambda o: vars(o).update(name="b"),
    "an item of the dict": lambda o: vars(o).__setitem__("name", "b"),
    "a merge": lambda o: vars(o).__ior__({"name": "b"}),
    "deleted and set": again,
    "another dict of its own": replaced,
    "an inner dict": lambda o: o.items.update(a=2.0),
    "an inner dict, another key": lambda o: o.items.update(b=2.0),
    "an inner dict, one key for another": lambda o: o.items.update(b=o.items.pop("a")),
    "an inner dict, cleared": lambda o: o.items.clear(),
    "another inner dict": lambda o: setattr(o, "items", {"a": 5.0}),
}


@pytest.mark.parametrize("make", [plain, many, module, of_torch])
@pytest.mark.parametrize("change", DICTS)
def test_what_is_done_to_a_dict_is_seen(way: str, make: Callable[[], Any], change: str):
    o = make()
    if isinstance(o, types.ModuleType) and DICTS[change] is replaced:
        return  # a module keeps its dict

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * o.scale + (1 if o.name == "a" else 2) + sum(o.items.values()) + 10 * ("b" in o.items)

    sees(f, lambda: DICTS[change](o), device(4))


def test_globals_are_seen(way: str):
    names: dict[str, Any] = {"scale": 2.0, "name": "a"}
    exec("def f(x):\n    return x * scale + (1 if name == 'a' else 2)\n", names)
    exec("def change():\n    global name\n    name = 'b'\n", names)
    sees(names["f"], names["change"], device(4))


def test_a_number_in_a_dict_that_does_not_change_is_passed_each_time(way: str):
    o = plain()
    f = tp.jit(lambda x: x * o.scale + o.items["a"])
    x = device(4)
    for k in range(6):
        if k == 3:
            o.items["a"] = 7.0
        close(f(x), x * o.scale + o.items["a"])
    assert f.cache_info().misses <= 2


def test_a_dict_that_is_broken_once_is_looked_at_again(way: str):
    o = plain()
    f = tp.jit(lambda x: x + (1 if o.name == "a" else 2))
    x = device(4)
    for name in "aabbabbaab":
        o.name = name
        close(f(x), x + (1 if name == "a" else 2))
    assert f.cache_info().misses == 2


def steps(asks: bool) -> tuple[list[float], int]:
    was = _native.ask_for_all(asks)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).to("pjrt")
    opt = torch.optim.Adam(net.parameters())

    @tp.jit
    def step(x: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    x = device(8, 3)
    losses = [step(x).item() for _ in range(6)]
    _native.ask_for_all(was)
    return losses, step.cache_info().misses


def test_training_is_the_same_where_torch_and_python_are_asked():
    assert steps(asks=False) == steps(asks=True)
