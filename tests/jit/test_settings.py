"""Settings of the process that are part of a trace's key: each has a program of its own, and says so."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

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
    "saved tensors hooks": lambda: torch.autograd.graph.saved_tensors_hooks(torch.neg, torch.neg),
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


class Doubled(TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        return out * 2 if f in (torch.sin, torch.relu) else out


class Tripled(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        return out * 3 if f is torch.ops.aten.sin.default else out


def _backend(group, name, new):
    return Setting(lambda v: setattr(group, name, v), getattr(group, name), new)


_ALWAYS = Setting(torch.set_warn_always, False, True)
SEEN = {
    "default device": (lambda x: torch.ones(3), lambda: torch.device("pjrt")),
    "mode of functions": (torch.sin, Doubled),
    "mode of dispatch": (torch.sin, Tripled),
    "autocast of the CPU": (
        lambda x: (torch.ones(2, 2) @ torch.ones(2, 2)).to("pjrt"),
        lambda: torch.autocast("cpu", torch.bfloat16),
    ),
    "autocast dtype of another device": (
        lambda x: x.to(torch.get_autocast_dtype("cuda")),
        lambda: Setting(lambda v: torch.set_autocast_dtype("cuda", v), torch.float16, torch.bfloat16),
    ),
    "threads": (
        lambda x: x * torch.get_num_threads(),
        lambda: Setting(torch.set_num_threads, torch.get_num_threads(), torch.get_num_threads() + 1),
    ),
    "warnings": (lambda x: x * (2 if torch.is_warn_always_enabled() else 3), lambda: _ALWAYS),
    "attention": (
        lambda x: x * (2 if torch.backends.cuda.flash_sdp_enabled() else 3),
        lambda: Setting(torch.backends.cuda.enable_flash_sdp, True, False),
    ),
    "kernels of attention": (
        lambda x: x * (2 if torch.backends.cuda.flash_sdp_enabled() else 3),
        lambda: sdpa_kernel(SDPBackend.MATH),
    ),
    "backend": (
        lambda x: x * (2 if torch.backends.cudnn.enabled else 3),
        lambda: torch.backends.cudnn.flags(enabled=False),
    ),
    "backend's part": (
        lambda x: x * (2 if torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction else 3),
        lambda: _backend(torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False),
    ),
    "fast path of encoders": (
        lambda x: x * (2 if torch.backends.mha.get_fastpath_enabled() else 3),
        lambda: Setting(torch.backends.mha.set_fastpath_enabled, True, False),
    ),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_setting_that_matters_is_seen(name):
    function, setting = SEEN[name]
    x = torch.linspace(-1, 1, 6).reshape(2, 3).to("pjrt")
    f = tp.jit(lambda x: function(x))
    for _ in range(2):
        f(x)
        with setting():
            plain = function(x)
            for _ in range(2):
                inside = f(x)
                assert (inside.dtype, inside.device) == (plain.dtype, plain.device)
                close(inside, plain)
        close(f(x), function(x))
    assert f.cache_info().misses == (3 if name.startswith("mode of") else 2), "each mode is an object of its own"


def test_whether_distributions_check_is_seen():
    f = tp.jit(lambda x: torch.distributions.Normal(x * 0, x).log_prob(x))
    ones = torch.ones(3, device="pjrt")
    f(ones)
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        assert f(-ones).isnan().all()
    finally:
        torch.distributions.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="constraint"):
        f(-ones)


def test_cached_parametrizations_are_computed_by_the_program():
    class Twice(nn.Module):
        def forward(self, w):
            return w * 2

    layer = nn.Linear(3, 3).to("pjrt")
    parametrize.register_parametrization(layer, "weight", Twice())
    f, x = tp.jit(lambda x: x @ layer.weight), torch.ones(2, 3, device="pjrt")
    for _ in range(3):
        with parametrize.cached():
            plain = layer.weight
            close(f(x), x @ plain)
            assert layer.weight is plain
            close(f(x), x @ plain)
        with torch.no_grad():
            layer.parametrizations.weight.original.add_(1)
    with parametrize.cached():
        f(x)
        close(f(x), x @ layer.weight)


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
