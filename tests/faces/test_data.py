"""Data loaders with workers, and what a forked child may do."""

import multiprocessing
import os

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.support import DEVICE


class Squares(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.tensor([float(i * i)]), i


class TouchesTheDevice(Squares):
    def __getitem__(self, i):
        return torch.ones(1, device=DEVICE) * i


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin_memory", [False, True])
@pytest.mark.filterwarnings("ignore:.*pin_memory.*")
def test_workers_feed_the_device(workers, pin_memory):
    torch.ones(1, device=DEVICE).item()  # the client exists before the fork
    loader = DataLoader(Squares(), batch_size=4, num_workers=workers, pin_memory=pin_memory)
    total = torch.zeros((), device=DEVICE)
    for x, _ in loader:
        total += x.to(DEVICE, non_blocking=True).sum()
    assert total.item() == sum(i * i for i in range(12))


def test_a_dataset_on_the_device():
    x = torch.arange(10.0, device=DEVICE)
    seen = [b.sum().item() for (b,) in DataLoader(TensorDataset(x), batch_size=5, shuffle=True)]
    assert sum(seen) == 45


@pytest.mark.skipif(DEVICE == "cpu", reason="the CPU may be used in forked children")
def test_a_worker_that_touches_the_device_says_what_to_do():
    torch.ones(1, device=DEVICE).item()
    with pytest.raises(RuntimeError, match=r"(?s)fork.*spawn"):
        list(DataLoader(TouchesTheDevice(), batch_size=2, num_workers=1))
    assert torch.ones(1, device=DEVICE).item() == 1, "the parent goes on"


@pytest.mark.skipif(DEVICE == "cpu", reason="the CPU may be used in forked children")
def test_a_forked_child_gets_an_error_and_the_parent_goes_on():
    x = torch.ones(2, device=DEVICE)
    x.sum().item()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # only os calls from here on, whatever happens
        try:
            text = "no error"
            try:
                (x + 1).cpu()
            except RuntimeError as error:
                text = str(error)
            text += f" | bad fork: {torch.pjrt._is_in_bad_fork()}"
            os.write(write, text.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    text = os.read(read, 10_000).decode()
    os.close(read)
    os.close(write)
    assert text == (
        "the pjrt device cannot be used in a forked child process: the parent made the PJRT client before the "
        'fork, and its threads were not copied. Start workers with the "spawn" method, or keep tensors on the CPU '
        "in workers | bad fork: True"
    )
    assert (x + 1).tolist() == [2, 2]


def _square_on_the_device(n, queue):
    queue.put((torch.arange(float(n), device=DEVICE) ** 2).sum().item())


def test_a_spawned_child_has_its_own_client():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_square_on_the_device, args=(5, queue))
    child.start()
    assert queue.get(timeout=120) == 30
    child.join()
    assert child.exitcode == 0
