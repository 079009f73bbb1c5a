"""Writes at computed places: nothing is copied but what is written, and a bad index changes nothing."""

import pytest
import torch

from tests.support import DEVICE, assert_same, on_device

ROWS = 96  # of 64 elements: enough for memory to be given to the result
REDUCTIONS = ["sum", "prod", "mean", "amax", "amin"]


def wide(i, v):
    return i[:, None].expand(v.shape)


def twice(x, i, v):
    x.index_copy_(0, i, v)
    x.index_add_(0, i, v)


def put_twice(x, i, v):
    x[i] = v
    x[i + 1] = v


WRITES = {
    "index_put_": lambda x, i, v: x.index_put_((i,), v),
    "index_put_ of two": lambda x, i, v: x.index_put_((i * 0, i), v[:, 0]),
    "index_put_ adding": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "index_put_ of columns": lambda x, i, v: x.t().index_put_((i,), v[:, :1]),
    "index_put_ of a view": lambda x, i, v: x[:, 1:].index_put_((i,), v[:, 1:]),
    "scatter_": lambda x, i, v: x.scatter_(0, wide(i, v), v),
    "scatter_ along rows": lambda x, i, v: x.scatter_(1, i[None].expand(ROWS, -1), 2.0),
    "scatter_ adding": lambda x, i, v: x.scatter_(0, wide(i, v), v, reduce="add"),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, wide(i, v), v),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v, alpha=2),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, 3),
    "index_fill_ of a view": lambda x, i, v: x[:, 3:5].index_fill_(0, i, 3),
    "put_": lambda x, i, v: x.put_(i, v[:, 0]),
    "put_ adding": lambda x, i, v: x.put_(i, v[:, 0], accumulate=True),
    "two with one index": twice,
    "two with two indices": put_twice,
    "a change before": lambda x, i, v: x.mul_(2).index_copy_(0, i, v),
}
for how in REDUCTIONS:
    for include in (True, False):
        WRITES[f"scatter_reduce_ {how} {include}"] = lambda x, i, v, h=how, s=include: x.scatter_reduce_(
            0, wide(i, v), v, h, include_self=s
        )
        if how != "sum":
            WRITES[f"index_reduce_ {how} {include}"] = lambda x, i, v, h=how, s=include: x.index_reduce_(
                0, i, v, h, include_self=s
            )


def operands(device, bad, dtype=torch.float32):
    x = torch.arange(ROWS * 64, device=device).reshape(ROWS, 64).to(dtype)
    last = 10_000 if bad else 40
    i = torch.tensor([3, 0, last, 17], device=device)
    return x, i, (torch.arange(4 * 64, device=device).reshape(4, 64) % 5 + 1).to(dtype)


@pytest.mark.filterwarnings("ignore:.*beta.*")
@pytest.mark.parametrize("which", WRITES)
@pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)
def test_good_indices_write(mode, which):
    def work(device):
        x, i, v = operands(device, bad=False)
        WRITES[which](x, i, v)
        return x

    assert_same(on_device(work, DEVICE), work("cpu"))


@pytest.mark.skipif(DEVICE == "cpu", reason="torch CPU writes up to the bad index")
@pytest.mark.filterwarnings("ignore:.*beta.*")
@pytest.mark.parametrize("which", WRITES)
@pytest.mark.parametrize("mode", ["strict", "jit"], indirect=True)
def test_a_bad_index_changes_nothing(mode, which):
    write = WRITES[which]
    if mode == "jit":
        import torch_pjrt as tp

        write = tp.jit(write)
    x, i, v = operands(DEVICE, bad=True)
    before = x.cpu()
    if mode == "strict" and which in ("two with one index", "two with two indices", "a change before"):
        pytest.skip("the first of two calls is its own")
    with pytest.raises((IndexError, RuntimeError)):
        write(x, i, v)
        x.cpu()
    assert torch.equal(x.cpu(), before)


@pytest.mark.skipif(DEVICE == "cpu", reason="torch CPU writes up to the bad index")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("which", ["index_put_ adding", "scatter_add_", "index_copy_", "scatter_reduce_ amax False"])
def test_a_bad_index_changes_nothing_in_any_dtype(dtype, which):
    x, i, v = operands(DEVICE, bad=True, dtype=dtype)
    before = x.cpu()
    with pytest.raises((IndexError, RuntimeError)):
        WRITES[which](x, i, v)
        x.cpu()
    assert torch.equal(x.cpu(), before)


def test_too_few_values_for_a_mask_change_nothing():
    x, _, v = operands(DEVICE, bad=False)
    with pytest.raises(RuntimeError):
        x.masked_scatter_(x > 10, v)
        x.cpu()
    assert torch.equal(x.cpu(), operands("cpu", bad=False)[0])


@pytest.mark.skipif(DEVICE == "cpu", reason="about the device's programs")
@pytest.mark.parametrize("which", ["index_put_", "index_add_", "index_copy_", "scatter_", "two with one index"])
def test_nothing_of_the_size_of_the_base_is_copied(which):
    import torch_pjrt as tp

    x, i, v = operands(DEVICE, bad=False)
    needed = tp.jit(WRITES[which]).lower(x, i, v).compile().memory_analysis()
    assert needed["temporaries"] < x.nbytes, needed


FILLS = {
    "index_fill_": lambda x, i: x.index_fill_(0, i, 3),
    "index_fill_ with a tensor": lambda x, i: x.index_fill_(0, i, i.sum().to(x.dtype)),
    "index_put_": lambda x, i: x.index_put_((i[:1],), i[:1].to(x.dtype)),
    "an item": lambda x, i: x.__setitem__(i, 2),
    "masked_fill_": lambda x, i: x.masked_fill_(torch.arange(4, device=x.device)[:, None] == i[0], 5),
    "tril_": lambda x, i: x.tril_(),
    "triu_": lambda x, i: x.triu_(1),
    "fill_": lambda x, i: x.fill_(4),
}


@pytest.mark.filterwarnings("ignore:.*expanded tensors:UserWarning")
@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.complex64], ids=str)
def test_expanded_tensors(mode, name, dtype):
    def run(device):
        first = float("nan") if dtype.is_floating_point else 7
        x = torch.tensor([first, -0.0, 1, 2], device=device)
        x = x.to(dtype)
        for i in ([1, 0], [2, 3]):
            FILLS[name](x.expand(4, 4), torch.tensor(i, device=device))
        return x

    assert_same(run(DEVICE), run("cpu"))


def test_adding_to_an_expanded_tensor_is_refused(mode):
    x, i = torch.zeros(3, device=DEVICE), torch.tensor([1, 1], device=DEVICE)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(4, 3).index_put_((i,), torch.ones(2, 3, device=DEVICE), accumulate=True)
    assert torch.equal(x.cpu(), torch.zeros(3))
    # The functional form has a tensor of its own.
    y = x.expand(4, 3).index_put((i,), torch.ones(2, 3, device=DEVICE), accumulate=True)
    assert_same(y, torch.zeros(4, 3).index_put((i.cpu(),), torch.ones(2, 3), accumulate=True))
