"""Gradients through a jit call, and transforms inside one."""

import pytest
import torch
import torch.func as tf
import torch_pjrt as tp
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.jit.support import close


def test_a_gradient_from_outside_cannot_be_differentiated_again():
    """It is no constant: what is computed from it would be wrong."""
    x = torch.tensor([1.0, 2.0]).to("pjrt").requires_grad_()
    f = tp.jit(lambda x: (x**3).sum())
    for _ in range(2):
        with pytest.raises(tp.JitError, match=r"gradient of a jit function .*create_graph.*both gradients"):
            torch.autograd.grad(f(x), x, create_graph=True)
        close(torch.autograd.grad(f(x), x)[0], torch.tensor([3.0, 12.0]))


def test_backward_outside():
    lin = nn.Linear(3, 3).to("pjrt")
    f = tp.jit(lambda x: ((lin(x) ** 2).sum() + x.sum(), lin(x).argmax()))
    x = torch.randn(2, 3).to("pjrt").requires_grad_()
    leaves = (x, *lin.parameters())
    for _ in range(3):
        loss, index = f(x)
        assert not index.requires_grad
        got = torch.autograd.grad(loss, leaves)
        for a, b in zip(got, torch.autograd.grad((lin(x) ** 2).sum() + x.sum(), leaves), strict=True):
            close(a, b)
    assert f.cache_info().misses == 1


def test_in_the_middle_of_a_graph():
    w = torch.randn(3, 3).to("pjrt").requires_grad_()
    f = tp.jit(lambda h: torch.tanh(h) * 2)
    x = torch.randn(2, 3).to("pjrt")
    for _ in range(2):
        (got,) = torch.autograd.grad(f(x @ w).sum(), w)
        (expected,) = torch.autograd.grad((torch.tanh(x @ w) * 2).sum(), w)
        close(got, expected)


def test_training_loop_around_a_jitted_module():
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).to("pjrt")
    other = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).to("pjrt")
    other.load_state_dict(m.state_dict())
    f = tp.jit(m)
    a, b = torch.optim.SGD(m.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(6, 3).to("pjrt")
        for net, opt in ((f, a), (other, b)):
            opt.zero_grad()
            net(x).pow(2).mean().backward()
            opt.step()
    for p, q in zip([*m.parameters(), *m.buffers()], [*other.parameters(), *other.buffers()], strict=True):
        close(p, q)
    assert f.cache_info().misses == 1


def test_double_backward_inside():
    def f(x):
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return (g**2).sum()

    x = torch.randn(2, 3).to("pjrt").requires_grad_()
    (got,) = torch.autograd.grad(tp.jit(f)(x), x)
    close(got, 36 * x**3)


def test_custom_function():
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x * 5

    x = torch.randn(4).to("pjrt").requires_grad_()
    (got,) = torch.autograd.grad(tp.jit(Clip.apply)(x).sum(), x)
    close(got, x * 5)


def _loss(w, x):
    return (torch.tanh(x @ w) ** 2).sum()


TRANSFORMS = {
    "grad": tf.grad(_loss),
    "vmap of grad": tf.vmap(tf.grad(_loss), (None, 0)),
    "jacrev": tf.jacrev(_loss),
    "jacfwd": tf.jacfwd(_loss),
    "hessian": tf.hessian(_loss),
    "jvp": lambda w, x: tf.jvp(lambda w: _loss(w, x), (w,), (w,))[1],
    "vjp": lambda w, x: tf.vjp(lambda w: torch.tanh(x @ w), w)[1](torch.ones_like(x))[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_inside(name):
    w, x = torch.randn(3, 3), torch.randn(2, 3)
    f = TRANSFORMS[name]
    close(tp.jit(f)(w.to("pjrt"), x.to("pjrt")), f(w, x))


def test_functional_call():
    m = nn.Linear(3, 2).to("pjrt")
    f = tp.jit(lambda p, x: tf.functional_call(m, p, (x,)))
    x = torch.randn(2, 3).to("pjrt")
    parameters = {k: v.detach() + 1 for k, v in m.named_parameters()}
    close(f(parameters, x), tf.functional_call(m, parameters, (x,)))


def test_complex_numbers():
    z = torch.randn(3, dtype=torch.complex64).to("pjrt").requires_grad_()
    f = tp.jit(lambda z: (z * z.conj()).real.sum())
    (got,) = torch.autograd.grad(f(z), z)
    close(got, 2 * z)


def _checkpointed(f, x):
    return checkpoint(f, x, use_reentrant=False)


def _on_the_host(f, x):
    with torch.autograd.graph.save_on_cpu():
        return f(x)


@pytest.mark.parametrize("around", [_checkpointed, _on_the_host])
@pytest.mark.parametrize("before", [False, True])
def test_torchs_hooks_around_a_call_leave_its_gradient(around, before):
    w = torch.randn(3, 3)
    device, host = w.to("pjrt").requires_grad_(), w.clone().requires_grad_()
    f = tp.jit(lambda x: (x @ device).sin())
    if before:
        f(torch.zeros(2, 3).to("pjrt"))
    for k in range(4):
        x = torch.randn(2, 3) + k
        around(f, x.to("pjrt")).sum().backward()
        (x @ host).sin().sum().backward()
    close(device.grad, host.grad)
    assert f.cache_info().misses <= 1 + before


def test_hooks_around_a_call_that_change_its_gradient_are_refused():
    w = torch.ones(3, 3).to("pjrt").requires_grad_()
    f = tp.jit(lambda x: (x @ w).sin())
    x = torch.ones(2, 3).to("pjrt")
    f(x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        with pytest.raises(tp.JitError, match=r"test_gradients\.py:\d+: .*saved_tensors_hooks around.*Way out"):
            f(x)
        with torch.no_grad():
            close(f(x), torch.ones(2, 3).mm(torch.ones(3, 3)).sin())

    def hooked(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            return x @ w

    tp.jit(hooked)(x).sum().backward()
    close(w.grad, torch.full((3, 3), 4.0))
