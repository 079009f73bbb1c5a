"""AveragedModel updated inside a step: the first update copies, further ones average, as outside."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_avg_fn

from tests.jit.support import close, pair

KINDS = {
    "swa": {},
    "ema": {"multi_avg_fn": get_ema_multi_avg_fn(0.9), "use_buffers": True},
    "one by one": {"avg_fn": get_swa_avg_fn()},
    "other": {"avg_fn": lambda averaged, p, n: averaged * 0.5 + p * 0.25},
}


@pytest.mark.parametrize("name", KINDS)
def test_updates_inside_a_step(name):
    def make():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    def trained(model, wrap):
        averaged = AveragedModel(model, **KINDS[name])
        opt = torch.optim.SGD(model.parameters(), lr=0.1)

        @wrap
        def step(x):
            opt.zero_grad()
            model(x).pow(2).mean().backward()
            opt.step()
            averaged.update_parameters(model)

        return step, averaged

    host, device = pair(make)
    (step, expected), (traced, averaged) = trained(host, lambda f: f), trained(device, tp.jit)
    for i in range(5):
        torch.manual_seed(i)
        x = torch.randn(5, 3)
        step(x)
        traced(x.to("pjrt"))
        for a, b in zip(averaged.state_dict().values(), expected.state_dict().values(), strict=True):
            close(a, b, 2e-5)
    assert traced.cache_info().misses <= 2
    averaged.update_parameters(device)
    assert int(averaged.n_averaged) == 6
