"""Writes reach the base and every other view. See ``tests/cases``."""

import pytest
import torch

from tests.support import check

pytestmark = pytest.mark.usefixtures("mode")


VIEW_CHAINS = {
    "transpose, step, unflatten, select": lambda x: x.t()[1:5:2].unflatten(1, (2, 2))[:, 1],
    "select then slice": lambda x: x.select(0, 3)[2:4],
    "diagonal": lambda x: x.diagonal(1),
    "expand of a row": lambda x: x[1:2].unsqueeze(0),
    "narrow, permute, flatten": lambda x: x.narrow(1, 1, 3).t()[:, 2],
    "view, split, squeeze": lambda x: x.view(2, 2, 6).split(1, 0)[1].squeeze(0),
    "as_strided with overlap of rows": lambda x: x.as_strided((3, 2), (7, 2), 1),
    "unfold": lambda x: x.unfold(1, 2, 2)[:, 1],
    "chunk of chunk": lambda x: x.chunk(2, 1)[1].chunk(2, 0)[0],
    "movedim and negative step by index": lambda x: x.movedim(0, 1)[::3, -2:],
}
WRITES = {
    "add_": lambda v: v.add_(3),
    "mul_ by itself": lambda v: v.mul_(v),
    "assign": lambda v: v.__setitem__(..., 7),
    "copy_": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).reshape(v.shape)),
    "zero_": lambda v: v.zero_(),
    "masked_fill_": lambda v: v.masked_fill_(v > 5, -1),
    "out=": lambda v: torch.add(v, 1, out=v),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("chain", VIEW_CHAINS)
def test_a_write_through_a_chain_of_views_reaches_the_base(chain, write):
    def case(device):
        x = torch.arange(24.0, device=device).reshape(4, 6)
        other = x.t()[2]
        v = VIEW_CHAINS[chain](x)
        WRITES[write](v)
        x.select(0, 3)[2:4] = 7
        return x, v, other, v.stride(), v.storage_offset(), x._version

    check(case)


@pytest.mark.parametrize("seed", range(12))
def test_random_views_and_writes_agree(seed):
    """A random walk: views of views, writes through any of them, reads of all of them at the end."""

    def case(device):
        g = torch.Generator().manual_seed(seed)

        def pick(n):
            return int(torch.randint(n, (), generator=g))

        live = [torch.arange(36.0, device=device).reshape(6, 6)]
        for step in range(14):
            t = live[pick(len(live))]
            if t.dim() == 0 or t.numel() < 2:
                t = live[0]
            d = pick(t.dim())
            choice = pick(8)
            if choice == 0:
                live.append(t.transpose(0, d))
            elif choice == 1:
                live.append(t.select(d, pick(t.size(d))))
            elif choice == 2:
                start = pick(t.size(d))
                live.append(t.narrow(d, start, t.size(d) - start))
            elif choice == 3:
                live.append(t.unsqueeze(d))
            elif choice == 4:
                live.append(t[(slice(None),) * d + (slice(None, None, 2),)])
            elif choice == 5:
                t.add_(step)
            elif choice == 6:
                t.copy_(t.flip(d))
            else:
                t.mul_(t.sum() % 3 - 1)
        return live

    check(case)


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_offset_and_step_are_part_of_the_program(start, step):
    def case(device):
        t = torch.arange(24.0, device=device).reshape(12, 2)
        return t[start::step] + t[start::step], t[start::step, 1:].exp(), t[:, start % 2].sum()

    check(case)


def test_the_same_inputs_wired_differently_are_different_programs():
    def case(device):
        a, b, c = (torch.arange(6.0, device=device).reshape(2, 3) + 10**k for k in range(3))
        products = [p * q + r for p, q, r in ((a, b, c), (b, c, a), (a, c, b), (c, a, a), (a, a, c))]
        return a.t(), b.t(), c.t(), *products, torch.where(a > b, a, c), torch.where(a < b, c, a), a - b, b - a, a - a

    check(case)


def test_a_view_taken_before_a_write_sees_it():
    def case(device):
        one = torch.ones(3, device=device)
        x = torch.full((3,), 2.0, device=device)
        view = x[1:]
        x.add_(one)
        y = x + one
        x.mul_(view.sum())
        view.sub_(x[0])
        return x, y, view, one

    check(case)


@pytest.mark.parametrize("assign", ["data", "set_", "swap"])
def test_a_tensor_that_gets_new_storage_leaves_old_views_alone(assign):
    def case(device):
        x = torch.zeros(3, device=device)
        v = x[:2]
        new = x + 1
        if assign == "data":
            x.data = new
        elif assign == "set_":
            x.set_(new)
        else:
            x, new = new, x
        v.add_(5)
        x.mul_(3)
        return x, v

    check(case)
