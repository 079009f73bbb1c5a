"""``torch.pjrt``, ``torch.accelerator`` and the random state."""

import pytest
import torch

from tests.support import DEVICE, python

pytestmark = pytest.mark.skipif(DEVICE != "pjrt", reason="about the pjrt device module")


def test_import_torch_alone_makes_the_device_and_no_client():
    code = """
import torch
assert torch.pjrt.is_available() and torch.pjrt.device_count() >= 1
assert torch.get_device_module("pjrt") is torch.pjrt
torch.manual_seed(1)
assert not torch.pjrt.is_initialized() and not torch.pjrt._initialized
x = torch.ones(2, device="pjrt")
assert x.device == torch.device("pjrt", 0) and torch.pjrt.is_initialized()
print(x.sum().item())
"""
    done = python(code)
    assert done.stdout == "2.0\n", done.stderr


def test_autoload_can_be_turned_off_and_import_is_enough():
    code = """
import torch
assert not hasattr(torch, "pjrt")
import torch_pjrt
print(torch.ones(2, device="pjrt").sum().item())
"""
    done = python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout == "2.0\n", done.stderr


def test_importing_first_works_as_well():
    done = python("import torch_pjrt, torch; print(torch.ones(2, device='pjrt').sum().item(), torch_pjrt.__version__)")
    assert done.stdout.startswith("2.0 "), done.stderr


def test_device_module():
    assert torch.pjrt.current_device() == 0
    torch.pjrt.set_device(0)
    with torch.pjrt.device(0), torch.pjrt.device_of(torch.ones(1, device="pjrt")), torch.pjrt.device("pjrt:0"):
        pass
    with pytest.raises(RuntimeError, match="device index: got 99, expected 0 <= index < "):
        torch.pjrt.set_device(99)
    with pytest.raises(RuntimeError, match="expected a pjrt device"):
        torch.pjrt.synchronize("cpu")
    assert torch.pjrt.get_device_name()
    assert torch.pjrt.get_device_properties(0).name == torch.pjrt.get_device_name()
    torch.pjrt.synchronize()
    assert torch.bfloat16 in torch.pjrt.get_amp_supported_dtype()
    assert torch.pjrt.is_bf16_supported()
    assert torch.pjrt._initialized
    assert not torch.pjrt._is_in_bad_fork()


def test_streams_and_events():
    start, end = torch.pjrt.Event(enable_timing=True), torch.pjrt.Event(enable_timing=True)
    with torch.pjrt.stream(torch.pjrt.Stream()) as stream:
        start.record()
        x = torch.ones(100, 100, device="pjrt") @ torch.ones(100, 100, device="pjrt")
        end.record(stream)
    stream.wait_event(end)
    stream.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0
    assert torch.pjrt.current_stream() == torch.pjrt.default_stream()
    assert x[0, 0].item() == 100
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.pjrt.Event().elapsed_time(end)


def test_memory_counters_follow_allocations():
    torch.pjrt.empty_cache()
    torch.pjrt.synchronize()
    before = torch.pjrt.memory_allocated()
    x = torch.ones(1 << 20, device="pjrt") + 1
    torch.pjrt.synchronize()
    held = torch.pjrt.memory_allocated() - before
    assert held >= 4 << 20
    assert torch.pjrt.max_memory_allocated() >= torch.pjrt.memory_allocated()
    del x
    torch.pjrt.synchronize()
    assert torch.pjrt.memory_allocated() - before < 1 << 20
    assert torch.pjrt.max_memory_allocated() - before >= 4 << 20
    torch.pjrt.reset_peak_memory_stats()
    assert torch.pjrt.max_memory_allocated() - before < 4 << 20
    assert torch.pjrt.memory_stats()["allocated_bytes.all.current"] == torch.pjrt.memory_allocated()


def test_accelerator():
    acc = torch.accelerator
    assert acc.current_accelerator() == torch.device("pjrt")
    assert acc.is_available()
    assert acc.device_count() == torch.pjrt.device_count()
    assert acc.current_device_index() == 0
    acc.set_device_index(0)
    acc.synchronize()
    acc.current_stream()
    x = torch.ones(8, device=acc.current_accelerator())
    assert acc.memory_allocated() > 0
    assert acc.max_memory_allocated() >= acc.memory_allocated()
    assert acc.memory_stats()["allocated_bytes.all.current"] > 0
    acc.reset_peak_memory_stats()
    acc.empty_cache()
    if hasattr(acc, "device_index"):
        with acc.device_index(0):
            assert (x + 1).device.index == 0
    if hasattr(acc, "get_device_capability"):
        assert torch.float32 in acc.get_device_capability()["supported_dtypes"]
    if hasattr(acc, "random"):
        torch.manual_seed(5)
        assert acc.random.initial_seed() == 5
        assert torch.equal(acc.random.get_rng_state(), torch.pjrt.get_rng_state())


DRAWS = {
    "rand": lambda: torch.rand(7, device=DEVICE),
    "randn": lambda: torch.randn(3, 3, device=DEVICE),
    "randint": lambda: torch.randint(0, 1000, (9,), device=DEVICE),
    "randperm": lambda: torch.randperm(50, device=DEVICE),
    "bernoulli": lambda: torch.full((64,), 0.5, device=DEVICE).bernoulli(),
    "multinomial": lambda: torch.ones(20, device=DEVICE).multinomial(10),
    "exponential": lambda: torch.empty(8, device=DEVICE).exponential_(),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(64, device=DEVICE), 0.5),
    "normal_": lambda: torch.empty(8, device=DEVICE).normal_(2, 3),
    "uniform_": lambda: torch.empty(8, device=DEVICE).uniform_(-1, 1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_one_seed_gives_one_sequence(name, mode):
    draw = DRAWS[name]
    torch.manual_seed(11)
    first, second = draw().cpu(), draw().cpu()
    torch.pjrt.manual_seed(11)
    assert torch.equal(draw().cpu(), first)
    state = torch.pjrt.get_rng_state()
    assert torch.equal(draw().cpu(), second)
    assert not torch.equal(first, second)
    torch.pjrt.set_rng_state(state)
    assert torch.equal(draw().cpu(), second)
    with torch.random.fork_rng(device_type="pjrt"):
        third = draw().cpu()
    assert torch.equal(draw().cpu(), third)
    assert torch.pjrt.initial_seed() == 11


@pytest.mark.parametrize("plugin", ["xla_cpu_pjrt", "lammps_jax_pjrt_cpu"])
def test_random_numbers_are_the_same_on_every_plugin(plugin):
    code = """
import torch
torch.manual_seed(4)
print(torch.randn(4, device="pjrt").tolist(), torch.randperm(9, device="pjrt").tolist())
"""
    other = python(code, PJRT_DEVICE=plugin)
    torch.manual_seed(4)
    here = f"{torch.randn(4, device=DEVICE).tolist()} {torch.randperm(9, device=DEVICE).tolist()}\n"
    assert other.stdout == here, other.stderr


def test_a_cpu_generator_seeds_draws():
    draw = lambda g: torch.randn(5, generator=g, device=DEVICE).cpu()
    g = torch.Generator().manual_seed(3)
    first, second = draw(g), draw(g)
    assert not torch.equal(first, second), "a generator advances with each draw"
    assert torch.equal(draw(torch.Generator().manual_seed(3)), first)


def test_the_numbers_are_distributed_as_asked():
    n = 200_000
    u, z = torch.rand(n, device=DEVICE).cpu(), torch.randn(n, device=DEVICE).cpu()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 5e-3
    assert abs(u.var() - 1 / 12) < 2e-3
    assert abs(z.mean()) < 1e-2
    assert abs(z.var() - 1) < 2e-2
    assert abs((z**3).mean()) < 5e-2
    counts = torch.bincount(torch.randint(0, 10, (n,), device=DEVICE).cpu(), minlength=10) / n
    assert (counts - 0.1).abs().max() < 5e-3
    assert torch.randperm(1000, device=DEVICE).cpu().sort().values.equal(torch.arange(1000))
    kept = torch.nn.functional.dropout(torch.ones(n, device=DEVICE), 0.3).cpu()
    assert abs((kept == 0).float().mean() - 0.3) < 5e-3
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    picks = torch.tensor([0.1, 0.0, 0.9], device=DEVICE).multinomial(n, replacement=True).cpu()
    assert abs((picks == 2).float().mean() - 0.9) < 5e-3
    assert not (picks == 1).any()
