"""``module.to(device)``: what a parameter was known by before, it is known by after."""

import weakref

import pytest
import torch
from torch import nn

from tests.support import assert_same, to_cpu


def _batch_norm() -> nn.Module:
    return nn.BatchNorm1d(3)


def _spectral() -> nn.Module:
    return nn.utils.spectral_norm(nn.Linear(3, 4))


def _weight_norm() -> nn.Module:
    return nn.utils.weight_norm(nn.Linear(3, 4))


MODULES = [_batch_norm, _spectral, _weight_norm, lambda: nn.LSTM(3, 4), lambda: nn.Linear(3, 2)]


@pytest.mark.parametrize("make", MODULES, ids=["batch_norm", "spectral", "weight_norm", "lstm", "linear"])
@pytest.mark.parametrize("home", ["cpu", "device"])
def test_a_module_moves_while_a_graph_holds_its_parameters(device, make, home):
    start, end = ("cpu", device) if home == "cpu" else (device, "cpu")
    torch.manual_seed(0)
    module = make().to(start)
    expected = to_cpu(module.state_dict())
    parameters = dict(module.named_parameters())
    alive = module(torch.ones(4, 3, device=start, requires_grad=True))
    module.to(end)
    assert alive is not None
    after = dict(module.named_parameters())
    assert all(after[name] is p and p.is_leaf for name, p in parameters.items())
    assert all(p.device.type == torch.device(end).type for p in after.values())
    for name, p in after.items():
        assert_same(p.detach(), expected[name], name)
    result = module(torch.ones(4, 3, device=end))
    (result[0] if isinstance(result, tuple) else result).sum().backward()
    assert all(p.grad is not None for p in after.values())


def test_backward_through_a_graph_from_before_the_move_is_an_error(device):
    module = nn.BatchNorm1d(3)
    before = module(torch.ones(4, 3))
    module.to(device)
    if torch.device(device).type != "cpu":
        with pytest.raises(RuntimeError, match="the graph leads to a parameter that its module has moved"):
            before.sum().backward()


def test_hooks_attributes_and_references_stay(device):
    module = nn.Linear(3, 2)
    weight, seen = module.weight, []
    weight.label = "first"  # type: ignore[attr-defined]
    reference = weakref.ref(weight)
    doubled = weight.register_hook(lambda g: g * 2)
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    for target in (device, "cpu", device):
        module.to(target)
        module.zero_grad()
        module(torch.ones(1, 3, device=target)).sum().backward()
        assert_same(weight.grad, torch.full((2, 3), 2.0))
    assert seen == [12.0] * 3
    assert module.weight is weight is reference() and weight.label == "first"  # type: ignore[attr-defined]
    doubled.remove()
    module.zero_grad()
    module(torch.ones(1, 3, device=device)).sum().backward()
    assert_same(weight.grad, torch.ones(2, 3))


def test_a_subclass_of_parameter_stays_one(device):
    class Kept(nn.Parameter):
        pass

    module = nn.Linear(3, 2)
    module.weight = Kept(torch.ones(2, 3))
    module.weight.label = "kept"  # type: ignore[attr-defined]
    module.to(device)
    assert type(module.weight) is Kept and module.weight.label == "kept"  # type: ignore[attr-defined]
    assert module.weight.device.type == torch.device(device).type


def test_gradients_move_along_as_the_same_tensors(device):
    module = nn.Linear(3, 2)
    module(torch.ones(1, 3)).sum().backward()
    grad = module.weight.grad
    module.to(device)
    assert module.weight.grad is grad and grad.device.type == torch.device(device).type
    assert_same(grad, torch.ones(2, 3))
