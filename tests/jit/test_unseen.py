"""What torch decides or checks by a look at values on the host: under jit the device does it."""

import pytest
import torch
import torch.nn.functional as F
import torch_pjrt as tp
from torch import distributions
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from tests.support import assert_same, to_cpu, to_device

FREQUENCIES, RELIABILITIES = torch.tensor([1, 2, 0, 1]), torch.tensor([0.5, 1.0, 2.0, 0.1], dtype=torch.float64)


def weighted(x):
    return torch.cov(x, fweights=FREQUENCIES.to(x.device), aweights=RELIABILITIES.to(x.device)).square().sum()


def spectrum(x):
    window = torch.hann_window(8, dtype=x.dtype, device=x.device)
    s = torch.stft(x.reshape(-1), 8, window=window, return_complex=True, center=True)
    return torch.istft(s, 8, window=window).square().sum()


def shortened(x):
    return x.narrow(1, torch.tensor(1, device=x.device), 2).square().sum()


FUNCTIONS = {
    "max": lambda x: x.max() ** 2,
    "amax": lambda x: x.amax(1).square().sum(),
    "median": lambda x: x.median() ** 2,
    "prod": lambda x: x.prod(),
    "prod of a dim": lambda x: x.prod(1).sum(),
    "cumprod": lambda x: x.cumprod(1).sum(),
    "cov": weighted,
    "corrcoef": lambda x: x.corrcoef().square().sum(),
    "istft": spectrum,
    "masked_fill": lambda x: (x * 2).masked_fill(x > 0, x[0, 0]).square().sum(),
}
TRANSFORMS = {
    "grad": grad,
    "vmap": vmap,
    "vmap of grad": lambda f: vmap(grad(f)),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x.cos(),)),
    "vjp": lambda f: lambda x: vjp(f, x)[1](x.sum()),
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "hessian": hessian,
    "jacrev of jacrev": lambda f: jacrev(jacrev(f)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_under_transforms(name, transform):
    call = TRANSFORMS[transform](FUNCTIONS[name])
    x = torch.linspace(-1, 2, 12, dtype=torch.float64).sin().reshape(3, 4) + 0.1
    x = torch.stack([x, x.cos()]) if "vmap" in transform else x
    try:
        expected = call(x)
    except RuntimeError as error:
        if "data-dependent" not in str(error) and "vmap" not in str(error):
            raise
        pytest.skip("torch would look at batched values")
    assert_same(to_cpu(tp.jit(call)(x.to("pjrt"))), expected)


def test_functional_call_of_a_module():
    model = torch.nn.Linear(4, 3).double()
    x = torch.ones(2, 4, dtype=torch.float64)

    def loss(parameters, model, x):
        return functional_call(model, parameters, (x,)).prod(1).max()

    parameters = {n: p.detach() for n, p in model.named_parameters()}
    expected = jacrev(loss)(parameters, model, x)
    there = model.to("pjrt")
    got = tp.jit(lambda p, x: jacrev(loss)(p, there, x))(to_device(parameters, "pjrt"), x.to("pjrt"))
    assert_same(to_cpu(got), expected)


def after(f, *args):
    out = f(*args)
    tp.synchronize()
    return out


CHECKED = {
    "frequencies": (
        lambda x, w: torch.cov(x, fweights=w),
        (torch.randn(2, 3), torch.tensor([1, 2, 1])),
        (torch.randn(2, 3), torch.tensor([1, -2, 1])),
    ),
    "weights that sum to zero": (
        lambda x, w: torch.cov(x, aweights=w),
        (torch.randn(2, 3), torch.tensor([1.0, 2, 1])),
        (torch.randn(2, 3), torch.zeros(3)),
    ),
    "a variance": (
        F.gaussian_nll_loss,
        (torch.randn(3), torch.randn(3), torch.ones(3)),
        (torch.randn(3), torch.randn(3), -torch.ones(3)),
    ),
    "windows": (
        lambda s, w: torch.istft(s, 8, window=w, center=False),
        (torch.randn(5, 4, dtype=torch.complex64), torch.ones(8)),
        (torch.randn(5, 4, dtype=torch.complex64), torch.zeros(8)),
    ),
    "the start of a slice": (
        lambda x, i: x.narrow(0, i, 2),
        (torch.arange(5.0), torch.tensor(-3)),
        (torch.arange(5.0), torch.tensor(4)),
    ),
    "a start that is far off": (
        lambda x, i: torch.narrow(x, 0, i, 2),
        (torch.arange(5.0), torch.tensor(1)),
        (torch.arange(5.0), torch.tensor(9)),
    ),
    "a scale": (
        lambda x, s: distributions.Normal(x, s, validate_args=True).log_prob(x + 1),
        (torch.randn(3), torch.ones(3)),
        (torch.randn(3), -torch.ones(3)),
    ),
    "a value outside of the support": (
        lambda p, x: distributions.Bernoulli(p, validate_args=True).log_prob(x),
        (torch.full((3,), 0.3), torch.ones(3)),
        (torch.full((3,), 0.3), torch.ones(3) / 2),
    ),
    "a covariance": (
        lambda m, c: distributions.MultivariateNormal(m, c, validate_args=True).log_prob(m + 1),
        (torch.zeros(2), torch.tensor([[2.0, 1], [1, 2]])),
        (torch.zeros(2), torch.tensor([[2.0, 1], [0, 2]])),
    ),
    "a norm": (
        lambda g: torch.nn.utils.get_total_norm([g], error_if_nonfinite=True),
        (torch.ones(3),),
        (torch.tensor([1.0, float("inf"), 1]),),
    ),
    "lengths of inputs": (
        lambda x, n: F.ctc_loss(x.log_softmax(2), torch.ones(2, 2, device=x.device).long(), n, n.clamp(max=2)),
        (torch.randn(6, 2, 4), torch.tensor([6, 4])),
        (torch.randn(6, 2, 4), torch.tensor([6, 7])),
    ),
    "targets in one row": (
        lambda x, n: F.ctc_loss(x.log_softmax(2), torch.ones(5, device=x.device).long(), torch.full_like(n, 6), n),
        (torch.randn(6, 2, 4), torch.tensor([2, 3])),
        (torch.randn(6, 2, 4), torch.tensor([2, 2])),
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_device_checks(name):
    function, good, bad = CHECKED[name]
    f = tp.jit(function)
    assert_same(to_cpu(after(f, *to_device(good, "pjrt"))), function(*good))
    with pytest.raises((RuntimeError, ValueError, IndexError)) as theirs:
        function(*bad)
    with pytest.raises(theirs.type, match="test_unseen") as ours:
        after(f, *to_device(bad, "pjrt"))
    assert str(theirs.value).split()[0].partition("(")[0] in str(ours.value)
    assert f.cache_info().misses == 1


def test_gradient_of_a_value_that_is_filled_in():
    index, mask = torch.tensor([0, 2, 0]), torch.tensor([True, False, True])

    def work(x, value):
        value = value.requires_grad_()
        y = x.index_fill(0, index.to(x.device), value) * 2 + x.masked_fill(mask.to(x.device), value)
        (y * torch.arange(3.0, device=x.device)).sum().backward()
        return value.grad

    x = torch.randn(3)
    got = tp.jit(lambda x, v: work(x, v.detach().clone()))(x.to("pjrt"), torch.tensor(2.0).to("pjrt"))
    assert_same(to_cpu(got), work(x, torch.tensor(2.0)))


def test_a_slice_from_a_place_that_varies_learns():
    w, host = torch.arange(6.0).to("pjrt").requires_grad_(), torch.arange(6.0).requires_grad_()
    opt, other = torch.optim.SGD([w], lr=0.1), torch.optim.SGD([host], lr=0.1)

    def step(w, opt, i):
        opt.zero_grad()
        loss = w.narrow(0, i, 2).square().sum()
        loss.backward()
        opt.step()
        return loss.detach()

    f = tp.jit(lambda i: step(w, opt, i))
    for i in (0, 3, 4, -2):
        assert_same(to_cpu(f(torch.tensor(i).to("pjrt"))), step(host, other, torch.tensor(i)))
    assert_same(to_cpu(w.detach()), host.detach())


def write_to_it(x, i):
    x.narrow(0, i, 2).add_(1)
    return x


def use_it_after_a_write(x, i):
    part = x.narrow(0, i, 2)
    x.add_(1)
    return part * 2


def return_it_after_a_write(x, i):
    part = x.narrow(0, i, 2)
    x.add_(1)
    return part


@pytest.mark.parametrize("function", [write_to_it, use_it_after_a_write, return_it_after_a_write])
def test_a_slice_that_would_have_to_be_a_view_is_refused(function):
    x, i = torch.arange(5.0).to("pjrt"), torch.tensor(1).to("pjrt")
    with pytest.raises(tp.JitError, match=r"narrow.*Way out"):
        tp.jit(function)(x, i)
    assert_same(to_cpu(x), torch.arange(5.0))


def test_a_look_of_the_function_itself_is_refused():
    def function(x):
        return x.prod() if x.sum() > 0 else x

    with pytest.raises(tp.JitError, match=r"test_unseen.*item"):
        tp.jit(jacrev(function))(torch.ones(3).to("pjrt"))


def test_a_float_is_followed_beside_it():
    f = tp.jit(lambda x, s: jacrev(lambda x: (x * s).prod())(x))
    x = torch.tensor([2.0, 3.0])
    for s in (0.5, 0.25, 2.0):
        assert_same(to_cpu(f(x.to("pjrt"), s)), x.flip(0) * s * s)
    assert f.cache_info().misses == 1


def test_a_result_of_transforms_alone_has_no_backward_of_its_own():
    def second(x):
        return jacrev(grad(lambda x: F.instance_norm(x).pow(3).sum()))(x)

    x = torch.randn(2, 2, 3, dtype=torch.float64)
    assert_same(to_cpu(tp.jit(second)(x.to("pjrt")).detach()), second(x).detach())
