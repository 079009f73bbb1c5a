"""Weight normalization: values, gradients and second gradients as on CPU; moved to the device once computed."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn

CASES = [((3, 4), 0), ((3, 4), 1), ((4, 2, 3), 0), ((4, 2, 3), 1), ((4, 2, 3), 2), ((5,), 0)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)
@pytest.mark.parametrize("wrap", [lambda f: f, tp.jit], ids=["eager", "jit"])
def test_values_and_gradients(wrap, shape, dim, dtype):
    torch.manual_seed(0)
    lengths = [n if i == dim else 1 for i, n in enumerate(shape)]
    tensors = torch.randn(shape), torch.rand(lengths) + 0.5, torch.randn(shape)

    def case(v, g, up):
        v, g = v.detach().requires_grad_(), g.detach().requires_grad_()
        w = torch._weight_norm(v, g, dim)
        return w.detach(), *torch.autograd.grad(w, (v, g), up)

    expected = case(*(t.to(dtype) for t in tensors))
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    for a, b in zip(wrap(case)(*(t.to(dtype).to("pjrt") for t in tensors)), expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=tolerance, atol=tolerance)


def test_second_gradients():
    torch.manual_seed(0)
    v, g = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 1, dtype=torch.float64) + 0.5

    def case(device):
        a, b = v.to(device).requires_grad_(), g.to(device).requires_grad_()
        first = torch.autograd.grad(torch._weight_norm(a, b, 0).pow(3).sum(), (a, b), create_graph=True)
        return [t.cpu() for t in torch.autograd.grad(sum(x.pow(2).sum() for x in first), (a, b))]

    for a, b in zip(case("pjrt"), case("cpu"), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm], ids=lambda f: f.__name__)
def test_a_module_is_moved_after_its_weight_was_computed(norm):
    torch.manual_seed(0)
    host = norm(nn.Linear(3, 2))
    state = {k: v.clone() for k, v in host.state_dict().items()}
    x = torch.randn(4, 3)
    expected = host(x)
    device = norm(nn.Linear(3, 2))
    device.load_state_dict(state)
    device(x)
    device.load_state_dict(state)
    parameters = list(device.parameters())
    device = device.to("pjrt")
    assert all(p is q for p, q in zip(device.parameters(), parameters, strict=True))
    torch.testing.assert_close(device(x.to("pjrt")).cpu(), expected, rtol=1e-5, atol=1e-5)
