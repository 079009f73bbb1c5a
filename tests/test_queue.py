"""Programs launched by the queue's thread: same results, same order; errors are told once, at the next read."""

import subprocess

import pytest
import torch
import torch_pjrt as tp

from tests.support import DEVICE, python, together

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="torch CPU has no launch queue")


def run(program: str, **environment: str) -> subprocess.CompletedProcess:
    return python("import torch, torch_pjrt as tp\n" + program, **environment)


CHAIN = """
torch.manual_seed(3)
x, counts = torch.linspace(-1, 1, 24).reshape(4, 6).to("pjrt"), torch.zeros(5, dtype=torch.int64, device="pjrt")
for i in range(400):
    x = (x * 0.99 + 0.01).t().contiguous().t()
    view = x[1:3, ::2]
    view.mul_(1.001)
    x[0] = x[3] + torch.rand(6, device="pjrt") * 0.01
    counts[i % 5] += i
    if i % 37 == 0:
        x.sum().item()
print(x.cpu().double().sum().item(), counts.tolist())
"""


def test_every_way_to_launch_gives_the_same():
    results = {how: run(CHAIN, TORCH_PJRT_LAUNCH=how) for how in ("inline", "thread", "")}
    assert all(r.returncode == 0 for r in results.values()), results
    assert len({r.stdout for r in results.values()}) == 1, results


def test_a_long_run_is_right_and_frees_what_it_made():
    x = torch.ones(16, device=DEVICE)
    before = tp.live_buffers()
    y = x
    for _ in range(5000):
        y = y + x
    assert y.tolist() == [5001.0] * 16
    del y
    assert tp.live_buffers() <= before + 1


def test_a_value_read_by_several_threads_while_it_is_pending():
    x = torch.full((512, 512), 1 / 512, device=DEVICE)
    y = x
    for _ in range(40):
        y = y @ x
    seen = []
    together(lambda _: seen.append(y[0, 0].item()))
    assert seen == pytest.approx([1 / 512] * 4)


def test_memory_is_taken_over_although_the_old_value_is_still_to_be_read():
    """An in-place op that waits behind readers of the old value must not destroy it for them."""
    x = torch.zeros(4096, device=DEVICE)
    sums = []
    for _ in range(200):
        sums.append(x.sum())
        x.add_(1)
    assert [s.item() for s in sums] == [4096.0 * i for i in range(200)]


OFFENCE = """
table = torch.zeros(4, 3, device="pjrt")
for _ in range(20):
    table = table + 1
torch.nn.functional.embedding(torch.tensor([9], device="pjrt"), table)
for _ in range(20):
    table = table + 1
try:
    table.cpu()
except IndexError as error:
    print(error)
print(table[0, 0].item())
"""


def test_an_offence_in_a_run_surfaces_at_the_next_read_and_once():
    done = run(OFFENCE, TORCH_PJRT_LAUNCH="thread")
    assert done.stdout.splitlines() == ["embedding: index out of range in self", "40.0"], done.stderr


NO_ROOM = """
import resource
x, small = torch.zeros(1 << 25, device="pjrt"), torch.ones(4, device="pjrt")  # 128 MiB
def fill(times):
    kept, y = [], small
    for i in range(times):
        kept.append(x + i)
        y = y + 1
    return kept, y, kept[-1][:4] + 1
kept, y, last = fill(1)
print(y.tolist(), last.tolist())  # compiles what is needed below
del kept, y, last
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (500 << 20), -1))
kept, y, last = fill(20)
told = []
for read in (y.tolist, last.tolist, last.tolist, y.tolist, small.tolist, tp.synchronize):
    try:
        told.append(read())
    except torch.OutOfMemoryError as error:
        told.append("no room" if "in add.Tensor" in str(error) else str(error))
del kept, last
print(told, fill(1)[2].tolist())
"""


def test_no_room_for_a_result_is_told_by_the_next_read_and_what_depends_on_it():
    done = run(NO_ROOM, TORCH_PJRT_LAUNCH="thread")
    assert done.returncode == 0, done.stderr[-2000:]
    first, told = done.stdout.strip().splitlines()
    assert first == "[2.0, 2.0, 2.0, 2.0] [1.0, 1.0, 1.0, 1.0]"
    y, small = [21.0] * 4, [1.0] * 4
    assert told == f"{['no room'] * 3 + [y, small, None]} {small}"


def test_an_error_that_nobody_reads_is_told_at_the_end_of_the_process():
    program = """
t = torch.zeros(4, 3, device="pjrt")
torch.nn.functional.embedding(torch.tensor([9], device="pjrt"), t)
"""
    done = run(program, TORCH_PJRT_LAUNCH="thread")
    assert done.returncode == 0
    assert "nobody read" in done.stderr and "IndexError: embedding" in done.stderr


DRAWS = """
import threading
drawn = []
def draw():
    for _ in range(3000):
        drawn.append(torch.randint(1 << 62, (2,), device="pjrt"))
threads = [threading.Thread(target=draw) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(len(drawn), len({tuple(d) for d in torch.stack(drawn).tolist()}))
"""


def test_threads_that_fill_the_queue_draw_different_numbers():
    done = run(DRAWS, TORCH_PJRT_LAUNCH="thread")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["12000", "12000"]


IN_PLACE = {
    "index_put_": lambda x, i, v: x.index_put_((i,), v),
    "scatter_": lambda x, i, v: x.scatter_(0, i, v),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, i, v),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, 3.0),
    "index_fill_ of a view": lambda x, i, v: x[1:].index_fill_(0, i, 3.0),
    "put_": lambda x, i, v: x.put_(i, v),
}


@pytest.mark.parametrize("before", [0, 20])
@pytest.mark.parametrize("which", IN_PLACE)
def test_a_bad_index_in_place_leaves_the_tensor_however_late_it_is_found(which, before):
    x = torch.arange(4.0, device=DEVICE)
    index, values = torch.tensor([0, 9], device=DEVICE), torch.tensor([5.0, 6.0], device=DEVICE)
    for _ in range(before):
        x = x + 0
    with pytest.raises((IndexError, RuntimeError), match="9"):
        IN_PLACE[which](x, index, values)
        x.cpu()
    assert x.tolist() == [0, 1, 2, 3]
