"""What the jit tests share."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
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


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def pair(make: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """The same module on the CPU and on the device."""
    host = make()
    return host, copy.deepcopy(host).to("pjrt")


def until(event: threading.Event) -> None:
    """Waits for another thread inside a function, where asking to be woken is refused."""
    for _ in range(6000):
        if event.is_set():
            return
        time.sleep(0.01)
    raise TimeoutError("the other thread did not come")


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
