"""Indexing by an integer that only the device knows, under jit: reads, writes, gradients, bad places, and what would
tell the copy of a part from a view of it."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import refusal
from tests.support import assert_same, to_cpu


def other(x):
    return torch.arange(x.size(0), device=x.device) % 2 == 0


READS = {
    "x[i]": lambda x, i: x[i] * 2,
    "x[:, i]": lambda x, i: x[:, i] * 2,
    "x[..., i]": lambda x, i: x[..., i] * 2,
    "x[None, i, 1:]": lambda x, i: x[None, i, 1:] * 2,
    "x[i, i - 1]": lambda x, i: x[i, i - 1] * 2,
    "x[i, ..., 1]": lambda x, i: x[i, ..., 1] * 2,
    "x[i.int(), :, [2, 0]]": lambda x, i: x[i.int(), :, [2, 0]] * 2,
    "x[[1, 0], i]": lambda x, i: x[[1, 0], i] * 2,
    "the result itself": lambda x, i: x[i],
    "x.select": lambda x, i: x.select(-1, i) * 2,
    "torch.select": lambda x, i: torch.select(x, 1, index=i) * 2,
    "x[i][i]": lambda x, i: x[i][i] * 2,
    "vmap": lambda x, i: torch.func.vmap(lambda row: row[i])(x),
}


def times_two(x, i):
    for _ in range(2):
        x[:, i] = x[:, i - 1] * 2


def added(x, i):
    x[i] += 1
    x[1:3, i] -= x[0, 0]
    x[i, ::2] *= 3.0


def masked(x, i):
    x[i, other(x[0])] = 9.0


def swapped(x, i):
    row = x[i].clone()
    x[i] = x[i - 1]
    x[i - 1] = row


WRITES = {
    "a number": lambda x, i: x.__setitem__(i, 7),
    "a float": lambda x, i: x.__setitem__((slice(None), i), 0.5),
    "a tensor, broadcast": lambda x, i: x.__setitem__((..., i), x[0, :, 0].unsqueeze(0)),
    "leading ones": lambda x, i: x.__setitem__(i, x[:1, :].clone()),
    "part of a row": lambda x, i: x.__setitem__((i, slice(1, 3)), -x[0, 1:3]),
    "beside other indices": lambda x, i: x.__setitem__((i, slice(None), [0, 2]), torch.ones(2, device=x.device)),
    "two places": lambda x, i: x.__setitem__((i, i - 1), 5),
    "a mask": masked,
    "a cache": times_two,
    "op by op": added,
    "rows change places": swapped,
}


def given():
    return torch.arange(64.0).reshape(4, 4, 4)


@pytest.mark.parametrize("name", READS)
def test_reading(name):
    function, x = READS[name], given()
    f = tp.jit(function)
    for i in (2, 3, -1, 1):
        assert_same(
            to_cpu(f(x.to("pjrt"), torch.tensor(i).to("pjrt"))), function(x, i if name == "vmap" else torch.tensor(i))
        )
    assert f.cache_info().misses == 1


@pytest.mark.parametrize("name", WRITES)
def test_writing(name):
    f = tp.jit(WRITES[name])
    x, y = given(), given().to("pjrt")
    for i in (2, 3, -1, 1):
        WRITES[name](x, torch.tensor(i))
        f(y, torch.tensor(i).to("pjrt"))
        assert_same(to_cpu(y), x)
    assert f.cache_info().misses == 1


def test_the_gradients_are_those_of_a_view():
    def loss(x, i):
        y = x * 2
        y[:, i] = x[i].square()
        y[i] *= x[0]
        return torch.autograd.grad((y[i - 1] * y[..., 1]).sum(), x)[0]

    x, i = given().requires_grad_(), torch.tensor(2)
    f = tp.jit(loss)
    assert_same(to_cpu(f(x.detach().to("pjrt").requires_grad_(), i.to("pjrt"))), loss(x, i))


def test_a_decoder_fills_its_cache_with_one_program():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    on_device = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    on_device.load_state_dict(layer.state_dict())
    on_device.to("pjrt")

    @torch.no_grad()
    def step(layer, cache, token, place):
        cache[:, place] = token
        visible = torch.arange(cache.size(1), device=cache.device) > place
        return layer(token.unsqueeze(1), cache, cache, key_padding_mask=visible.expand(2, -1), need_weights=False)[0]

    cache, there = torch.zeros(2, 6, 8), torch.zeros(2, 6, 8).to("pjrt")
    compiled = tp.jit(lambda token, place: step(on_device, there, token, place))
    for place in range(6):
        token = torch.randn(2, 8)
        expected = step(layer, cache, token, torch.tensor(place))
        assert_same(to_cpu(compiled(token.to("pjrt"), torch.tensor(place).to("pjrt"))), expected)
        assert_same(to_cpu(there), cache)
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x, i: x[:, i] * 1, "index 4 is out of bounds for dimension 1 with size 4"),
        (lambda x, i: x.__setitem__(-i - 1, 0), "index -5 is out of bounds for dimension 0 with size 4"),
        (lambda x, i: x.select(2, i) * 1, "index 4 is out of bounds for dimension 2 with size 4"),
    ],
)
def test_a_place_that_is_not_there_is_an_index_error(function, text):
    x = given().to("pjrt")
    with pytest.raises(IndexError, match=text):
        tp.jit(function)(x, torch.tensor(4).to("pjrt"))
        torch.pjrt.synchronize()
    assert_same(to_cpu(x), given())


def test_no_place_is_in_a_dim_without_elements():
    with pytest.raises(IndexError, match="out of bounds for dimension with size 0"):
        tp.jit(lambda x, i: x[i])(torch.zeros(0, 3).to("pjrt"), torch.tensor(0).to("pjrt"))


def write_to_a_part(x, i):
    x[i].add_(1)


def write_to_a_part_of_a_part(x, i):
    x[i][1:3] += 1


def use_a_part_after_a_write(x, i):
    row = x[i]
    x[i] = 0
    return row * 2


def use_all_after_a_write_to_a_part(x, i):
    row = x[i]
    row += 1
    return x * 2


def put_it_elsewhere(x, i):
    row = x[i]
    row += 1
    x[i - 1] = row


@pytest.mark.parametrize(
    "function",
    [
        write_to_a_part,
        write_to_a_part_of_a_part,
        use_a_part_after_a_write,
        use_all_after_a_write_to_a_part,
        put_it_elsewhere,
    ],
)
def test_what_tells_the_copy_from_a_view_is_refused(function):
    x = given().to("pjrt")
    text = refusal(function, x, torch.tensor(2).to("pjrt"))
    assert "test_places.py" in text and "Way out: write to the tensor (x[i] = v" in text
    assert_same(to_cpu(x), given())


def test_a_slice_at_a_place_names_narrow():
    text = refusal(lambda x, i: x[i : i + 2] * 1, given().to("pjrt"), torch.tensor(1).to("pjrt"))
    assert "x.narrow(dim, start, length) instead of a slice" in text
