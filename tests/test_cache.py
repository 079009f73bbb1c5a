"""Compiled programs: what recompiles and what must not, the bound in memory, and the cache on disk."""

import json
import os
from pathlib import Path

import pytest
import torch

from tests.support import DEVICE, assert_same, python

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="about the device's compiled programs")

if DEVICE != "cpu":
    import torch_pjrt as tp


def new_programs(work) -> int:
    """How many programs ``work`` needed that memory did not have."""
    before = tp.cache_info()["misses"]
    work()
    return tp.cache_info()["misses"] - before


def test_numbers_that_vary_never_compile_again():
    x = torch.ones(5, 3, device=DEVICE)

    def work(i):
        y = x * (0.5 + i) + i
        y = torch.add(y, x, alpha=i + 0.25).clamp(-i - 1, i + 2.0)
        y.mul_(i).add_(x, alpha=-i)
        y = torch.nn.functional.leaky_relu(y, 0.1 * i)
        y[0] = float(i)
        y.fill_(i)
        return torch.where(x > i, y, float(i)).masked_fill(x > 0, i * 2.0)

    work(1)
    work(2)  # 1 may have a program of its own: alpha=1 needs no multiplication
    assert new_programs(lambda: [work(i) for i in range(3, 12)]) == 0


EXPONENTS = {
    "float": lambda x, i: x ** (1.3 + i),
    "int": lambda x, i: x ** (4 + i),
    "int of ints": lambda x, i: x.int() ** (4 + i),
    "float of ints": lambda x, i: x.int() ** (0.3 + i),
    "negative": lambda x, i: x ** (-2.5 - i),
    "in place": lambda x, i: x.clone().pow_(1.7 + i),
    "foreach": lambda x, i: torch._foreach_pow([x, x], 1.7 + i)[1],
    "base": lambda x, i: (1.5 + i) ** x,
    "gradient": lambda x, i: torch.func.grad(lambda y: y.pow(4.5 + i).sum())(x),
    "histc": lambda x, i: torch.histc(x, 5, -i, i + 1.0),
    "renorm": lambda x, i: x.renorm(2, 0, 0.5 + i),
    "multi_margin_loss": lambda x, i: torch.nn.functional.multi_margin_loss(x, x[:, 0].long() * 0, margin=0.5 + i),
    "embedding": lambda x, i: torch.nn.functional.embedding(x[:, 0].long() * 0, x.clone(), max_norm=0.5 + i),
}


@pytest.mark.parametrize("which", EXPONENTS)
def test_twenty_exponents_and_bounds_are_one_program(which):
    x = torch.linspace(0.5, 3.0, 15, device=DEVICE).reshape(5, 3)
    work = EXPONENTS[which]
    work(x, 0)
    work(x, 1)
    values = []
    assert new_programs(lambda: values.extend(work(x, i) for i in range(2, 22))) == 0
    for i, v in enumerate(values, 2):
        assert_same(v, work(x.cpu(), i), f"{which} {i}")


def test_squares_and_roots_have_programs_of_their_own():
    x = torch.linspace(-3, 3, 7, device=DEVICE)
    for n in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.0, True, 2.5, 5, -3):
        assert_same(x**n, x.cpu() ** n, f"power {n}")
    text = [tp.jit(lambda x, n=n: x**n).lower(x).as_text() for n in (2, 2.5)]
    assert ["stablehlo.power" in t for t in text] == [False, True]
    ints = torch.tensor([-2, -1, 0, 1, 2, 7], device=DEVICE)
    for n in (0, 1, 2, 3, 4, 5):
        assert torch.equal((ints**n).cpu(), ints.cpu() ** n)
    for bad in (lambda: ints**-1, lambda: ints**-7, lambda: torch._foreach_pow([ints], [-7])):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            bad()


def test_lengths_of_sequences_never_compile_again():
    log_probs = torch.randn(9, 2, 5, device=DEVICE).log_softmax(2).requires_grad_()
    labels = torch.tensor([1, 2, 3, 4, 1, 2, 3, 4], device=DEVICE)

    def work(n):
        loss = torch.nn.functional.ctc_loss(log_probs, labels, [9, 9 - n], [8 - n, n], reduction="sum")
        loss.backward()

    work(1)
    work(2)  # the second gradient is added to the first
    assert new_programs(lambda: [work(n) for n in range(3, 7)]) == 0


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize("foreach", [False, True])
def test_a_schedule_of_the_learning_rate_never_compiles_again(optimizer, foreach):
    net = torch.nn.Linear(3, 2).to(DEVICE)
    opt = getattr(torch.optim, optimizer)(net.parameters(), lr=0.1, weight_decay=0.01, foreach=foreach)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    x = torch.ones(4, 3, device=DEVICE)

    def step():
        opt.zero_grad()
        net(x).pow(2).sum().backward()
        opt.step()
        schedule.step()

    for _ in range(3):
        step()
    assert new_programs(lambda: [step() for _ in range(5)]) == 0


def test_an_equal_tensor_of_another_identity_is_the_same_program():
    def work():
        x = torch.arange(12.0, device=DEVICE).reshape(3, 4)
        return x.t() @ x + x.sum()

    work()
    assert new_programs(work) == 0


def test_other_shapes_dtypes_and_views_are_other_programs():
    x = torch.ones(4, 4, device=DEVICE)
    torch.tanh(x)
    assert new_programs(lambda: torch.tanh(x[:, 1:3])) == 1
    assert new_programs(lambda: torch.tanh(x[:, 1:3])) == 0
    assert new_programs(lambda: torch.tanh(x[:, 2:])) == 1
    y, z = x.double(), torch.ones(9, device=DEVICE)
    assert new_programs(lambda: torch.tanh(y)) == 1
    assert new_programs(lambda: torch.tanh(z)) == 1


def test_memory_holds_a_bounded_number_and_drops_the_least_recently_used():
    old = tp.cache_info()["capacity"]
    try:
        tp.clear_cache()
        assert tp.cache_info()["entries"] == 0
        tp.set_cache_capacity(8)
        xs = [torch.ones(n, device=DEVICE) for n in range(1, 21)]
        evicted = tp.cache_info()["evictions"]
        for x in xs:
            torch.neg(x)
            torch.neg(xs[0])  # used all the time, so never the least recent
            assert tp.cache_info()["entries"] <= 8
        assert tp.cache_info()["evictions"] - evicted >= 12
        assert new_programs(lambda: torch.neg(xs[0])) == 0
        assert new_programs(lambda: torch.neg(xs[1])) == 1
        assert torch.neg(xs[4]).tolist() == [-1.0] * 5, "an evicted program is compiled again"
    finally:
        tp.set_cache_capacity(old)


MANY = """
import ctypes, mmap, torch, torch_pjrt as tp
mapped = lambda: sum(1 for _ in open("/proc/self/maps"))
bound = int(open("/proc/sys/vm/max_map_count").read()) // 4 * 3
protect, pages = ctypes.CDLL(None).mprotect, []
while mapped() < bound:  # every other page is readable only, so each is a mapping of its own
    size = 2 * 4096 * 4096
    pages.append(mmap.mmap(-1, size))
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages[-1]))
    for at in range(start, start + size, 2 * 4096):
        assert protect(ctypes.c_void_p(at), 4096, 1) == 0
for n in range(3, 203):
    assert (torch.ones(n, device="pjrt") * 2).sum().item() == 2 * n
print(tp.cache_info()["evictions"], tp.cache_info()["entries"])
"""


@pytest.mark.skipif(not Path("/proc/sys/vm/max_map_count").exists(), reason="no such bound on this system")
def test_programs_go_before_the_process_has_no_mapping_left():
    done = python(MANY)
    assert done.returncode == 0, done.stderr
    evictions, entries = map(int, done.stdout.split())
    assert evictions > 100
    assert entries < 150


WORK = """
import json, torch, torch_pjrt as tp
x = torch.arange(6.0, device="pjrt").reshape(2, 3)
y = (x @ x.t()).softmax(-1).sum().item()
print(json.dumps({**tp.cache_info(), "value": y}))
"""


def in_a_fresh_process(folder, **env):
    done = python(WORK, **{"TORCH_PJRT_CACHE_DIR": str(folder), **env})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_second_process_compiles_nothing(tmp_path):
    first, second = in_a_fresh_process(tmp_path), in_a_fresh_process(tmp_path)
    assert first["compiles"] > 0
    assert first["disk_hits"] == 0
    assert second["compiles"] == 0
    assert second["disk_hits"] == first["compiles"]
    assert second["value"] == first["value"]
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".tmp"], "written by a temporary file and a rename"


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "noise"])
def test_a_damaged_entry_is_dropped_and_compiled_again(tmp_path, damage):
    first = in_a_fresh_process(tmp_path)
    for path in tmp_path.iterdir():
        data = bytearray(path.read_bytes())
        if damage == "cut":
            data = data[: len(data) // 2]
        elif damage == "flip":
            data[len(data) // 2] ^= 0xFF
        elif damage == "empty":
            data = b""
        else:
            data = os.urandom(len(data))
        path.write_bytes(data)
    mended = in_a_fresh_process(tmp_path)
    assert mended["compiles"] == first["compiles"]
    assert mended["disk_damaged"] == first["compiles"]
    assert mended["value"] == first["value"]
    assert in_a_fresh_process(tmp_path)["compiles"] == 0


def test_the_disk_cache_can_be_turned_off(tmp_path):
    for off in ({"TORCH_PJRT_CACHE": "0"}, {"TORCH_PJRT_CACHE_DIR": ""}):
        info = in_a_fresh_process(tmp_path, **off)
        assert info["compiles"] > 0
        assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert in_a_fresh_process(blocked / "programs")["compiles"] > 0


def test_the_folder_is_bounded(tmp_path):
    in_a_fresh_process(tmp_path, TORCH_PJRT_CACHE_MAX_BYTES="20000")
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 20000


@pytest.mark.parametrize("plugin", ["xla_cpu_pjrt", "lammps_jax_pjrt_cpu"])
def test_each_plugin_has_its_own_entries(tmp_path, plugin):
    other = {"xla_cpu_pjrt": "lammps_jax_pjrt_cpu", "lammps_jax_pjrt_cpu": "xla_cpu_pjrt"}[plugin]
    in_a_fresh_process(tmp_path, PJRT_DEVICE=other)
    info = in_a_fresh_process(tmp_path, PJRT_DEVICE=plugin)
    assert info["disk_hits"] == 0
    assert info["disk_damaged"] == 0
    assert in_a_fresh_process(tmp_path, PJRT_DEVICE=plugin)["compiles"] == 0


def test_metrics_have_the_names_that_users_know():
    before = tp.metrics()
    x = torch.ones(1000).to(DEVICE)
    for _ in range(50):
        x = x + 1
    x.cpu()
    gained = {name: value - before.get(name, 0) for name, value in tp.metrics().items()}
    assert gained["OutboundData"] >= 4000
    assert gained["InboundData"] == 4000
    assert gained["ExecuteCount"] == 50
    assert gained["CachedCompile"] + gained["UncachedCompile"] >= 50
    for name in ("ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime"):
        assert 0 < gained[name] < 1
    assert gained["CompileTime"] >= 0
