"""Four Python threads use the device at once: answers stay right, errors stay with the thread that made them."""

import threading

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, together

THREADS = 4


def test_the_same_new_programs_at_once():
    """All threads meet the same uncompiled programs together."""

    def work(i):
        x = torch.arange(7.0, device=DEVICE) + i
        for n in range(1, 6):
            y = (x[:n] * 3 + i).exp().log().sum()
            assert y.item() == pytest.approx(sum((k + i) * 3 + i for k in range(n)), rel=1e-4)

    together(work, THREADS)


def test_threads_train_their_own_models():
    def train(seed):
        generator = torch.Generator().manual_seed(seed)
        w = torch.randn(6, 3, generator=generator).to(DEVICE).requires_grad_()
        x = torch.randn(20, 6, generator=generator).to(DEVICE)
        target = torch.arange(20, device=DEVICE) % 3
        opt = torch.optim.SGD([w], lr=0.5)
        for _ in range(20):
            opt.zero_grad()
            F.cross_entropy(x @ w, target).backward()
            opt.step()
        return w.detach().cpu()

    alone = [train(i) for i in range(THREADS)]
    results = [None] * THREADS
    together(lambda i: results.__setitem__(i, train(i)), THREADS)
    for a, b in zip(alone, results, strict=True):
        assert torch.equal(a, b)


def test_threads_write_views_of_one_tensor():
    x = torch.zeros(THREADS, 50, device=DEVICE)

    lock = threading.Lock()  # as with any torch device, writes to one storage need the caller's lock

    def work(i):
        row = x[i]
        for k in range(50):
            with lock:
                row[k] += i + 1

    together(work, THREADS)
    assert x.sum(1).tolist() == [50.0 * (i + 1) for i in range(THREADS)]


def test_an_error_in_one_thread_stays_there():
    def work(i):
        x = torch.ones(3, device=DEVICE)
        for _ in range(50):
            if i == 0:
                with pytest.raises(RuntimeError):
                    x + torch.ones(4, device=DEVICE)
            else:
                assert (x * i).sum().item() == 3 * i

    together(work, THREADS)
