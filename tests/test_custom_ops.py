"""Ops that users define: with a kernel of their own they run on the device and are traced, without one on the CPU."""

import pytest
import torch
import torch_pjrt as tp

from tests.support import assert_same, fallbacks, to_cpu

WAYS = pytest.mark.parametrize("wrap", [lambda f: f, tp.jit], ids=["eager", "jit"])


@torch.library.custom_op("torch_pjrt_tests::scaled", mutates_args=(), device_types="cpu")
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by).to(x.dtype)


@scaled.register_kernel("pjrt")
def _(x, by):
    return x * by


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


scaled.register_autograd(
    lambda ctx, grad: (scaled(grad, ctx.by), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@torch.library.custom_op("torch_pjrt_tests::bump", mutates_args=("x",))
def bump(x: torch.Tensor, by: float) -> None:
    x.add_(by)


@torch.library.custom_op("torch_pjrt_tests::hosted", mutates_args=(), device_types="cpu")
def hosted(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@WAYS
def test_a_kernel_of_the_user(wrap):
    before = fallbacks()
    x = torch.arange(3.0)
    assert_same(to_cpu(wrap(lambda x: scaled(x, 2.5))(x.to("pjrt"))), scaled(x, 2.5))

    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(scaled(x, 3.0).square().sum(), x)[0]

    assert_same(to_cpu(wrap(gradient)(x.to("pjrt"))), gradient(x))
    assert fallbacks() == before


@WAYS
def test_a_kernel_that_writes_to_its_argument(wrap):
    before = fallbacks()
    x = torch.zeros(3).to("pjrt")
    step = wrap(lambda x: bump(x, 1.0))
    for n in (1.0, 2.0, 3.0):
        step(x)
        assert_same(to_cpu(x), torch.full((3,), n))
    assert fallbacks() == before


@WAYS
def test_inside_of_a_branch(wrap):
    x = torch.arange(3.0)
    f = wrap(lambda x: torch.cond(x.sum() > 0, lambda x: scaled(x, 2.0), lambda x: x.clone(), (x,)))
    assert_same(to_cpu(f(x.to("pjrt"))), x * 2)
    assert_same(to_cpu(f(-x.to("pjrt"))), -x)


def test_without_a_kernel_it_runs_on_the_cpu_and_is_counted():
    before = fallbacks().get("torch_pjrt_tests::hosted", 0)
    assert_same(to_cpu(hosted(torch.ones(2).to("pjrt"))), torch.full((2,), 2.0))
    assert fallbacks()["torch_pjrt_tests::hosted"] == before + 1


def test_without_a_kernel_it_is_not_traced():
    with pytest.raises(tp.JitError, match=r"test_custom_ops.*torch_pjrt_tests::hosted.*Way out: register a kernel"):
        tp.jit(lambda x: hosted(x))(torch.ones(2).to("pjrt"))
