"""Corners of single ops, each beside torch CPU: values, dtypes, strides, and the kind of error."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.support import assert_no_fallback, check, fallbacks, outcome

inf, nan = math.inf, math.nan


def _t(device, values, dtype=None):
    return torch.tensor(values, dtype=dtype).to(device)


def _r(device, *sizes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(*sizes, generator=generator, dtype=dtype).to(device)


CORNERS = {
    "median of no rows": lambda d: torch.median(_r(d, 0, 3), 1),
    "nanmedian of no rows": lambda d: torch.nanmedian(_r(d, 0, 3), 1),
    "mode of no rows": lambda d: torch.mode(_r(d, 0, 3), 1),
    "kthvalue of no rows": lambda d: torch.kthvalue(_r(d, 0, 3), 1, 1),
    "hypot of infinities": lambda d: torch.hypot(_t(d, [inf, -inf, nan, 3.0]), _t(d, [nan, 1.0, 1.0, 4.0])),
    "negative strides": lambda d: _r(d, 6).as_strided((2,), (-1,)),
    "negative offset": lambda d: _r(d, 6).as_strided((2,), (1,), -1),
    "negative size": lambda d: _r(d, 6).as_strided((-2,), (1,)),
    "strides of another rank": lambda d: _r(d, 6).as_strided((2, 2), (1,)),
    "empty_strided of another rank": lambda d: torch.empty_strided((2, 3), (1,), device=d),
    "empty_strided backwards": lambda d: torch.empty_strided((2, 3), (-1, 1), device=d),
    "index of int16": lambda d: _r(d, 3, 3)[_t(d, [1, 0], torch.int16)],
    "index of int32": lambda d: _r(d, 3, 3)[_t(d, [1, 0], torch.int32)],
    "write at int16": lambda d: _r(d, 3, 3).index_put((_t(d, [1, 0], torch.int16),), _t(d, 1.0)),
    "alpha of bools": lambda d: torch.add(_t(d, [True, False]), _t(d, [True, True]), alpha=2),
    "fill with a vector": lambda d: _r(d, 3).fill_(_t(d, [5.0])),
    "celu without alpha": lambda d: F.celu(_r(d, 3), 0.0),
    "cross entropy of ints": lambda d: F.binary_cross_entropy(_r(d, 3).sigmoid(), _t(d, [0, 1, 1])),
    "too much output padding": lambda d: F.conv_transpose1d(_r(d, 2, 3, 5), _r(d, 3, 4, 3), stride=2, output_padding=2),
    "output padding below dilation": lambda d: F.conv_transpose1d(
        _r(d, 2, 3, 5), _r(d, 3, 4, 3), stride=2, dilation=3, output_padding=2
    ),
    "attention of two dtypes": lambda d: F.scaled_dot_product_attention(
        _r(d, 1, 2, 4), _r(d, 1, 3, 4).half(), _r(d, 1, 3, 4).half()
    ),
    "attention under a double mask": lambda d: F.scaled_dot_product_attention(
        _r(d, 1, 2, 4), _r(d, 1, 3, 4), _r(d, 1, 3, 4), attn_mask=_r(d, 2, 3).double()
    ),
    "attention with too much dropout": lambda d: F.scaled_dot_product_attention(
        _r(d, 1, 2, 4), _r(d, 1, 3, 4), _r(d, 1, 3, 4), dropout_p=1.5
    ),
    "bags that start late": lambda d: F.embedding_bag(_t(d, [0, 1, 2, 1]), _r(d, 3, 4), _t(d, [1, 2])),
    "bags that start behind the end": lambda d: F.embedding_bag(_t(d, [0, 1, 2, 1]), _r(d, 3, 4), _t(d, [0, 5])),
    "an empty last bag": lambda d: F.embedding_bag(_t(d, [0, 1, 2, 1]), _r(d, 3, 4), _t(d, [0, 4])),
    "histc of NaN": lambda d: torch.histc(_t(d, [1.0, nan]), 4),
    "histc of infinity": lambda d: torch.histc(_t(d, [1.0, -inf]), 4),
    "histc of NaN in a range": lambda d: torch.histc(_t(d, [1.0, nan, 2.0]), 4, 0, 3),
    "a sorter out of range": lambda d: torch.searchsorted(_t(d, [5, 1, 3]), _t(d, [3]), sorter=_t(d, [1, 2, 5])),
    "two of a scalar": lambda d: torch.index_select(_t(d, 1.0), 0, _t(d, [0, 0])),
    "kaiser_window": lambda d: torch.kaiser_window(5, False, 3.0, device=d),
    "kaiser_window of nothing": lambda d: torch.kaiser_window(0, device=d),
    "hardtanh of ints by floats": lambda d: F.hardtanh(_t(d, [1, 5, -100], torch.int32), -2.5, 2.5),
    "masked_fill is row-major": lambda d: _r(d, 2, 3).t().masked_fill(_r(d, 3, 2) > 0, 0.0),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_corner(mode, corner):
    def case(device):
        return CORNERS[corner](device)

    check(case)


OUT = {name: getattr(torch, name) for name in ("sum", "prod", "mean", "nansum", "cumsum", "cumprod")}
DTYPES = [torch.int64, torch.uint8, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("name", OUT)
def test_out_decides_the_dtype_of_a_sum(device, name):
    """A sum computes in the dtype of ``out=`` unless told another; one that contradicts it is an error."""
    for own in (torch.float32, torch.int32, torch.bfloat16):
        for out in DTYPES:
            for given in (None, torch.float32):

                def case(d, own=own, out=out, given=given):
                    x = torch.tensor([[1.25, -2.5, 3.75], [3.5, 0.0, 9.0]]).to(own).to(d)
                    result = torch.empty(0, dtype=out, device=d)
                    return OUT[name](x, 0, dtype=given, out=result)

                expected, got = outcome(lambda: case("cpu")), outcome(lambda: case(device))
                if isinstance(expected, Exception):
                    assert isinstance(got, type(expected)), f"{own}, {out}, {given}: {got!r}, expected {expected!r}"
                else:
                    torch.testing.assert_close(got, expected)


POINTWISE = {
    "add": torch.add,
    "where": lambda a, b: torch.where(a > 0, b, 0.0),
    "lerp": lambda a, b: torch.lerp(a, b, 0.5),
    "addcmul": lambda a, b: torch.addcmul(a, b, b),
    "compare": torch.gt,
    "pow": lambda a, b: a.abs().pow(b),
    "mse_loss": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "three": lambda a, b: torch.clamp(a, b, b),
}
LAYOUTS = {
    "row-major": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "gaps": lambda x: torch.cat([x, x], 3)[..., ::2],
    "one broadcast": lambda x: x[:, :1],
    "broadcast inside": lambda x: x[..., :1],
    "a scalar": lambda x: x[0, 0, 0, 0],
    "expanded": lambda x: x[:1].expand(4, -1, -1, -1),
    "a row": lambda x: x[0, 0, 0],
}


@pytest.mark.parametrize("op", POINTWISE)
def test_strides_of_pointwise_results(device, op):
    """The first operand that tells two dims apart decides which is inner, as in torch."""
    x = torch.randn(4, 3, 5, 2, generator=torch.Generator().manual_seed(0))
    for first in LAYOUTS:
        for second in LAYOUTS:
            made = {}
            for d in ("cpu", device):
                a, b = (LAYOUTS[name](x.to(d)) for name in (first, second))
                made[d] = POINTWISE[op](a, b)
            assert made[device].stride() == made["cpu"].stride(), f"{first}, {second}"
            torch.testing.assert_close(made[device].cpu(), made["cpu"], equal_nan=True)


def test_a_device_that_does_not_exist(device):
    if device == "cpu":
        pytest.skip("about the other device")
    x = torch.ones(2)
    for make in (lambda d: x.to(d), lambda d: x.to(device).to(d), lambda d: torch.tensor([1], device=d),
                 lambda d: torch.zeros(2, device=d), lambda d: torch.nn.Linear(2, 2).to(d)):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"got {device}:1, expected {device}:0"):
            make(f"{device}:1")
        assert make(f"{device}:0") is not None


def test_unwritten_memory_of_deterministic_algorithms(device):
    def made():
        yield from (torch.empty(3, dtype=t, device=device) for t in (torch.float32, torch.int32, torch.bool))
        yield torch.empty_strided((2, 2), (1, 2), dtype=torch.complex64, device=device)
        yield torch.ones(3, device=device).resize_(5)
        yield torch.empty(0, device=device).resize_(2)

    expected = [[nan] * 3, [2**31 - 1] * 3, [True] * 3, None, [1.0, 1.0, 1.0, nan, nan], [nan, nan]]
    torch.use_deterministic_algorithms(True)
    try:
        for t, values in zip(made(), expected, strict=True):
            if values is None:
                assert t.isnan().all()
            else:
                torch.testing.assert_close(t.cpu(), torch.tensor(values, dtype=t.dtype), equal_nan=True)
    finally:
        torch.use_deterministic_algorithms(False)


NORMED = [((4, 3), 0), ((4, 3), 1), ((4, 3, 2), 0), ((4, 3, 2), 2), ((4, 3, 2), 1)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_weight_norm(mode, dtype):
    before = fallbacks()
    for sizes, dim in NORMED:

        def case(device, sizes=sizes, dim=dim):
            v = _r(device, *sizes).to(dtype).requires_grad_()
            g = torch.full([n if d == dim else 1 for d, n in enumerate(sizes)], 2.0, dtype=dtype, device=device)
            g.requires_grad_()
            w = torch._weight_norm(v, g, dim)
            return (w, *torch.autograd.grad(w.pow(2).sum(), (v, g)))

        check(case)
    assert_no_fallback(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_fake_quantize(mode, dtype):
    before = fallbacks()

    def case(device):
        x = (torch.arange(-30.0, 30.0) * 0.77).view(3, 20).to(dtype).to(device).requires_grad_()
        scale, zero = _t(device, [0.1, 0.2, 0.3]), _t(device, [0, 1, 2], torch.int32)
        results = [
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
            torch.fake_quantize_per_tensor_affine(x, scale[:1], zero[1:2], -128, 127),
            torch.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 255),
            torch.fake_quantize_per_channel_affine(x, scale, zero + 0.5, 0, 0, 255),
        ]
        return [(y, torch.autograd.grad(y.pow(2).sum(), x)[0]) for y in results]

    check(case)
    assert_no_fallback(before)
