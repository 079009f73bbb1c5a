"""Reads at computed places along every dim, by one index and several, with dims before and after."""

import itertools

import pytest
import torch

from tests.support import check

SHAPES = [(6,), (5, 7), (3, 4, 5), (2, 3, 4, 5), (1, 4, 5), (2, 1, 3), (1, 1, 6)]


@pytest.mark.parametrize("shape", SHAPES)
def test_index_select_along_every_dim(mode, shape):
    def work(device):
        x = torch.arange(torch.Size(shape).numel(), device=device).reshape(shape)
        found = []
        for dim, size in enumerate(shape):
            index = torch.tensor([size - 1, 0, size // 2, 0], device=device)
            found += [x.index_select(dim, index), x.float().flip(dim).index_select(dim, index[:1])]
        return found

    check(work)


@pytest.mark.parametrize("shape", SHAPES)
def test_subscripts_of_every_set_of_dims(mode, shape):
    def work(device):
        x = torch.arange(float(torch.Size(shape).numel()), device=device).reshape(shape).requires_grad_()
        found = []
        for n in range(1, len(shape) + 1):
            for dims in itertools.combinations(range(len(shape)), n):
                subscript = [slice(None)] * len(shape)
                for k, d in enumerate(dims):
                    index = torch.tensor([[-1, 0, 0]], device=device)
                    subscript[d] = index if k % 2 else index.t() % shape[d]
                y = x[tuple(subscript)]
                found += [y.detach(), torch.autograd.grad(y.square().sum(), x)[0]]
        return found

    check(work)
