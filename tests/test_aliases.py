"""Tensors that share memory: written together, written while they are read, written twice."""

import pytest
import torch

from tests.support import DEVICE, check

SAME, OTHER = "one storage", "two storages"


def _halves(device: str, storage: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    x, y = torch.arange(1.0, 9.0, device=device), torch.arange(9.0, 17.0, device=device)
    return [x, y], [x[:4], x[4:]] if storage == SAME else [x[:4], y[4:]]


FOREACH = {
    "mul": lambda t: torch._foreach_mul_(t, [2.0, 3.0]),
    "add": lambda t: torch._foreach_add_(t, 1),
    "each other": lambda t: torch._foreach_add_(t, t[::-1]),
    "the first": lambda t: torch._foreach_add_(t, [t[0], t[0]]),
    "sgd": lambda t: torch._fused_sgd_(
        t, [torch.ones_like(p) for p in t], [], weight_decay=0.1, momentum=0.0, lr=0.5, dampening=0.0, nesterov=False,
        maximize=False, is_first_step=True,
    ),
    "adamw": lambda t: torch._fused_adamw_(
        t, [torch.ones_like(p) for p in t], [torch.zeros_like(p) for p in t], [torch.zeros_like(p) for p in t], [],
        [torch.ones((), device=t[0].device) for _ in t], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8,
        amsgrad=False, maximize=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", [(SAME, OTHER, SAME), (OTHER, SAME, OTHER)], ids=["same first", "other first"])
@pytest.mark.parametrize("op", FOREACH)
def test_lists_of_views_of_one_storage_and_of_several(mode, op, order):
    """The same shapes and strides whether the storages are one or two: the program must not be."""
    for storage in order:

        def case(device, storage=storage):
            bases, parts = _halves(device, storage)
            FOREACH[op](parts)
            return bases

        check(case)


def test_running_statistics_in_one_storage(mode):
    for storage in (SAME, OTHER, SAME):

        def case(device, storage=storage):
            bases, (mean, var) = _halves(device, storage)
            x = torch.arange(20.0, device=device).view(5, 4)
            torch.nn.functional.batch_norm(x, mean, var, training=True)
            return bases

        check(case)


@pytest.mark.parametrize("op", ["mul", "add", "each other", "the first"])
def test_a_tensor_twice_in_a_list(mode, op):
    def case(device):
        x = torch.arange(1.0, 5.0, device=device)
        FOREACH[op]([x, x])
        return x

    check(case)


def _shifted(x, y):
    return x[1:], y[:-1]


def _transposed(x, y):
    return x.view(2, 2), y.view(2, 2).t()


def _strided(x, y):
    return x[::2], y[1::2]


def _whole(x, y):
    return x, y


WRITES = {
    "mul_": lambda a, b: a.mul_(b),
    "copy_": lambda a, b: a.copy_(b),
    "assignment": lambda a, b: a.__setitem__(slice(None), b),
    "out=": lambda a, b: torch.add(b, 1, out=a),
    "clamp_": lambda a, b: a.clamp_(b),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("parts", [_shifted, _transposed, _strided, _whole])
def test_writing_to_memory_that_is_read(mode, parts, write):
    """An error as on CPU where the two overlap in part; views of two storages go on working, before and after."""
    for shared in (False, True, False):

        def case(device, shared=shared):
            x, y = torch.arange(1.0, 5.0, device=device), torch.arange(5.0, 9.0, device=device)
            WRITES[write](*parts(x, x if shared else y))
            return x, y

        check(case)


def test_a_refused_write_leaves_the_tensor_as_it_was():
    x = torch.arange(4.0, device=DEVICE)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        x[1:].add_(x[:-1])
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
