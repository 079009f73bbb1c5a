"""What a function reads behind weak references and by names that its code has as texts, and modules that it imports."""

import enum
import importlib
import logging
import operator
import sys
import types
import weakref

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close, sees


def _ones(value=1.0):
    return torch.full((3,), value).to("pjrt")


def _weak_keys():
    key, held = nn.Identity(), weakref.WeakKeyDictionary()
    held[key] = 2.0
    return lambda x: x * held[key], lambda: held.__setitem__(key, 5.0)


def _weak_values():
    first, second, held = _ones(2.0), _ones(5.0), weakref.WeakValueDictionary()
    held["k"] = first
    return lambda x: x * held["k"], lambda: (first, held.__setitem__("k", second))


def _weak_set():
    a, held = nn.Identity(), weakref.WeakSet()
    return lambda x: x * (2.0 if a in held else 5.0), lambda: held.add(a)


class _Trainer:
    def __init__(self):
        self.k, self.w = 2.0, _ones()


def _weak_proxy(change):
    def case():
        t = _Trainer()

        class Callback:
            trainer = weakref.proxy(t)

            def f(self, x):
                return x * self.trainer.k * self.trainer.w

        return Callback().f, lambda: change(t)

    return case


def _logger():
    log = logging.getLogger("tests.jit.behind")
    log.setLevel(logging.INFO)
    return lambda x: x * (2.0 if log.isEnabledFor(logging.DEBUG) else 5.0), lambda: log.setLevel(logging.DEBUG)


def _getter():
    a, get = types.SimpleNamespace(k=2.0), operator.attrgetter("k")
    return lambda x: x * get(a), lambda: setattr(a, "k", 5.0)


class _Choice(enum.Enum):
    A = [2.0]


def _enum():
    _Choice.A.value[0] = 2.0
    return lambda x: x * _Choice.A.value[0], lambda: _Choice.A.value.__setitem__(0, 5.0)


EVALUATED = 2.0


def _by_text(f):
    def case():
        globals()["EVALUATED"] = 2.0
        return f, lambda: globals().__setitem__("EVALUATED", 5.0)

    return case


CASES = {
    "weak keys": _weak_keys,
    "weak values": _weak_values,
    "weak set": _weak_set,
    "attribute behind a proxy": _weak_proxy(lambda t: setattr(t, "k", 5.0)),
    "tensor behind a proxy": _weak_proxy(lambda t: setattr(t, "w", _ones(5.0))),
    "logger": _logger,
    "attrgetter": _getter,
    "enum": _enum,
    "globals()": _by_text(lambda x: x * globals()["EVALUATED"]),
    "eval": _by_text(lambda x: x * eval("EVALUATED + 1")),
    "sys.modules": _by_text(lambda x: x * sys.modules["tests.jit.test_behind"].EVALUATED),
    "import_module": _by_text(lambda x: x * importlib.import_module("tests.jit.test_behind").EVALUATED),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_seen(name):
    f, change = CASES[name]()
    x = torch.arange(6.0).reshape(2, 3).to("pjrt") + 1
    sees(f, change, x)


def test_averages_in_a_weak_dictionary_are_state():
    m, held = nn.Identity(), weakref.WeakKeyDictionary()

    def run(f, of, zero):
        held.clear()
        held[of] = zero
        return [f(x).cpu() for x in (_ones(), _ones(2.0), _ones(3.0))]

    def f(x):
        held[m] = held[m] * 0.9 + x.mean()
        return held[m]

    expected = run(f, m, torch.zeros(1).to("pjrt"))
    for got, want in zip(run(tp.jit(f), m, torch.zeros(1).to("pjrt")), expected, strict=True):
        close(got, want)


@pytest.mark.parametrize(
    "how", ["import um; return um.g(x)", "from um import g; return g(x)", "from um import K; return x * K"]
)
def test_a_module_that_the_function_imports_first_is_seen(how, tmp_path, monkeypatch):
    (tmp_path / "um.py").write_text("K = 2.0\ndef g(x):\n    return x * K\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "um", raising=False)
    scope = {}
    exec(compile(f"def f(x):\n    {how.replace('; ', chr(10) + '    ')}\n", str(tmp_path / "f.py"), "exec"), scope)
    f = tp.jit(scope["f"])
    for _ in range(3):
        close(f(_ones()), _ones(2.0))
    assert f.cache_info().misses == 2
    monkeypatch.setattr(sys.modules["um"], "K", 5.0)
    close(f(_ones()), _ones(5.0))
    monkeypatch.delitem(sys.modules, "um")
