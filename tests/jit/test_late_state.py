"""Parameters that an optimizer meets later than others: unfrozen ones, heads that take turns, eager steps between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from .support import close

OPTIMIZERS = ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adadelta", "Adamax", "ASGD", "Rprop", "SGD", "Adagrad")

# Whether step ``i`` is traced, and whether it uses the second layer.
TURNS: dict[str, Callable[[int], tuple[bool, bool]]] = {
    "later": lambda i: (True, i >= 4),
    "in turns": lambda i: (True, i % 2 == 1),
    "in eager steps": lambda i: (i < 4, i >= 4),
}


def train(name: str, device: str, turns: Callable[[int], tuple[bool, bool]], **options: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    first, second = nn.Linear(6, 6).to(device), nn.Linear(6, 3).to(device)
    params = [*first.parameters(), *second.parameters()]
    opt = getattr(torch.optim, name)(params, lr=0.01, **options)

    def step(x: torch.Tensor, both: bool) -> None:
        opt.zero_grad()
        hidden = first(x)
        (second(hidden) if both else hidden).pow(2).mean().backward()
        opt.step()

    traced = tp.jit(step) if device == "pjrt" else step
    generator = torch.Generator().manual_seed(1)
    for i in range(8):
        inside, both = turns(i)
        x = torch.randn(5, 6, generator=generator).to(device)
        (traced if inside else step)(x, both)
    if device == "pjrt":
        assert traced.cache_info().misses <= 4
    return params


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_that_come_later(name: str, turns: str):
    for p, expected in zip(train(name, "pjrt", TURNS[turns]), train(name, "cpu", TURNS[turns]), strict=True):
        close(p, expected, grown=True)


def test_gradual_unfreezing():
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)
        net[0].requires_grad_(False)
        opt = torch.optim.AdamW(net.parameters(), lr=0.01)

        def step(x: torch.Tensor) -> None:
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()

        f = tp.jit(step) if device == "pjrt" else step
        for i in range(8):
            net[0].requires_grad_(i >= 4)
            f(torch.full((3, 4), float(i)).to(device))
        return list(net.parameters())

    for p, expected in zip(run("pjrt"), run("cpu"), strict=True):
        close(p, expected, grown=True)


LISTS: dict[str, Callable[[list[torch.Tensor], list[torch.Tensor]], object]] = {
    "add_ number": lambda a, b: torch._foreach_add_(a, 1),
    "add_ tensor": lambda a, b: torch._foreach_add_(a, torch.tensor(2.0), alpha=0.5),
    "add_ list": lambda a, b: torch._foreach_add_(a, b, alpha=2),
    "mul_ numbers": lambda a, b: torch._foreach_mul_(a, [2.0, 3.0]),
    "addcmul_": lambda a, b: torch._foreach_addcmul_(a, b, b, value=3),
    "addcdiv_ numbers": lambda a, b: torch._foreach_addcdiv_(a, b, b, [2.0, 3.0]),
    "zero_": lambda a, b: torch._foreach_zero_(a),
    "sqrt": lambda a, b: torch._foreach_sqrt(b),
    "add": lambda a, b: torch._foreach_add(a, b),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_tensors_on_two_devices(name: str):
    def lists(device: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        return [[torch.tensor([1.0 + k, 2.0]).to(device), torch.tensor([3.0, 4.0 + k])] for k in range(2)]  # type: ignore[return-value]

    (a, b), (c, d) = lists("pjrt"), lists("cpu")
    made, expected = LISTS[name](a, b), LISTS[name](c, d)
    assert [t.device.type for t in a] == ["pjrt", "cpu"]
    for t, e in zip(a, c, strict=True):
        close(t, e)
    assert (made is None) == (expected is None)
    for t, e in zip(made or [], expected or [], strict=True):  # type: ignore[call-overload]
        close(t, e)
