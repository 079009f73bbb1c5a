"""Objects of frozen dataclasses: an equal one in the place of another is no new trace, a different one is."""

import dataclasses
import enum
import functools
import types

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close

X = torch.arange(8.0).reshape(2, 4)


class Kind(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


@dataclasses.dataclass(frozen=True)
class Inner:
    scale: float = 1.0
    names: tuple = ("a", (1, Kind.DOUBLE))


@dataclasses.dataclass(frozen=True)
class Config:
    kind: Kind
    inner: Inner = Inner()

    def apply(self, x):
        return x * self.kind.value * self.inner.scale + len(self.inner.names)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    kind: Kind
    inner: Inner = Inner()

    apply = Config.apply


@dataclasses.dataclass
class Open:
    kind: Kind

    def apply(self, x):
        return x * self.kind.value


@dataclasses.dataclass(frozen=True)
class Holding:
    items: list

    def apply(self, x):
        return x * self.items[0]


@dataclasses.dataclass(frozen=True)
class Keeping:
    n: int

    @functools.cached_property
    def twice(self):
        return self.n * 2

    def apply(self, x):
        return x * self.n


def _run(makers):
    here = types.SimpleNamespace()
    traced = tp.jit(lambda x: here.c.apply(x))
    for make in makers:
        here.c = make()
        close(traced(X.to("pjrt")), here.c.apply(X))
    return traced.cache_info().misses


@pytest.mark.parametrize("cls", [Config, Slotted])
def test_equal_ones(cls):
    assert _run([lambda: cls(Kind.DOUBLE)] * 5) == 1
    assert _run([lambda: cls(Kind.DOUBLE, Inner(2.0, ("b", ())))] * 5) == 1


@pytest.mark.parametrize("cls", [Config, Slotted])
def test_different_ones(cls):
    makers = [
        lambda: cls(Kind.DOUBLE),
        lambda: cls(Kind.TRIPLE),
        lambda: cls(Kind.TRIPLE, Inner(0.5)),
        lambda: cls(Kind.TRIPLE, Inner(0.5, ("a",))),
        lambda: cls(Kind.TRIPLE, Inner(0.5, ("a", 1, 2))),
    ]
    assert _run([m for m in makers for _ in range(2)]) == 5


def test_other_classes_are_compared_by_identity():
    assert _run([lambda: Open(Kind.DOUBLE)] * 3) == 3
    assert _run([lambda: Holding([2])] * 3) == 3
    assert _run([lambda: Config(Kind.DOUBLE), lambda: Slotted(Kind.DOUBLE)]) == 2


def test_one_that_keeps_what_it_computed():
    def kept():
        made = Keeping(3)
        made.__dict__["twice"] = 8
        return made

    assert _run([lambda: Keeping(3), lambda: Keeping(3), kept]) == 2
