"""What a function reads in Python, wherever it is kept: a change of it is seen, and what cannot be seen is refused."""

import argparse
import array
import collections
import contextvars
import functools
import os
import sys
import threading
import types
import weakref

import numpy as np
import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close, sees


def _ones(value=1.0):
    return torch.full((3,), value).to("pjrt")


def _namespace(make):
    def case():
        a = make(k=2.0)
        return lambda x: x * a.k, lambda: setattr(a, "k", 5.0)

    return case


def _class_attribute():
    class Config:
        k = 2.0

    return lambda x: x * Config.k, lambda: setattr(Config, "k", 5.0)


def _attribute_of_a_base():
    class A:
        k = 2.0

    class B(A):
        pass

    b = B()
    return lambda x: x * b.k, lambda: setattr(A, "k", 5.0)


def _default_overridden():
    class A:
        k = 2.0

    a = A()
    return lambda x: x * a.k, lambda: setattr(a, "k", 5.0)


def _class_attribute_of_a_module():
    class Net(nn.Module):
        k = 2.0

        def forward(self, x):
            return x * self.k

    m = Net()
    return lambda x: m(x), lambda: setattr(Net, "k", 5.0)


def _method_replaced():
    class Net(nn.Module):
        def forward(self, x):
            return x * 2

    m = Net()
    return lambda x: m(x), lambda: setattr(Net, "forward", lambda self, x: x * 5)


def _class_method():
    class A:
        k = 2.0

        @classmethod
        def f(cls, x):
            return x * cls.k

    return A.f, lambda: setattr(A, "k", 5.0)


def _property():
    class Config:
        k = 2.0

    class A:
        @property
        def k(self):
            return Config.k

    a = A()
    return lambda x: x * a.k, lambda: setattr(Config, "k", 5.0)


def _metaclass():
    class M(type):
        k = 2.0

    class A(metaclass=M):
        pass

    return lambda x: x * A.k, lambda: setattr(M, "k", 5.0)


def _by_getattr():
    class A:
        def __init__(self):
            self.first, self.second = 2.0, 3.0

    a = A()
    return lambda x: x * getattr(a, "fir" + "st"), lambda: setattr(a, "first", 5.0)


def _code_replaced():
    def g(x):
        return x * 2

    return lambda x: g(x), lambda: setattr(g, "__code__", (lambda x: x * 5).__code__)


def _defaults_replaced():
    def g(x, k=2.0):
        return x * k

    return lambda x: g(x), lambda: setattr(g, "__defaults__", (5.0,))


def _deque():
    d = collections.deque([_ones()], maxlen=4)
    return lambda x: x * sum(d), lambda: d.append(_ones(9.0))


def _set():
    s = {1, 2}
    return lambda x: x * sum(s), lambda: s.add(5)


def _numpy(read):
    def case():
        a = np.ones(3, dtype=np.float32)
        return lambda x: x * read(a), lambda: a.__setitem__(0, 9)

    return case


def _weak():
    class A:
        pass

    a = A()
    a.w = _ones()
    r = weakref.ref(a)
    return lambda x: x * r().w, lambda: setattr(a, "w", _ones(5.0))


def _distribution():
    d = torch.distributions.Normal(_ones(0.0), _ones())
    return lambda x: d.log_prob(x), lambda: setattr(d, "loc", _ones(5.0))


def _lru_cache():
    class Config:
        k = 2.0

    @functools.lru_cache
    def k(n):
        return Config.k * n

    return lambda x: x * k(3), lambda: (setattr(Config, "k", 5.0), k.cache_clear())


def _on_a_tensor():
    p = nn.Parameter(_ones(), requires_grad=False)
    p.k = 2.0
    return lambda x: x * p * p.k, lambda: setattr(p, "k", 5.0)


def _environment():
    os.environ["TEST_WATCHED"] = "2"
    return lambda x: x * int(os.environ["TEST_WATCHED"]), lambda: os.environ.__setitem__("TEST_WATCHED", "5")


def _proxy():
    d = {"k": 2.0}
    p = types.MappingProxyType(d)
    return lambda x: x * p["k"], lambda: d.__setitem__("k", 5.0)


def _user_dict():
    d = collections.UserDict(k=2.0)
    return lambda x: x * d["k"], lambda: d.__setitem__("k", 5.0)


def _chain_map():
    d = {"k": 2.0}
    c = collections.ChainMap({}, d)
    return lambda x: x * c["k"], lambda: d.__setitem__("k", 5.0)


def _list_with_attributes():
    class L(list):
        pass

    a = L()
    a.k = 2.0
    return lambda x: x * a.k, lambda: setattr(a, "k", 5.0)


def _bytes(make):
    def case():
        b = make([2, 3])
        return lambda x: x * b[0], lambda: b.__setitem__(0, 5)

    return case


def _context_variable():
    v = contextvars.ContextVar("v", default=2.0)
    return lambda x: x * v.get(), lambda: v.set(5.0)


def _thread_local():
    v = threading.local()
    v.k = 2.0
    return lambda x: x * v.k, lambda: setattr(v, "k", 5.0)


def _imported_inside():
    m = types.ModuleType("watched_by_test")
    m.K = 2.0
    sys.modules["watched_by_test"] = m

    def f(x):
        import watched_by_test

        return x * watched_by_test.K

    return f, lambda: setattr(m, "K", 5.0)


def _module_in_a_closure():
    m = types.ModuleType("watched_too")
    m.K = 2.0
    return lambda x: x * m.K, lambda: setattr(m, "K", 5.0)


CASES = {
    "SimpleNamespace": _namespace(types.SimpleNamespace),
    "argparse": _namespace(argparse.Namespace),
    "class": _class_attribute,
    "base": _attribute_of_a_base,
    "overridden": _default_overridden,
    "class of a module": _class_attribute_of_a_module,
    "method": _method_replaced,
    "classmethod": _class_method,
    "property": _property,
    "metaclass": _metaclass,
    "getattr": _by_getattr,
    "code": _code_replaced,
    "defaults": _defaults_replaced,
    "deque": _deque,
    "set": _set,
    "numpy, from_numpy": _numpy(lambda a: torch.from_numpy(a).to("pjrt")),
    "numpy, tensor": _numpy(lambda a: torch.tensor(a).to("pjrt")),
    "numpy, item": _numpy(lambda a: float(a[0])),
    "weakref": _weak,
    "distribution": _distribution,
    "lru_cache": _lru_cache,
    "tensor": _on_a_tensor,
    "environ": _environment,
    "proxy": _proxy,
    "UserDict": _user_dict,
    "ChainMap": _chain_map,
    "list": _list_with_attributes,
    "bytearray": _bytes(bytearray),
    "array": _bytes(lambda v: array.array("f", v)),
    "ContextVar": _context_variable,
    "local": _thread_local,
    "import": _imported_inside,
    "module": _module_in_a_closure,
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name):
    f, change = CASES[name]()
    x = torch.arange(6.0).reshape(2, 3).to("pjrt") + 1
    sees(f, change, x)


def test_hooks_of_all_modules_are_seen():
    m = nn.Linear(3, 3).to("pjrt").requires_grad_(False)
    x = torch.ones(2, 3).to("pjrt")
    f = tp.jit(lambda x: m(x))
    f(x)
    hook = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 3)
    try:
        close(f(x), m(x))
    finally:
        hook.remove()
    close(f(x), m(x))


def test_what_an_lru_cache_kept_of_a_trace_is_dropped():
    @functools.lru_cache
    def mask(n):
        return torch.ones(n, n, device="pjrt").tril()

    f = tp.jit(lambda x: x @ mask(3))
    for n in (2, 4):
        x = torch.randn(n, 3).to("pjrt")
        close(f(x), x.cpu() @ torch.ones(3, 3).tril())
    close(mask(3), torch.ones(3, 3).tril())


def test_what_the_function_does_not_read_is_not_watched():
    class Trainer:
        def __init__(self):
            self.model, self.seen, self.history, self.best = nn.Linear(3, 2).to("pjrt"), 0, [], None
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.step = tp.jit(self._step)

        def _step(self, x):
            self.optimizer.zero_grad()
            loss = self.model(x).pow(2).mean()
            loss.backward()
            self.optimizer.step()
            return loss

        def fit(self, x):
            loss = float(self.step(x))
            self.seen += 1
            self.history.append(loss)
            self.best = min(self.best or loss, loss)
            self.model.epoch = self.seen

    t = Trainer()
    t.model.epoch = 0
    for _ in range(6):
        t.fit(torch.ones(2, 3).to("pjrt"))
    assert t.step.cache_info().misses == 2
    assert t.history == sorted(t.history, reverse=True)
