"""What is not there when a function is traced, and comes later; and tensors that take the place of plain values."""

import collections
import copy
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from .support import close, refusal, sees

X = torch.arange(1.0, 4.0)


def x() -> torch.Tensor:
    return X.to("pjrt")


def module(**names: Any) -> types.ModuleType:
    m = types.ModuleType("some")
    vars(m).update(names)
    return m


# --- globals


@pytest.mark.parametrize(
    "code",
    [
        "def f(x): return x * abs(-2)",
        "def f(x): return x * (lambda v: abs(v))(-2)",
        "def f(x): return x * eval('abs(-2)')",
    ],
)
def test_a_global_comes_to_stand_before_a_builtin(code: str) -> None:
    scope: dict[str, Any] = {}
    exec(code, scope)
    assert sees(scope["f"], lambda: scope.update(abs=lambda v: 5), x()) == 2


@pytest.mark.parametrize(
    "body",
    [
        "try: v = later\n except NameError: v = 1",
        "v = globals().get('later', 1)",
        "v = later if 'later' in globals() else 1",
    ],
)
def test_a_global_comes_later(body: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f(x):\n {body}\n return x * v", scope)
    assert sees(scope["f"], lambda: scope.update(later=4), x()) == 2


def test_a_name_that_is_not_there_costs_no_new_trace_when_others_come() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x): return x * abs(-2)", scope)
    traced = tp.jit(scope["f"])
    for i in range(4):
        close(traced(x()), 2 * X)
        scope[f"other{i}"] = scope["loss"] = torch.ones(1)
    assert traced.cache_info().misses == 1


def test_a_global_goes_again() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x): return x * abs(-2)", scope)
    traced = tp.jit(scope["f"])
    for factor in (2, 5, 2, 5):
        if factor == 5:
            scope["abs"] = lambda v: 5
        else:
            scope.pop("abs", None)
        for _ in range(2):
            close(traced(x()), factor * X)


def test_a_global_that_the_function_makes() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n global made\n made = x * 2\n return made + 1", scope)
    traced = tp.jit(scope["f"])
    for k in range(1, 5):
        close(traced(x() * k), 2 * k * X + 1)
        close(scope["made"], 2 * k * X)
    assert traced.cache_info().misses <= 2


def test_a_global_that_the_function_makes_once() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n global table\n if 'table' not in globals(): table = [2]\n return x * table[0]", scope)
    traced = tp.jit(scope["f"])
    for _ in range(4):
        close(traced(x()), 2 * X)
    scope["table"][0] = 3
    close(traced(x()), 3 * X)
    del scope["table"]
    close(traced(x()), 2 * X)
    assert scope["table"] == [2]


def test_what_was_made_is_taken_back_from_a_function_that_fails() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n global made\n made = x * 2\n return int(made.sum())", scope)
    refusal(scope["f"], x())
    assert "made" not in scope


def test_a_builtin_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sees(lambda v: v * abs(-2), lambda: monkeypatch.setattr("builtins.abs", lambda v: 5), x()) == 2


# --- modules and classes


def with_getattr(of: Any, v: torch.Tensor) -> Any:
    return v * getattr(of, "flag", 1)


def with_hasattr(of: Any, v: torch.Tensor) -> Any:
    return v * 4 if hasattr(of, "flag") else v


def with_try(of: Any, v: torch.Tensor) -> Any:
    try:
        return v * of.flag
    except AttributeError:
        return v


def with_dict(of: Any, v: torch.Tensor) -> Any:
    return v * vars(of).get("flag", 1)


WAYS = [with_getattr, with_hasattr, with_try, with_dict]


@pytest.mark.parametrize("way", WAYS)
def test_an_attribute_of_a_module_comes_later(way: Callable[..., Any]) -> None:
    m = module()
    assert sees(lambda v: way(m, v), lambda: setattr(m, "flag", 4), x()) == 2


def test_an_attribute_of_a_module_that_getattr_finds_changes() -> None:
    m = module(flag=2)
    assert sees(lambda v: with_getattr(m, v), lambda: setattr(m, "flag", 4), x()) <= 2


def test_an_attribute_of_a_module_that_a_loop_asks_for() -> None:
    m = module()

    def f(v: torch.Tensor) -> Any:
        for name in ("flag", "other"):
            v = v * getattr(m, name, 1)
        return v

    assert sees(f, lambda: setattr(m, "flag", 4), x()) == 2


def test_an_attribute_of_a_function_comes_later() -> None:
    def scaled(v: torch.Tensor) -> torch.Tensor:
        return v * getattr(scaled, "by", 1)

    assert sees(lambda v: scaled(v), lambda: setattr(scaled, "by", 4), x()) == 2


@pytest.mark.parametrize("way", WAYS)
def test_an_attribute_of_a_class_comes_later(way: Callable[..., Any]) -> None:
    class Settings:
        pass

    assert sees(lambda v: way(Settings, v), lambda: setattr(Settings, "flag", 4), x()) == 2


class Answers:
    unused = 1

    def __getattr__(self, name: str) -> Any:
        return lambda v: v


def test_a_class_has_as_many_attributes_as_before_but_others() -> None:
    class Some(Answers):
        unused = 1

    it = Some()

    def change() -> None:
        del Some.unused
        Some.go = lambda self, v: v * 5  # type: ignore[attr-defined]

    assert sees(lambda v: it.go(v), change, x()) == 2


def test_a_class_method_is_replaced_after_many_calls() -> None:
    class Some:
        @classmethod
        def go(cls, v: torch.Tensor) -> torch.Tensor:
            return v * 2

    def change() -> None:
        Some.go = classmethod(lambda cls, v: v * 3)  # type: ignore[method-assign, assignment]

    assert sees(lambda v: Some.go(v), change, x()) == 2


# --- slots and cells


class Slots:
    __slots__ = ("__hidden", "a", "b")

    def hide(self, value: Any) -> None:
        self.__hidden = value

    def hidden(self) -> Any:
        return self.__hidden


def test_an_unset_slot_is_set() -> None:
    it = Slots()
    assert sees(lambda v: v * getattr(it, "a", 1), lambda: setattr(it, "a", 4), x()) == 2


def test_an_unset_slot_that_code_tries_is_set() -> None:
    it = Slots()

    def f(v: torch.Tensor) -> Any:
        try:
            return v * it.a
        except AttributeError:
            return v

    assert sees(f, lambda: setattr(it, "a", 4), x()) == 2


def test_a_slot_with_a_private_name() -> None:
    it = Slots()
    it.hide(2)
    assert sees(lambda v: v * it.hidden(), lambda: it.hide(4), x()) <= 2


def test_a_slot_that_the_function_sets() -> None:
    it = Slots()

    def f(v: torch.Tensor) -> torch.Tensor:
        it.a = v * 2
        return v + getattr(it, "b", 0)

    traced = tp.jit(f)
    for k in range(1, 5):
        close(traced(x() * k), k * X)
        close(it.a, 2 * k * X)
    assert traced.cache_info().misses <= 2


def test_a_slot_that_a_failing_function_set_is_unset_again() -> None:
    it = Slots()

    def f(v: torch.Tensor) -> int:
        it.a = v * 2
        return int(it.a.sum())

    refusal(f, x())
    assert not hasattr(it, "a")


def _with_a_cell() -> tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[Any], None]]:
    def f(v: torch.Tensor) -> torch.Tensor:
        try:
            return v * held
        except NameError:
            return v

    def fill(value: Any) -> None:
        nonlocal held
        held = value

    if not callable(f):
        held = None
    return f, fill


def test_an_empty_cell_is_filled() -> None:
    f, fill = _with_a_cell()
    assert sees(f, lambda: fill(3), x()) == 2


def test_an_empty_cell_that_the_function_fills() -> None:
    _, fill = _with_a_cell()

    def f(v: torch.Tensor) -> torch.Tensor:
        fill(v * 2)
        return v + 1

    traced = tp.jit(f)
    for k in range(1, 5):
        close(traced(x() * k), k * X + 1)
        close(fill.__closure__[0].cell_contents, 2 * k * X)  # type: ignore[attr-defined]


def test_an_empty_cell_that_a_failing_function_filled_is_empty_again() -> None:
    g, fill = _with_a_cell()

    def f(v: torch.Tensor) -> int:
        fill(v * 2)
        return int(v.sum())

    refusal(f, x())
    close(g(x()), X)


# --- what a dict makes of a key that it lacks


def test_a_default_factory_is_replaced() -> None:
    d: Any = collections.defaultdict(lambda: 2)

    def f(v: torch.Tensor) -> torch.Tensor:
        out = v * d["k"]
        d.clear()
        return out

    assert sees(f, lambda: setattr(d, "default_factory", lambda: 5), x()) == 2


def test_what_a_default_factory_reads_changes() -> None:
    settings = {"start": 2.0}
    d: Any = collections.defaultdict(lambda: settings["start"])

    def f(v: torch.Tensor) -> torch.Tensor:
        out = v * d["k"]
        d.clear()
        return out

    assert sees(f, lambda: settings.update(start=5.0), x()) <= 2


# --- a tensor where a plain value was


class Experts(nn.Module):
    def __init__(self, start: Any) -> None:
        super().__init__()
        self.gate = nn.Linear(3, 3)
        self.aux = start

    def forward(self, v: torch.Tensor) -> torch.Tensor:
        y = self.gate(v)
        self.aux = y.square().mean()
        return y


@pytest.mark.parametrize("start", [None, 0.0, 0, False, "nothing yet", torch.zeros(())], ids=str)
@pytest.mark.parametrize("inside", [False, True])
def test_an_auxiliary_loss_takes_the_place_of_a_plain_value(start: Any, inside: bool) -> None:
    torch.manual_seed(0)
    host = Experts(start)
    device = copy.deepcopy(host).to("pjrt")
    if isinstance(start, torch.Tensor):
        device.aux = start.to("pjrt")
    run: Any = tp.jit(device)

    def total(v: torch.Tensor) -> torch.Tensor:
        return device(v).sum() + device.aux

    traced_total = tp.jit(total)
    for i in range(4):
        v = torch.full((2, 3), float(i))
        (host(v).sum() + host.aux).backward()
        loss = traced_total(v.to("pjrt")) if inside else run(v.to("pjrt")).sum() + device.aux
        loss.backward()
        close(device.aux, host.aux)
        for p, q in zip(device.parameters(), host.parameters(), strict=True):
            assert p.grad is not None and q.grad is not None
            close(p.grad, q.grad)
    assert (traced_total if inside else run).cache_info().misses <= 2


def test_a_tensor_takes_the_place_of_a_number_that_varies() -> None:
    m = module()
    m.total = 1.0  # type: ignore[attr-defined]

    def f(v: torch.Tensor) -> torch.Tensor:
        out = v * m.total  # type: ignore[attr-defined]
        m.total = v.sum()  # type: ignore[attr-defined]
        return out

    traced = tp.jit(f)
    for start in (1.0, 2.0, 3.0, 4.0):
        m.total = start  # type: ignore[attr-defined]
        close(traced(x()), X * start)
        close(m.total, X.sum())  # type: ignore[attr-defined]
        close(traced(x()), X * X.sum())


def test_a_sum_that_starts_as_a_number_and_is_set_back() -> None:
    class Sums:
        total: Any = 0.0

    it = Sums()
    it.total = 0.0

    def f(v: torch.Tensor) -> torch.Tensor:
        it.total = it.total + v.sum()
        return v + 1

    traced = tp.jit(f)
    for _ in range(3):
        it.total = 0.0
        for k in range(1, 4):
            close(traced(x()), X + 1)
            close(it.total, k * X.sum())
    assert traced.cache_info().misses <= 3
