"""Settings of the process that are part of a trace's key: each has a program of its own, and says so."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close, compiles
from tests.support import python


class Setting:
    """A setting changed for a while by a function of torch."""

    def __init__(self, change, old, new):
        self.change, self.old, self.new = change, old, new

    def __enter__(self):
        self.change(self.new)

    def __exit__(self, *_):
        self.change(self.old)


SETTINGS = {
    "grad mode": lambda: torch.no_grad(),
    "inference mode": lambda: torch.inference_mode(),
    "autocast": lambda: torch.autocast("pjrt", torch.bfloat16),
    "default dtype": lambda: Setting(torch.set_default_dtype, torch.float32, torch.float64),
    "matmul precision": lambda: Setting(torch.set_float32_matmul_precision, "highest", "medium"),
    "deterministic algorithms": lambda: Setting(torch.use_deterministic_algorithms, False, True),
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True),
}


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_part_of_the_key(name):
    x = torch.linspace(-1, 1, 6).reshape(2, 3).to("pjrt")
    f = tp.jit(lambda x: x @ x.T)
    with torch.set_grad_enabled(name != "inference mode"):  # which turns gradients off too
        plain = f(x)
        with SETTINGS[name]():
            inside = f(x)
            f(x)
            assert f.cache_info().misses == 2
        again = f(x)
    assert f.cache_info().misses == 2, "back to the first program"
    assert name in f.cache_info().reasons[1]
    close(again, plain)
    assert inside.dtype == (torch.bfloat16 if name == "autocast" else torch.float32)


def test_the_default_dtype_decides_the_dtype_of_what_is_made():
    n = torch.tensor([1, 2], device="pjrt")
    f = tp.jit(lambda n: (n / 3, torch.ones(2, device="pjrt"), n.float().mean() + 0.5))
    assert [t.dtype for t in f(n)] == [torch.float32] * 3
    with SETTINGS["default dtype"]():
        assert [t.dtype for t in f(n)] == [torch.float64, torch.float64, torch.float32]
        close(f(n)[0], n.cpu() / 3)


def test_compile_for_the_platform_by_its_name():
    x = torch.arange(3.0, device="pjrt")
    before = compiles()
    named = tp.jit(lambda x: x * 7.25 - 1).lower(x).compile(tp._native.platform_name().lower())
    assert compiles() == before + 1
    close(named(x), x.cpu() * 7.25 - 1)


OPTIMIZED = """
import torch, torch_pjrt as tp
x = torch.linspace(-1, 1, 4096, device="pjrt")
compiled = tp.jit(lambda x: (x.sin() * x).cumsum(0).tanh() + 1).lower(x).compile()
print(round(compiled(x).sum().item(), 2), tp.cache_info()["compiles"], tp.cache_info()["disk_hits"])
"""


def test_compile_options_reach_the_compiler_and_the_name_on_disk(tmp_path):
    def run(options):
        done = python(OPTIMIZED, TORCH_PJRT_CACHE_DIR=str(tmp_path), TORCH_PJRT_COMPILE_OPTIONS=options)
        return done.stdout.split() or done.stderr

    total, first, hits = run("")
    assert int(first) > 0 and hits == "0"
    level = "xla_backend_optimization_level="
    assert run(level + "0") == [total, first, "0"], "programs of other options are not taken"
    assert run(level + "1") == [total, first, "0"]
    assert run(level + "0") == [total, "0", first], "programs of the same options are"
    assert "no_such_option" in run("no_such_option=1")
    assert "TORCH_PJRT_COMPILE_OPTIONS: argument `option`: got rubbish, expected name=value" in run("rubbish")
