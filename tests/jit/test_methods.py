"""jit in classes: it binds as what it wraps does, and each object has its own programs and its own state."""

import abc
import copy
import functools
import gc
import inspect
import pickle
import types
import typing
import weakref

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import equal

FACTOR = 1.0


class Scaled:
    """A descriptor whose function depends on the object."""

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(_scaled, instance.k)


def _scaled(k, x):
    return x * k


class Kind(type):
    @tp.jit
    def of_the_metaclass(cls, x):
        return x * cls.K


class Thing(metaclass=Kind):
    K = 2.0

    def __init__(self, k):
        self.k = k

    @tp.jit
    def method(self, x):
        """Says what it does."""
        return x * self.k

    @tp.jit
    @classmethod
    def above_a_classmethod(cls, x):
        return x * cls.K

    @classmethod
    @tp.jit
    def below_a_classmethod(cls, x):
        return x * cls.K

    @tp.jit
    @staticmethod
    def above_a_staticmethod(x):
        return x * 3

    @staticmethod
    @tp.jit
    def below_a_staticmethod(x):
        return x * 3

    def _plain(self, x, k=1):
        return x * self.k * k

    @classmethod
    def _of_the_class(cls, x):
        return x * cls.K

    partial = tp.jit(functools.partialmethod(_plain, k=5))
    descriptor = tp.jit(Scaled())
    late = tp.jit(_plain)
    builtin = tp.jit(torch.neg)
    module = tp.jit(nn.ReLU())

    @property
    @tp.jit
    def value(self):
        return torch.ones(2, device="pjrt") * self.k

    @functools.singledispatchmethod
    def _by_type(self, x):
        return x * self.k

    by_type = tp.jit(_by_type)

    def __call__(self, x):
        return x * self.k + 1


class Other(Thing):
    K = 7.0


def _x():
    return torch.tensor([1.0, 2.0], device="pjrt")


BOUND = ["method", "partial", "descriptor", "late", "by_type"]
FACTORS = {"partial": 5}


@pytest.mark.parametrize("name", BOUND)
def test_each_object_has_its_own_programs_and_state(name):
    x, things = _x(), [Thing(2.0), Thing(3.0), Other(4.0)]
    for _ in range(2):
        for t in things:
            equal(getattr(t, name)(x), x * t.k * FACTORS.get(name, 1))
    for t in things:
        assert getattr(t, name).cache_info().misses == 1, name
    things[0].k = 5.0
    equal(getattr(things[0], name)(x), x * 5 * FACTORS.get(name, 1))
    equal(getattr(things[1], name)(x), x * 3 * FACTORS.get(name, 1))


@pytest.mark.parametrize("name", ["above_a_classmethod", "below_a_classmethod", "of_the_metaclass"])
def test_each_class_has_its_own_programs(name):
    x = _x()
    for _ in range(2):
        for cls in (Thing, Other):
            equal(getattr(cls, name)(x), x * cls.K)
            if name != "of_the_metaclass":
                equal(getattr(cls(1.0), name)(x), x * cls.K)


@pytest.mark.parametrize("name", ["above_a_staticmethod", "below_a_staticmethod"])
def test_a_staticmethod_binds_nothing(name):
    for holder in (Thing, Thing(1.0), Other, Other(1.0)):
        equal(getattr(holder, name)(_x()), _x() * 3)
    assert getattr(Thing, name) is getattr(Other(1.0), name)


def test_what_does_not_bind_by_itself_does_not_bind():
    t = Thing(1.0)
    equal(t.builtin(_x()), -_x())
    equal(t.module(-_x()), _x() * 0)


def test_functions_that_were_bound_before():
    x, a, b = _x(), Thing(2.0), Other(3.0)
    equal(tp.jit(a._plain)(x), x * 2)
    equal(tp.jit(b._plain)(x), x * 3)
    unbound = tp.jit(Thing._plain)
    for t in (a, b, a):
        equal(unbound(t, x), x * t.k)
        equal(Thing.method(t, x), x * t.k)
        equal(tp.jit(functools.partial(Thing._plain, t))(x), x * t.k)
        equal(functools.partial(t.method)(x), x * t.k)
        equal(tp.jit(t)(x), x * t.k + 1)
        equal(t.value, torch.ones(2) * t.k)
    equal(tp.jit(Thing._of_the_class)(x), x * 2)
    equal(tp.jit(Other._of_the_class)(x), x * 7)


class Slots:
    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k

    @tp.jit
    def method(self, x):
        return x * self.k


class Pair(typing.NamedTuple):
    k: float
    more: float

    def plain(self, x):
        return x * self.k


Pair.method = tp.jit(Pair.plain)


def test_objects_without_a_dict():
    x, a, b = _x(), Slots(2.0), Slots(3.0)
    for _ in range(2):
        equal(a.method(x), x * 2)
        equal(b.method(x), x * 3)
    assert a.method.cache_info().misses == 1
    before = Pair.method.cache_info().misses
    for k in (2.0, 3.0, 4.0):
        equal(Pair(k, 0.0).method(x), x * k)
    assert Pair.method.cache_info().misses == before + 1


def test_a_method_of_another_object_is_no_new_trace():
    t = Thing(2.0)
    for _ in range(3):
        t.method(_x())
        t.late(_x())
    assert t.method.cache_info().misses == t.late.cache_info().misses == 1


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_copy_has_its_own_state(duplicate):
    t = Thing(2.0)
    t.method(_x())
    t.late(_x())
    second = duplicate(t)
    second.k = 9.0
    for name in ("method", "late", "partial"):
        equal(getattr(second, name)(_x()), _x() * 9 * FACTORS.get(name, 1))
        equal(getattr(t, name)(_x()), _x() * 2 * FACTORS.get(name, 1))


def test_bound_functions_are_copied_with_their_object():
    for f in (Thing.method, Thing.above_a_classmethod, Thing.above_a_staticmethod):
        if f is not Thing.above_a_staticmethod:
            assert pickle.loads(pickle.dumps(f)) is f
        assert copy.deepcopy(f)(*([Thing(3.0)] if f is Thing.method else []), _x()).shape == (2,)
    bound = pickle.loads(pickle.dumps(Thing(4.0).method))
    equal(bound(_x()), _x() * 4)


@pytest.mark.parametrize("name", ["method", "late"])
def test_an_object_ends_with_its_programs(name):
    t = Thing(2.0)
    getattr(t, name)(_x())
    end = weakref.ref(t)
    del t
    gc.collect()
    assert end() is None


def test_it_looks_like_what_it_wraps():
    def f(x: int) -> int:
        """Doc."""

    f.tag = "mine"
    wrapped = tp.jit(f)
    assert (wrapped.__name__, wrapped.__doc__, wrapped.tag) == ("f", "Doc.", "mine")
    assert typing.get_type_hints(wrapped) == {"x": int, "return": int}
    assert Thing.method.__qualname__ == "Thing.method"
    assert Thing.method.__doc__ == "Says what it does."
    assert Thing.above_a_classmethod.__name__ == "above_a_classmethod"
    assert list(inspect.signature(Thing(1.0).method).parameters) == ["x"]
    assert list(inspect.signature(Thing.above_a_classmethod).parameters) == ["x"]
    assert tp.jit(functools.partial(f, 1)).__name__ == "f"

    class Base(abc.ABC):
        @tp.jit
        @abc.abstractmethod
        def g(self, x): ...

    with pytest.raises(TypeError, match="abstract"):
        Base()


@pytest.mark.parametrize("what", [3, property(lambda s: s), functools.cached_property(lambda s: s)])
def test_what_is_no_function_is_refused_at_once(what):
    with pytest.raises(TypeError, match=r"argument `fn`: got a .*Way out"):
        tp.jit(what)


def test_static_and_donated_arguments_are_counted_as_they_are_written():
    class Model:
        @tp.jit(static_argnums=2, donate=1)
        def method(self, x, n):
            return x * n if n > 2 else x

        @tp.jit(static_argnums=2)
        @classmethod
        def of_the_class(cls, x, n):
            return x * n if n > 2 else x

        @tp.jit(static_argnums=1, pad_batch=0)
        @staticmethod
        def of_nobody(x, n):
            return x * n if n > 2 else x

    for n in (2, 3):
        for f in (Model().method, Model.of_the_class, Model().of_the_class, Model.of_nobody, Model().of_nobody):
            equal(f(_x(), n), _x() * (n if n > 2 else 1))


class Loose:
    """What code of a class reaches through what wraps it."""

    @property
    @tp.jit
    def by_property(self):
        return torch.ones(2, device="pjrt") * FACTOR

    @tp.jit
    @classmethod
    def by_class(cls, x):
        return x * FACTOR

    @tp.jit
    @staticmethod
    def by_nobody(x):
        return x * FACTOR

    @functools.singledispatchmethod
    def by_type(self, x):
        return x * FACTOR

    held = types.SimpleNamespace(k=1.0)

    def _with(self, held, x):
        return x * held.k * FACTOR

    by_partial = functools.partialmethod(_with, held)
    descriptor = Scaled()
    k = 1.0


READS = {
    "property": lambda o, x: o.by_property,
    "classmethod": lambda o, x: o.by_class(x),
    "classmethod of the class": lambda o, x: Loose.by_class(x),
    "staticmethod": lambda o, x: o.by_nobody(x),
    "singledispatchmethod": lambda o, x: o.by_type(x),
    "partialmethod": lambda o, x: o.by_partial(x),
}


@pytest.mark.parametrize("name", READS)
def test_what_a_method_behind_a_wrapper_reads_is_watched(name, monkeypatch):
    o = Loose()
    f = tp.jit(lambda x: READS[name](o, x))
    ones = torch.ones(2, device="pjrt")
    for factor in (1.0, 4.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        equal(f(ones), ones * factor)
    if name == "partialmethod":
        monkeypatch.setattr(Loose.held, "k", 3.0)
        equal(f(ones), ones * 6)


class Offset:
    def __init__(self, k):
        self.k = k

    def __get__(self, instance, owner):
        return self.k * (1.0 if instance is None else instance.base)


class Based:
    base = 3.0
    offset = Offset(2.0)


def test_a_descriptor_of_the_users_is_watched(monkeypatch):
    o = Based()
    f = tp.jit(lambda x: x * o.offset)
    equal(f(_x()), _x() * 6)
    monkeypatch.setattr(vars(Based)["offset"], "k", 5.0)
    equal(f(_x()), _x() * 15)
    monkeypatch.setattr(Based, "base", 1.0)
    equal(f(_x()), _x() * 5)
