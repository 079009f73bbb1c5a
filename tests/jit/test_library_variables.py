"""Variables, functions and classes of a library that only the library's own code names: a change is seen at the next
call, and what the library changes by itself costs no traces."""

import functools
import importlib
import sys
import threading
import types

import pytest
import torch
import torch_pjrt as tp
from torch_pjrt._names import library_folders

from tests.jit.support import close, sees

CORE = """
import contextvars, functools, os, threading
import torch
import torch.nn.functional as F
from . import deeper
from .deeper import settings
from .deeper import twice as double

SCALE, CHOICE, PAIR, TABLE = 2.0, "mean", (1, 2), torch.tensor([1.0, 2.0])
_CONFIG = {"fused": True, "more": {"k": 2}}
_LIST, _SET, _EMPTY = [1.0, 2.0], {1, 2}, {}
_variable, _local = contextvars.ContextVar("v", default=2.0), threading.local()
_local.k = 2.0
calls, _memo, _last = 0, {}, None


def scaled(x): return x * SCALE
def chosen(x): return x.mean() if CHOICE == "mean" else x.sum()
def paired(x): return x * sum(PAIR)
def tabled(x): return x * float(TABLE.sum())
def fused(x): return x * 2 if _CONFIG["fused"] else x * 3
def nested(x): return x * _CONFIG["more"]["k"]
def listed(x): return x * sum(_LIST)
def in_set(x): return x * sum(_SET)
def by_default(x): return x * _EMPTY.get("k", 2.0)
def in_context(x): return x * _variable.get()
def in_thread(x): return x * _local.k
def down(x): return deeper.outer(x)
def from_other(x): return double(x)
def set_fused(v): _CONFIG["fused"] = v
def flagged(x): return x * 2 if settings.flag else x * 3
def inner_flag(x): return x * settings.inner.k
def by_property(x): return x * settings.computed
def in_slot(x): return x * deeper.slotted.k
def of_class(x): return x * deeper.Slotted.factor
def by_function(x): return x * deeper.get().flag
def _inner(x): return x * 2
def calls_inner(x): return _inner(x)
def uses_torch(x): return F.relu(x)
def by_name(x): return globals()["sca" + "led"](x)
def in_environment(x): return x * float(os.environ.get("SOMELIB", 2))
def getenv(x): return x * float(os.getenv("SOMELIB", 2))


def registered(x): return IMPLEMENTATIONS["first"](x)
IMPLEMENTATIONS = {"first": scaled, "second": fused}


def imports_inside(x):
    from .deeper import LATE
    import somelib.deeper as d
    return x * LATE * d.K


def decorated(f):
    @functools.wraps(f)
    def wrapper(x): return f(x) * SCALE
    return wrapper


@decorated
def wrapped(x): return x + settings.flag


def made():
    k = 2.0
    def f(x): return x * k
    def put(v):
        nonlocal k
        k = v
    return f, put


kept, put = made()


@functools.lru_cache
def cached(n): return SCALE * n
def by_cache(x): return x * cached(3)


class Net(torch.nn.Module):
    gain = 2.0
    def forward(self, x): return self.part(x) * deeper.K
    def part(self, x): return x * self.gain


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * SCALE


class Base:
    factor = 2.0
    def run(self, x): return self.step(x)
    def step(self, x): return x * self.factor * settings.k


def counted(x):
    global calls
    calls += 1
    return x * 2


def remembered(x):
    key = (tuple(x.shape), calls)
    if key not in _memo:
        _memo[key] = object()
    return x * 2


def beside_properties(x):
    objects = deeper.lazy, deeper.lazier, deeper.proxy
    return x * SCALE if objects else objects.k + objects.plain


def made_once(x):
    global _last
    if _last is None:
        _last = 2.0
    return x * _last
"""
DEEPER = """
K, LATE = 2.0, 2.0


class Inner: k = 2.0
class Slotted:
    __slots__ = ("k",)
    factor = 2.0
class Settings:
    def __init__(self): self.flag, self._k, self.k, self.inner = True, 2.0, 2.0, Inner()
    @property
    def computed(self): return self._k


settings, slotted = Settings(), Slotted()
slotted.k = 2.0


def _raises(self): raise IndexError("k")
class Lazy(Slotted): plain, k = 2.0, property(_raises)
class Lazier(Lazy):
    read, plain = [], property(lambda self: self.read.append(1) or self.nothing)
class Proxy: __slots__, __class__ = ("k",), property(_raises)


lazy, lazier, proxy = Lazy(), Lazier(), Proxy()
def get(): return settings
def outer(x): return inner(x)
def inner(x): return x * K
def twice(x): return inner(x) * 2
"""


@pytest.fixture
def lib(tmp_path):
    """The library, new for each test."""
    folder = tmp_path / "installed" / "somelib"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from .core import *\nfrom . import core\n")
    (folder / "core.py").write_text(CORE)
    (folder / "deeper.py").write_text(DEEPER)
    root = str(folder.parent)
    sys.path.insert(0, root)
    library_folders().append(root)
    importlib.invalidate_caches()
    yield importlib.import_module("somelib.core")
    library_folders().remove(root)
    sys.path.remove(root)
    for name in [n for n in sys.modules if n.partition(".")[0] == "somelib"]:
        del sys.modules[name]


def _x():
    return torch.linspace(-1, 2, 6).reshape(2, 3).to("pjrt")


def _calls(name):
    """A function that calls one of the library's."""
    return lambda lib: lambda x: getattr(lib, name)(x)


def _named(lib):
    return lambda x: lib.scaled(x)


def _module(lib):
    net = lib.Net()
    return lambda x: net(x)


def _derived(lib):
    class Mine(lib.Base):
        pass

    mine = Mine()
    return lambda x: mine.run(x)


def _made_inside(lib):
    return lambda x: lib.Base().run(x)


def _gradient(lib):
    def f(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(lib.Function.apply(x).sum(), x)[0]

    return f


def _imported(lib):
    def f(x):
        from somelib.core import scaled

        return scaled(x)

    return f


def _data_named(lib):
    return lambda x: x * lib._CONFIG["more"]["k"] if lib.settings.flag else x


def _set(path, value):
    """Puts a value at a place of the library."""

    def change(lib):
        *parts, last = path.split(".")
        setattr(functools.reduce(getattr, parts, lib), last, value)

    return change


def _times(x, *_, **__):
    return x * 7


CASES = {
    "variable": (_named, _set("SCALE", 3.0)),
    "variable, by getattr": (_calls("scaled"), _set("SCALE", 3)),
    "text": (_calls("chosen"), _set("CHOICE", "sum")),
    "tuple": (_calls("paired"), _set("PAIR", (1, 4))),
    "tensor on the CPU, written": (_calls("tabled"), lambda lib: lib.TABLE.add_(1)),
    "tensor on the CPU": (_calls("tabled"), _set("TABLE", torch.ones(2))),
    "two functions down": (_calls("down"), _set("deeper.K", 3.0)),
    "from another module": (_calls("from_other"), _set("deeper.K", 3.0)),
    "dict": (_calls("fused"), lambda lib: lib.set_fused(False)),
    "dict replaced": (_calls("fused"), _set("_CONFIG", {"fused": False})),
    "dict in a dict": (_calls("nested"), lambda lib: lib._CONFIG["more"].update(k=5)),
    "new entry": (_calls("by_default"), lambda lib: lib._EMPTY.update(k=5.0)),
    "list": (_calls("listed"), lambda lib: lib._LIST.append(3.0)),
    "set": (_calls("in_set"), lambda lib: lib._SET.add(5)),
    "context variable": (_calls("in_context"), lambda lib: lib._variable.set(5.0)),
    "of a thread": (_calls("in_thread"), _set("_local.k", 5.0)),
    "attribute": (_calls("flagged"), _set("settings.flag", False)),
    "attribute of an attribute": (_calls("inner_flag"), _set("settings.inner.k", 5.0)),
    "attribute of a class": (_calls("of_class"), _set("deeper.Slotted.factor", 5.0)),
    "attribute of a function's result": (_calls("by_function"), _set("settings.flag", 5)),
    "behind a property": (_calls("by_property"), _set("settings._k", 5.0)),
    "slot": (_calls("in_slot"), _set("deeper.slotted.k", 5.0)),
    "function": (_calls("calls_inner"), _set("_inner", _times)),
    "function of torch": (_calls("uses_torch"), _set("F.relu", _times)),
    "found by name": (_calls("by_name"), _set("SCALE", 3.0)),
    "registered": (_calls("registered"), _set("SCALE", 3.0)),
    "another registered": (_calls("registered"), lambda lib: lib.IMPLEMENTATIONS.update(first=_times)),
    "imported inside": (_calls("imports_inside"), _set("deeper.LATE", 3.0)),
    "imported inside, by module": (_calls("imports_inside"), _set("deeper.K", 3.0)),
    "imported by the user inside": (_imported, _set("SCALE", 3.0)),
    "decorated": (_calls("wrapped"), _set("settings.flag", 5)),
    "decorator": (_calls("wrapped"), _set("SCALE", 3.0)),
    "closure": (lambda lib: lambda x: lib.kept(x), lambda lib: lib.put(5.0)),
    "behind a cache": (_calls("by_cache"), lambda lib: (_set("SCALE", 5.0)(lib), lib.cached.cache_clear())),
    "module": (_module, _set("deeper.K", 3.0)),
    "class of a module": (_module, _set("Net.gain", 3.0)),
    "method of a module": (_module, _set("Net.part", lambda self, x: x * 7)),
    "base of a class": (_derived, _set("settings.k", 3.0)),
    "attribute of a base": (_derived, _set("Base.factor", 3.0)),
    "method of a base": (_derived, _set("Base.step", lambda self, x: x * 7)),
    "made inside": (_made_inside, _set("Base.factor", 3.0)),
    "method of what is made inside": (_made_inside, _set("Base.step", lambda self, x: x * 7)),
    "gradient": (_gradient, _set("SCALE", 3.0)),
    "data that the user names": (_data_named, lambda lib: lib._CONFIG["more"].update(k=5)),
    "object that the user names": (_data_named, _set("settings.flag", False)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name, lib, monkeypatch):
    make, change = CASES[name]
    monkeypatch.setattr(torch.nn.functional, "relu", torch.nn.functional.relu)
    f, x = make(lib), _x()
    assert sees(f, lambda: change(lib), x) == 2


@pytest.mark.parametrize("name", ["in_environment", "getenv"])
def test_the_environment_is_seen(name, lib, monkeypatch):
    traced, x = tp.jit(_calls(name)(lib)), _x()
    close(traced(x), x * 2)
    monkeypatch.setenv("SOMELIB", "5")
    close(traced(x), x * 5)


def test_going_back_is_no_new_trace(lib):
    traced, x = tp.jit(_named(lib)), _x()
    for scale in (2.0, 3.0, 2.0, 3.0):
        lib.SCALE = scale
        close(traced(x), x * scale)
    assert traced.cache_info().misses == 2
    assert "SCALE is 3.0, was 2.0" in traced.cache_info().reasons[1]


@pytest.mark.parametrize("name", ["counted", "remembered", "made_once"])
def test_what_a_library_changes_itself_costs_few_traces(name, lib):
    f, x = _calls(name)(lib), _x()
    traced = tp.jit(f)
    for i in range(12):
        close(traced(x), x * 2)
        f(torch.ones(i + 1, device="pjrt"))
        if name == "remembered":
            lib.calls += 0
    assert traced.cache_info().misses <= 4


def test_properties_of_a_library_do_not_run(lib):
    x = _x()
    traced = tp.jit(_calls("beside_properties")(lib))
    for scale in (2.0, 3.0):
        lib.SCALE = scale
        for _ in range(2):
            close(traced(x), x * scale)
    assert not lib.deeper.Lazier.read
    assert traced.cache_info().misses == 2


def test_a_profiler_of_the_users_is_left_alone(lib):
    seen = []

    def note(frame, event, argument):
        if event == "call":
            seen.append(frame.f_code.co_name)

    traced, x = tp.jit(_named(lib)), _x()
    sys.setprofile(note)
    try:
        close(traced(x), x * 2)
        assert sys.getprofile() is note
    finally:
        sys.setprofile(None)
    assert "scaled" in seen
    lib.SCALE = 3.0
    for _ in range(2):
        close(traced(x), x * 3)
    assert sys.getprofile() is None


def test_another_thread_has_its_own(lib):
    traced, x, results = tp.jit(_named(lib)), _x(), []
    t = threading.Thread(target=lambda: results.append(traced(x)))
    t.start()
    t.join()
    lib.SCALE = 3.0
    close(traced(x), x * 3)
    close(results[0], x * 2)


def test_the_library_counts_as_one(lib):
    assert isinstance(lib, types.ModuleType)
    assert tp._names.is_foreign(lib)
