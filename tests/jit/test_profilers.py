"""Profilers that a function which is traced starts, stops and asks for."""

import cProfile
import importlib
import sys

import pytest
import torch
import torch_pjrt as tp
from torch_pjrt._names import library_folders

from tests.jit.support import close


def _swapping(lib, x):
    old = sys.getprofile()
    sys.setprofile(None)
    y = lib.scaled(x)
    sys.setprofile(old)
    return y


def _recording(lib, x):
    seen = []
    sys.setprofile(lambda *event: seen.append(event))
    x = x + 0
    sys.setprofile(None)
    assert seen
    return lib.scaled(x)


def _profiling(lib, x):
    y = lib.scaled(x)
    profile = cProfile.Profile()
    return profile.runcall(lambda: y + 0)


@pytest.fixture
def lib(tmp_path):
    """A module whose code is a library's."""
    (tmp_path / "profiledlib.py").write_text("SCALE = 2.0\n\n\ndef scaled(x):\n    return x * SCALE\n")
    sys.path.insert(0, str(tmp_path))
    library_folders().append(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("profiledlib")
    library_folders().remove(str(tmp_path))
    sys.path.remove(str(tmp_path))
    del sys.modules["profiledlib"]


@pytest.mark.parametrize("f", [_swapping, _recording, _profiling])
def test_a_profiler_inside_the_function(lib, f):
    x = torch.tensor([1.0, 2.0])
    assert sys.getprofile() is None
    step = tp.jit(lambda x: f(lib, x))
    for _ in range(3):
        close(step(x.to("pjrt")), x * 2)
    assert step.cache_info().misses == 1
    lib.SCALE = 3.0
    close(step(x.to("pjrt")), x * 3)
    assert sys.getprofile() is None
