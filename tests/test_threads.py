"""Four Python threads use the device at once: answers stay right, errors stay with the thread that made them."""

import threading

import pytest
import torch
import torch.nn.functional as F

from tests.support import DEVICE, python, together

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


@pytest.mark.skipif(DEVICE == "cpu", reason="nothing is compiled")
def test_python_goes_on_while_a_large_program_compiles():
    code = """
import threading, time, torch, torch_pjrt as tp
def many(x):
    for i in range(120):
        x = torch.sin(x @ x) * (i + 0.5) + x.cumsum(i % 2)
    return x
lowered = tp.jit(many).lower(torch.ones(31, 31, device="pjrt"))  # the trace needs the interpreter
done, gaps = threading.Event(), []
def tick():
    last = time.perf_counter()
    while not done.is_set():
        time.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
before = tp.cache_info()["compile_seconds"]
ticker = threading.Thread(target=tick)
ticker.start()
lowered.compile()
done.set()
ticker.join()
print(tp.cache_info()["compile_seconds"] - before, max(gaps))
"""
    done = python(code, TORCH_PJRT_CACHE="0")
    took, longest = map(float, done.stdout.split())
    assert took > 0.1, "a large program"
    assert longest < took / 2, f"the other thread stood still for {longest} of {took} s"
