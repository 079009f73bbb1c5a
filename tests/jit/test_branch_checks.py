"""An index out of range inside a branch or a loop is an error, as outside of one."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close

TABLE = (1.0, 2.0, 3.0)


def at(table, i):
    return table[i.reshape(1)].sum()


def branch(table, i):
    return torch.cond(i >= 0, lambda t, k: at(t, k) * 2, lambda t, k: at(t, k + 8), (table, i))


def nested(table, i):
    return torch.cond(
        i >= 0,
        lambda t, k: torch.cond(k > 0, lambda t, k: at(t, k), lambda t, k: t.sum(), (t, k)),
        lambda t, k: t.sum(),
        (table, i),
    )


def loop(table, i):
    def body(k, total):
        return k + 1, total + at(table, k)

    return torch.while_loop(lambda k, total: k < i, body, (torch.zeros_like(i), table.sum() * 0))[1]


def condition(table, i):
    start = (torch.zeros_like(i), i.clone())
    return torch.while_loop(lambda k, end: at(table, k) < end, lambda k, end: (k + 1, end.clone()), start)[0]


def scanned(table, i):
    from torch._higher_order_ops.scan import scan

    def step(carry, k):
        return carry + at(table, k), carry.clone()

    return scan(step, table.sum() * 0, torch.stack([i * 0, i]))[0]


def mapped(table, i):
    from torch._higher_order_ops.map import map as hop_map

    return hop_map(lambda k, t: at(t, k), torch.stack([i * 0, i]), table)


CASES = {
    "cond": (branch, 1, 3),
    "nested": (nested, 2, 3),
    "while_loop": (loop, 3, 4),
    "the condition of a while_loop": (condition, 3, 4),
    "scan": (scanned, 2, 3),
    "map": (mapped, 2, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_an_index_out_of_range_is_an_error(name):
    fn, good, bad = CASES[name]
    f = tp.jit(fn)
    table = torch.tensor(TABLE).to("pjrt")
    for _ in range(2):
        close(f(table, torch.tensor(good).to("pjrt")), fn(torch.tensor(TABLE), torch.tensor(good)))
        with pytest.raises(IndexError, match=r"out of (range|bounds).*test_branch_checks\.py"):
            f(table, torch.tensor(bad).to("pjrt"))
            tp.synchronize()
    assert f.cache_info().misses == 1


def test_a_branch_that_is_not_taken_is_not_checked():
    f = tp.jit(branch)
    table = torch.tensor(TABLE).to("pjrt")
    for i in (0, 2):
        close(f(table, torch.tensor(i).to("pjrt")), torch.tensor(TABLE[i] * 2))
    tp.synchronize()
    with pytest.raises(IndexError):
        f(table, torch.tensor(-1).to("pjrt"))
        tp.synchronize()


def test_an_index_that_names_no_branch_is_an_error():
    switch = pytest.importorskip("torch._higher_order_ops.switch")
    f = tp.jit(lambda i, x: switch.switch_op(i, (lambda x: x + 1, lambda x: x * 5, lambda x: -x), (x,)))
    x = torch.ones(2).to("pjrt")
    for i, expected in enumerate((2.0, 5.0, -1.0)):
        (out,) = torch.utils._pytree.tree_leaves(f(torch.tensor(i).to("pjrt"), x))
        close(out, torch.full((2,), expected))
    for i in (-1, 3):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            f(torch.tensor(i).to("pjrt"), x)
            tp.synchronize()
