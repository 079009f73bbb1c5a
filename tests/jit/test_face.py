"""A jit function is what it wraps, too: a module's attributes, copies, pickles."""

import copy
import pickle

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close, mlp


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 2)

    @tp.jit
    def forward(self, x):
        return self.l(x)


class Trainer:
    def __init__(self):
        self.w = torch.ones(3).to("pjrt")

    @tp.jit(static_argnames=("k",))
    def step(self, x, k=2):
        return x * self.w * k


@tp.jit
def doubled(x):
    return x * 2


def _x():
    return torch.ones(4, 3).to("pjrt")


def test_a_wrapped_module_trains_as_the_module():
    torch.manual_seed(0)
    host, model = mlp(), tp.jit(mlp())
    assert model.to("pjrt") is model
    assert model.train() is model
    host.load_state_dict({k: v.cpu() for k, v in model.state_dict().items()})
    opts = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, host)]
    for i in range(4):
        for m, opt, x in ((model, opts[0], _x() + i), (host, opts[1], _x().cpu() + i)):
            opt.zero_grad()
            m(x).pow(2).mean().backward()
            opt.step()
    for p, q in zip(model.parameters(), host.parameters(), strict=True):
        close(p, q)
    assert model.cache_info().misses <= 2
    assert not model.eval().training
    model.scale = 3
    assert model.__wrapped__.scale == model.scale == 3
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = model.nothing
    with pytest.raises(AttributeError, match="no attribute 'parameters'"):
        _ = doubled.parameters


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_copies(duplicate):
    net, trainer, model = Net().to("pjrt"), Trainer(), tp.jit(mlp().to("pjrt"))
    x = _x()
    for make in (lambda: net, lambda: trainer, lambda: model):
        first = make()
        call = first.step if first is trainer else first
        expected = call(x)
        second = duplicate(first)
        again = second.step if second is not first and first is trainer else second
        close(again(x), expected)
        with torch.no_grad():
            for t in [second.w] if first is trainer else list(second.parameters()):
                t.zero_()
        assert not again(x).any()
        close(call(x), expected)
    assert duplicate(doubled) is doubled
    close(trainer.step(x, k=3), x * 3)


def _generator(x):
    yield x


async def _coroutine(x):
    return x


@pytest.mark.parametrize("function", [_generator, _coroutine, lambda x: iter([x])])
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_result_that_runs_later_is_refused(function):
    with pytest.raises(tp.JitError, match=r"it returned a .*Way out: return a list"):
        tp.jit(function)(_x())
