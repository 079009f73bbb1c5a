"""Gradients and checks that torch decides by looking at values: under jit they come out the same without a look."""

import pytest
import torch
import torch_pjrt as tp

from tests.support import assert_same

nan = float("nan")
CHOICES = {
    "one": [3.0, 1, 2, 0.5],
    "ties": [3.0, 1, 3, 1],
    "NaN": [3.0, nan, 1, nan],
    "infinite": [float("inf"), 1, -float("inf"), float("inf")],
}
FACTORS = {
    "no zero": [[2.0, 3, 4], [1, -1, 5]],
    "one zero": [[2.0, 0, 4], [1, -1, 5]],
    "zeros": [[0.0, 3, 0], [1, 0, 5]],
    "NaN": [[2.0, nan, 0], [0, 0, 0]],
}
PRODUCTS = {
    "prod": lambda x: x.prod(),
    "prod of a dim": lambda x: x.prod(-1),
    "prod kept": lambda x: x.prod(0, keepdim=True),
    "prod in double": lambda x: x.prod(1, dtype=torch.float64),
    "prod of one": lambda x: x[0, 1].prod(),
    "cumprod": lambda x: x.cumprod(1),
    "cumprod of the other dim": lambda x: x.cumprod(-2),
}


def gradient(function, values, device, wrap=lambda f: f, dtype=torch.float32):
    x = torch.tensor(values, dtype=dtype, device=device, requires_grad=True)

    def work():
        y = function(x)
        seed = torch.arange(1, y.numel() + 1, device=device).view(y.shape).to(y.dtype)
        return y.detach(), torch.autograd.grad(y, x, seed)[0]

    return wrap(work)()


@pytest.mark.parametrize("values", CHOICES)
@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_gradient_of_a_chosen_element(name, values):
    function = getattr(torch, name)
    expected = gradient(function, CHOICES[values], "cpu")
    assert_same(gradient(function, CHOICES[values], "pjrt", tp.jit), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("values", FACTORS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradient_of_a_product(name, values, dtype):
    if dtype.is_complex and "double" in name:
        dtype = torch.float32
    expected = gradient(PRODUCTS[name], FACTORS[values], "cpu", dtype=dtype)
    assert_same(gradient(PRODUCTS[name], FACTORS[values], "pjrt", tp.jit, dtype), expected)


@pytest.mark.parametrize("values", ["no zero", "one zero", "zeros"])
def test_second_gradient_of_a_product(values):
    def second(device, wrap):
        x = torch.tensor(FACTORS[values], dtype=torch.float64, device=device, requires_grad=True)

        def work():
            (g,) = torch.autograd.grad(x.prod(1).square().sum(), x, create_graph=True)
            return torch.autograd.grad((g * g.detach().cos()).sum(), x)[0]

        return wrap(work)()

    assert_same(second("pjrt", tp.jit), second("cpu", lambda f: f))


def test_every_call_looks_anew():
    step = tp.jit(lambda x: torch.autograd.grad(x.prod() + x.max(), x)[0])
    for values in ([2.0, 3, 4], [0.0, 3, 4], [0.0, 0, 4], [4.0, 4, 0]):
        x = torch.tensor(values, requires_grad=True)
        expected = torch.autograd.grad(x.prod() + x.max(), x)[0]
        assert_same(step(x.detach().to("pjrt").requires_grad_()), expected)
    assert step.cache_info().misses == 1


@pytest.mark.parametrize("name", ["inv", "cholesky", "solve", "lu_factor"])
def test_a_failed_factorization_is_an_error(name):
    function = getattr(torch.linalg, name)
    arguments = (torch.eye(2),) if name == "solve" else ()
    jitted = tp.jit(lambda a: function(a, *(b.to("pjrt") for b in arguments)))
    good, bad = torch.tensor([[2.0, 1], [1, 3]]), -torch.ones(2, 2)
    assert_same(jitted(good.to("pjrt")), function(good, *arguments))
    with pytest.raises(RuntimeError) as theirs:
        function(bad, *arguments)
    with pytest.raises(theirs.type, match=f"linalg.{name}.*test_value_dependent"):
        jitted(bad.to("pjrt"))
        tp.synchronize()


def test_cov_and_corrcoef():
    x = torch.randn(3, 7)
    for function in (torch.cov, torch.corrcoef, lambda x: torch.cov(x[0], correction=0)):
        assert_same(tp.jit(function)(x.to("pjrt")), function(x))


def test_ends_of_a_range_may_be_tensors():
    def ranges(start, end):
        return torch.linspace(start, end, 5), torch.linspace(0, end, 4), torch.logspace(start, 2, 3, base=3.0)

    def there(start, end):
        with torch.device("pjrt"):
            return ranges(start, end)

    step = tp.jit(there)
    for start, end in ((1.0, 9.0), (-2.0, 0.5)):
        pair = torch.tensor(start), torch.tensor(end)
        assert_same(step(*(t.to("pjrt") for t in pair)), ranges(*pair))
    assert step.cache_info().misses == 1


@pytest.mark.parametrize("full", [True, False])
def test_gradient_of_complex_singular_vectors(full):
    """torch compares phases before it goes on: a loss that depends on them is an error, on the device as on the CPU."""

    def work(loss):
        def gradient(x):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(loss(*torch.linalg.svd(x, full_matrices=full)), x)[0]

        return gradient

    a = torch.randn(2, 4, 4, dtype=torch.complex128)
    fine = work(lambda u, s, v: (u.abs() * s.unsqueeze(-2)).sum() + v.abs().pow(3).sum())
    step = tp.jit(fine)
    for x in (a, 2 * a + 1):
        assert_same(step(x.to("pjrt")), fine(x))
    assert step.cache_info().misses == 1
    of_a_phase = work(lambda u, s, v: u.real.sum())
    with pytest.raises(RuntimeError) as expected:
        of_a_phase(a)
    with pytest.raises(RuntimeError) as found:
        tp.jit(of_a_phase)(a.to("pjrt")).cpu()
    assert str(found.value).split(" (called at")[0] == str(expected.value)
