"""Where the graph of a trace meets the caller's: tensors of closures computed outside, tensors with a graph that a
function stores, and writes of what has a gradient. Torch CPU says what is right, call by call."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import refusal
from tests.support import assert_same


class Box:
    """What functions reach beside their arguments."""

    def __init__(self, device):
        self.w = torch.tensor([1.0, 2, 3], device=device, requires_grad=True)
        self.v = torch.tensor([0.5, 1, 2], device=device, requires_grad=True)
        self.total = torch.zeros((), device=device)
        self.y = self.kept = self.aux = None


def steps(function, device, computed):
    """Four calls of ``function``, each followed by a backward outside: losses and gradients, and the traces made."""
    box = Box(device)

    def of_box(x):
        return function(box, x)

    f = tp.jit(of_box) if device == "pjrt" else of_box
    found = []
    for k in range(4):
        box.w.grad = box.v.grad = None
        box.y = computed(box, torch.arange(3.0, device=device) + k)
        loss = f(torch.arange(3.0, device=device) - k)
        for other in (box.kept, box.aux):
            if other is not None:
                loss = loss + other.sum()
        loss.backward()
        found.append([t.cpu().clone() for t in (loss.detach(), box.w.grad, box.v.grad, box.total)])
    return found, f.cache_info().misses if device == "pjrt" else 1


COMPUTED = {
    "one node": lambda box, a: (box.w * a).exp(),
    "the second result of a node": lambda box, a: torch.stack([box.w, box.w * a]).unbind()[1],
    "a view": lambda box, a: (box.w * a).view(3, 1)[:, 0],
    "a leaf": lambda box, a: box.w,
}


def uses_it(box, x):
    return (box.y * x * box.v).sum()


def uses_the_leaf_too(box, x):
    return (box.y * x * box.v * box.w).sum()


def stores_what_it_computes(box, x):
    box.kept = box.y * x
    return (box.v * x).sum()


def stores_what_it_returns(box, x):
    box.aux = box.kept = (box.y * x * box.v).sum()
    return box.kept


def stores_a_view_and_prints(box, x):
    y = box.y * box.v
    box.kept, box.aux = y[1:], {0: y}[0].square()
    tp.debug.print("y {}", y)
    return (y * x).sum()


def trains_inside(box, x):
    inner = (box.v.detach().requires_grad_() * x).square().sum()
    inner.backward()
    box.total += inner
    box.kept = (box.y * x).sum()
    return box.v.sum() * 2


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize(
    "function",
    [
        uses_it,
        uses_the_leaf_too,
        stores_what_it_computes,
        stores_what_it_returns,
        stores_a_view_and_prints,
        trains_inside,
    ],
)
def test_gradients_of_each_call_are_of_that_call(function, name, capsys):
    expected, _ = steps(function, "cpu", COMPUTED[name])
    actual, traces = steps(function, "pjrt", COMPUTED[name])
    for k, (a, e) in enumerate(zip(actual, expected, strict=True)):
        assert_same(a, e, f"call {k}")
    assert traces <= 2


def test_an_auxiliary_loss_that_a_module_stores_is_trained():
    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = torch.nn.Linear(4, 3), torch.nn.Linear(4, 12)
            self.aux = None

        def forward(self, x):
            shares = self.gate(x).softmax(-1)
            self.aux = shares.mean(0).square().sum()
            return (self.up(x).unflatten(-1, (3, 4)) * shares.unsqueeze(-1)).sum(-2)

    def train(device):
        torch.manual_seed(0)
        model = Experts().to(device)
        f = tp.jit(model) if device == "pjrt" else model
        opt = torch.optim.SGD(model.parameters(), lr=0.5)
        for k in range(4):
            opt.zero_grad()
            x = torch.linspace(-1, 1, 20, device=device).view(5, 4) * (k + 1)
            ((f(x) - 1).square().mean() + model.aux).backward()
            opt.step()
        return [p.detach().cpu() for p in model.parameters()]

    assert_same(train("pjrt"), train("cpu"))


def backward_inside(box, x):
    (box.y * x).sum().backward()


def gradient_of_the_leaf_inside(box, x):
    return torch.autograd.grad((box.y * x).sum(), box.w)


@pytest.mark.parametrize("function", [backward_inside, gradient_of_the_leaf_inside])
@pytest.mark.parametrize("name", [n for n in COMPUTED if n != "a leaf"])
def test_a_backward_through_what_is_outside_is_refused(function, name):
    box = Box("pjrt")
    box.y = COMPUTED[name](box, torch.ones(3, device="pjrt"))
    text = refusal(lambda x: function(box, x), torch.ones(3, device="pjrt"))
    assert "test_border.py" in text and "box.y" in text and "return the loss and call backward() outside" in text
    assert box.w.grad is None
    box.y.sum().backward()  # its graph is as it was
    assert box.w.grad is not None


def test_the_gradient_of_what_is_at_the_border_can_be_taken_inside():
    box = Box("pjrt")
    f = tp.jit(lambda x: torch.autograd.grad((box.y * box.y * x).sum(), box.y)[0])
    for k in range(3):
        box.y = box.w * (k + 1)
        assert_same(f(torch.ones(3, device="pjrt")).cpu(), torch.tensor([1.0, 2, 3]) * 2 * (k + 1))
    assert f.cache_info().misses == 1


def whole(box, x):
    box.y.mul_(x)


def part(box, x):
    box.y[1:].mul_(x[1:])


def buffer(box, x):
    box.total.add_((box.v * x).sum())


@pytest.mark.parametrize("function", [whole, part, buffer])
def test_a_write_of_what_has_a_gradient_is_refused(function):
    box = Box("pjrt")
    box.y = box.w * 2
    text = refusal(lambda x: function(box, x), torch.ones(3, device="pjrt"))
    assert "in place" in text and "detach() the value" in text
    assert_same([box.y.detach().cpu(), box.total.cpu()], [torch.tensor([2.0, 4, 6]), torch.tensor(0.0)])
    assert not box.total.requires_grad


def test_such_a_write_without_a_gradient_is_none():
    box = Box("pjrt")
    box.y = box.w * 2

    @tp.jit
    @torch.no_grad()
    def f(x):
        box.y.mul_(x)
        box.total.add_(box.v.sum())

    for _ in range(2):
        f(torch.full((3,), 2.0, device="pjrt"))
    assert_same([box.y.detach().cpu(), box.total.cpu()], [torch.tensor([8.0, 16, 24]), torch.tensor(7.0)])
    assert f.cache_info().misses == 1
