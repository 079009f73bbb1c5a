"""What the jit tests share."""

from __future__ import annotations

import contextlib
import copy
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch_pjrt as tp
from torch import nn

from tests.support import assert_same


def close(actual: torch.Tensor, expected: torch.Tensor, grown: bool = False) -> None:
    """Equal within the table; ``grown`` where steps magnified roundings."""
    assert_same(actual, expected, grown=grown)


def equal(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to the last bit."""
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().cpu(), rtol=0, atol=0, check_stride=False)


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape).to("pjrt")


def leaf(*values: float) -> torch.Tensor:
    """A tensor of the device that requires a gradient."""
    return torch.tensor(values).to("pjrt").requires_grad_()


def calls() -> list[torch.Tensor]:
    """Another value for each call."""
    return [torch.tensor([float(i), -2.0 * i]).to("pjrt") for i in range(1, 5)]


class Holder:
    """An object with these attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def pair(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """The same module on the CPU and on the device."""
    host = make()
    return host, copy.deepcopy(host).to("pjrt")


@contextlib.contextmanager
def beside(work: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Has another thread do ``work`` when what it gives is called, which returns when the work is done: in a function
    that is traced, where asking to be woken is refused. Fails as the work does."""
    called, done, failures = threading.Event(), threading.Event(), []

    def other() -> None:
        try:
            assert called.wait(60)
            work()
        except BaseException as error:
            failures.append(error)
        done.set()

    def call() -> None:
        called.set()
        for _ in range(6000):
            if done.is_set():
                return
            time.sleep(0.01)
        raise TimeoutError("the other thread did not come")

    thread = threading.Thread(target=other)
    thread.start()
    yield call
    thread.join()
    assert not failures, failures


def sees(f: Callable[..., Any], change: Callable[[], Any], x: torch.Tensor) -> int:
    """Calls of the jitted function give what the function gives, before a change and after it. How many traces: two,
    or one if what changed is an input."""
    traced = tp.jit(f)
    for _ in range(3):
        close(traced(x), f(x))
    assert traced.cache_info().misses == 1
    was = f(x).cpu()
    change()
    assert not torch.equal(was, f(x).cpu())
    for _ in range(3):
        close(traced(x), f(x))
    assert traced.cache_info().misses <= 2
    return traced.cache_info().misses


def compiles() -> int:
    """Programs that were compiled or loaded so far."""
    info = tp.cache_info()
    return info["compiles"] + info["disk_hits"]


def refusal(fn: Callable[..., Any], *args: Any) -> str:
    """The message of the JitError that tracing ``fn`` raises."""
    try:
        tp.jit(fn)(*args)
    except tp.JitError as error:
        return str(error)
    raise AssertionError("no JitError was raised")
