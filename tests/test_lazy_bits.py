"""Writes through conjugate and negative views: what lies behind them changes, on the device."""

import pytest
import torch

from tests.support import check


def one(d):
    return torch.ones(1, 1, device=d)


REAL = {
    "neg_": lambda v: v.neg_(),
    "add_": lambda v: v.add_(1),
    "mul_ by itself": lambda v: v.mul_(v),
    "copy_": lambda v: v.copy_(torch.ones(2, device=v.device)),
    "fill_": lambda v: v.fill_(3),
    "setitem": lambda v: v.__setitem__(0, 5),
    "out of neg": lambda v: torch.neg(v, out=v),
    "out of mul": lambda v: torch.mul(v, 2, out=v),
    "index_put_": lambda v: v.index_put_((torch.tensor([0], device=v.device),), torch.ones(1, device=v.device)),
    "addmm_": lambda v: v.view(1, 2).addmm_(one(v.device), torch.ones(1, 2, device=v.device)),
}
COMPLEX = {
    "neg_": lambda v: v.neg_(),
    "conj_physical_": lambda v: v.conj_physical_(),
    "mul_": lambda v: v.mul_(2j),
    "copy_ of a conjugate": lambda v: v.copy_(v.clone().conj()),
    "setitem": lambda v: v.__setitem__(0, 5j),
    "addmm_": lambda v: v.view(1, 2).addmm_(one(v.device) + 1j, torch.ones(1, 2, device=v.device) + 0j),
    "out of mm": lambda v: torch.mm(one(v.device) * 1j, torch.ones(1, 2, device=v.device) + 0j, out=v.view(1, 2)),
}


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("name", REAL)
def test_through_a_negative_view(mode, name):
    def run(device, x):
        view = x.conj().imag
        REAL[name](view)
        return x, view.clone(), view.is_neg(), x.conj().imag.is_neg()

    check(run, lambda device: torch.tensor([1 + 2j, 3 - 4j], device=device))


@pytest.mark.usefixtures("no_fallback")
@pytest.mark.parametrize("name", COMPLEX)
def test_through_a_conjugate_view(mode, name):
    def run(device, x):
        view = x.conj()
        COMPLEX[name](view)
        return x, view.clone(), view.is_conj()

    check(run, lambda device: torch.tensor([1 + 2j, 3 - 4j], device=device))


@pytest.mark.usefixtures("no_fallback")
def test_the_result_is_the_tensor_itself(mode):
    def run(device, x):
        view = x.conj().imag
        version = view._version
        return view.neg_() is view, view._version - version

    check(run, lambda device: torch.tensor([1 + 2j], device=device))


@pytest.mark.usefixtures("no_fallback")
def test_gradients_through_it(mode):
    def run(device, x):
        y = x * 2
        y.conj().imag.neg_()
        return torch.autograd.grad((y * y).abs().sum(), x)

    check(run, lambda device: torch.tensor([1 + 2j, 3 - 4j], device=device, requires_grad=True))
