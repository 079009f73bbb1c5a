"""Hooks of tensors, and classes, that change between calls of a training step: torch CPU says what each step gives."""

import copy

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.support import assert_same


def doubled(g):
    return g * 2


def zeroed(p):
    p.grad.mul_(0)


class Scale:
    """A hook that reads what is in it."""

    def __init__(self):
        self.by = [1.0]

    def __call__(self, g):
        return g * self.by[0]


class Shifted(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1


class Plain(nn.Linear):
    pass


class Activation:
    def of(self, x):
        return x.tanh()


class Other:
    def of(self, x):
        return x.sigmoid()


class Base:
    def gain(self):
        return 1.0


class OtherBase:
    def gain(self):
        return 3.0


def make():
    torch.manual_seed(0)
    model = nn.Sequential(Plain(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model.activation, model.scale = Activation(), Scale()

    class Gain(Base):
        pass

    class Wide(OtherBase):
        pass

    model.gain, model.wide = Gain(), Wide()
    return model


def shift(self, x):
    return nn.functional.linear(x, self.weight, self.bias) - 1


def patch(model):
    """A method that the class of a layer, made for this model alone, did not define."""
    model[0].__class__ = type("Patched", (Plain,), {})


CHANGES = {
    "a hook": (None, lambda m: m[0].weight.register_hook(doubled)),
    "a second hook": (
        lambda m: m[0].weight.register_hook(doubled),
        lambda m: m[0].weight.register_hook(lambda g: g - 0.1),
    ),
    "a hook less": (
        lambda m: setattr(m, "handle", [m[0].weight.register_hook(doubled)]),
        lambda m: m.handle.pop().remove(),
    ),
    "a hook after accumulation": (None, lambda m: m[0].weight.register_post_accumulate_grad_hook(zeroed)),
    "a hook that reads": (
        lambda m: m[2].bias.register_hook(m.scale),
        lambda m: m.scale.by.__setitem__(0, -3.0),
    ),
    "the class of an object": (None, lambda m: setattr(m.activation, "__class__", Other)),
    "the class of a layer": (None, lambda m: setattr(m[0], "__class__", Shifted)),
    "a method more": (patch, lambda m: setattr(type(m[0]), "forward", shift)),
    "a method that covers another": (None, lambda m: setattr(type(m.gain), "gain", lambda self: 2.0)),
    "other bases": (None, lambda m: setattr(type(m.gain), "__bases__", (OtherBase,))),
}


def run(device, before, change):
    model = copy.deepcopy(make()).to(device)
    if before is not None:
        before(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        y = model.activation.of(model(x)) * model.gain.gain() + model.wide.gain()
        loss = y.square().mean()
        loss.backward()
        opt.step()
        return loss

    f = tp.jit(step) if device == "pjrt" else step
    found = []
    for k in range(6):
        if k == 3:
            change(model)
        x = torch.linspace(-1, 1, 12, device=device).view(4, 3) * (k + 1)
        found.append([f(x).detach().cpu(), [p.detach().cpu().clone() for p in model.parameters()]])
    return found, f.cache_info().misses if device == "pjrt" else 0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    before, change = CHANGES[name]
    expected, _ = run("cpu", before, change)
    actual, traces = run("pjrt", before, change)
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert_same(a, e, f"step {k}")
    assert traces == 3  # without gradients, with them, and after the change


def test_hooks_elsewhere_are_no_new_trace():
    w = torch.ones(3, device="pjrt", requires_grad=True)
    other = torch.ones(3, device="pjrt", requires_grad=True)
    f = tp.jit(lambda x: (w * x).sum())
    for _ in range(3):
        f(torch.ones(3, device="pjrt"))
        other.register_hook(doubled)
    assert f.cache_info().misses == 1


def test_a_hook_runs_once_for_a_gradient_from_outside():
    def gradient(device):
        w = torch.ones(3, device=device, requires_grad=True)
        w.register_hook(doubled)
        y = (w * 3).clone()
        y.register_hook(lambda g: g * 5)
        f = lambda x: (w * x * y).sum()
        f = tp.jit(f) if device == "pjrt" else f
        f(torch.arange(3.0, device=device)).backward()
        return w.grad.cpu()

    assert_same(gradient("pjrt"), gradient("cpu"))
