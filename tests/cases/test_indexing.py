"""Indices of every kind, good and bad. See ``tests/cases``."""

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import MODES
from tests.support import DEVICE, check, in_mode

pytestmark = pytest.mark.usefixtures("mode")


@pytest.mark.untraceable("the shape of a result depends on values")
def test_boolean_masks():
    def case(device):
        x = torch.arange(12.0, device=device)
        picked = x[x > 4]
        x[x > 7] = torch.tensor([1.0, 2, 3, 4], device=device)
        x[x == 3] = -1
        m = torch.arange(12.0, device=device).reshape(3, 4)
        rows = torch.tensor([True, False, True], device=device)
        m2 = m.clone()
        m2[rows] *= 2
        m2[rows, 1] = 5
        m2[m2 > 100] = 0
        return x, picked, m[rows], m[rows, 2], m[:, [True, False, True, True]], m2, m[m < 0], m.masked_select(m > 5)

    check(case)


def test_tensor_none_ellipsis_and_negative_indices():
    def case(device):
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        i = torch.tensor([-1, 0, 1], device=device)
        j = torch.tensor([[0], [1]], device=device)
        y = x.clone()
        y[torch.tensor([0, 0, 1], device=device)] += 1
        y[:, i, -1] = 3
        y.index_put_((j, i[None]), torch.tensor(1.0, device=device), accumulate=True)
        return (
            x[..., i, None],
            x[:, i, i],
            x[i[:2], :, -1],
            x[[1, 0], ..., ::3],
            x[j, i],
            x[j, :, i],
            x[None, 1, ..., None],
            x[-1, -2:, i],
            x[i[:0]],
            y,
            x.take(torch.tensor([0, -1, 5], device=device)),
        )

    check(case)


BAD_INDICES = {
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "embedding": lambda x, i: F.embedding(i, x[:, None]),
    "index_put": lambda x, i: x.index_put((i,), torch.tensor(1.0, device=x.device)),
    "scatter": lambda x, i: x.scatter(0, i, 2.0),
}


@pytest.mark.parametrize("mode", MODES, indirect=True)
@pytest.mark.parametrize("which", BAD_INDICES)
@pytest.mark.parametrize("bad", [5, -4])
def test_an_index_out_of_range_is_an_error_at_once_or_at_the_next_read(which, bad, mode):
    x = torch.arange(3.0, device=DEVICE)
    index = torch.tensor([bad], device=DEVICE)
    with pytest.raises((IndexError, RuntimeError)):
        y = in_mode(lambda: BAD_INDICES[which](x, index))()
        assert mode != "debug", "debug mode raises at the faulty line"
        y.cpu()
    assert x.cpu().tolist() == [0, 1, 2]
    assert (x + 1).cpu().tolist() == [1, 2, 3]
