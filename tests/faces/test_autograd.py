"""Autograd and torch.func on the device: hooks, higher derivatives, custom functions, transforms."""

import pytest
import torch
import torch.nn.functional as F
from torch.nn.utils import parametrizations, parametrize

from tests.support import DEVICE, check

pytestmark = pytest.mark.usefixtures("mode")


def test_hooks():
    def prepare(device):
        layer = torch.nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.fill_(0.1)
        return layer.to(device)

    def case(device, layer):
        seen = []
        x = torch.arange(3.0, device=device, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.sum()))
        y = x * x
        y.register_hook(lambda g: seen.append(g.sum()))
        y.retain_grad()
        layer.register_forward_hook(lambda m, i, o: o * 3)
        layer.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum()))
        layer(y).sum().backward()
        return x.grad, y.grad, seen

    check(case, prepare)


def test_double_backward():
    def case(device):
        x = torch.tensor([0.5, 1.5], device=device, requires_grad=True)
        w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)
        y = torch.tanh(x @ w).pow(3).sum() + F.softplus(x).prod() + F.gelu(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        g.pow(2).sum().backward()
        (h,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
        (h2,) = torch.autograd.grad(h.sum(), x, create_graph=True)
        return g, x.grad, w.grad, h2, torch.autograd.grad(h2.sum(), x)[0]

    check(case)


def test_gradients_accumulate_and_reset():
    def case(device):
        x = torch.ones(2, device=device, requires_grad=True)
        (x * 2).sum().backward()
        (x * 3).sum().backward()
        first = x.grad.clone()
        x.grad.zero_()
        (x * 5).sum().backward()
        x.grad = None
        (x[0] * 7).backward()
        return first, x.grad, x.is_leaf, (x * 2).is_leaf

    check(case)


def test_in_place_under_autograd():
    def case(device):
        x = torch.arange(6.0, device=device, requires_grad=True)
        y = x * 1
        y[:3] = y[3:] * 2
        y.view(2, 3)[1].mul_(3)
        y.t_() if y.dim() == 2 else y.exp_()
        torch.relu_(y)
        y.sum().backward()
        return x.grad, y

    check(case)


@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x[:1].zero_(), lambda x: x.resize_(5)])
def test_writing_a_leaf_that_requires_grad_is_an_error(write):
    check(lambda device: write(torch.ones(2, device=device, requires_grad=True)))


def test_a_custom_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def case(device):
        x = torch.tensor([1.0, -2.0], device=device, requires_grad=True)
        Cube.apply(x).sum().backward()
        return (x.grad,)

    check(case)


def test_checkpoint_recomputes_the_same():
    from torch.utils.checkpoint import checkpoint

    def prepare(device):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(device)

    def case(device, net):
        x = torch.linspace(-1, 1, 12, device=device).reshape(3, 4).requires_grad_()
        checkpoint(net, x, use_reentrant=False).sum().backward()
        return x.grad, *[p.grad for p in net.parameters()]

    check(case, prepare)


def test_checkpoint_repeats_dropout_masks():
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(64, device=DEVICE, requires_grad=True)
    y = checkpoint(lambda t: F.dropout(t, 0.5), x, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_func_grad_vmap_jvp():
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    def prepare(device):
        torch.manual_seed(0)
        return torch.nn.Linear(3, 2).to(device)

    def case(device, layer):
        x = torch.tensor([0.3, -0.7, 1.1], device=device)
        m = torch.arange(6.0, device=device).reshape(2, 3)
        f = lambda t: (t.sin() * t).sum()
        out = [grad(f)(x), grad(grad(lambda t: t.pow(4).sum() if t.dim() else t**4))(x[0])]
        out += [vmap(f)(m), vmap(grad(f))(m), vmap(torch.dot, (0, None))(m, x), vmap(lambda t: t @ m.t(), 0)(m)]
        out += list(jvp(f, (x,), (torch.ones_like(x),)))
        value, pull = vjp(lambda t: t.exp() * 2, x)
        out += [value, *pull(torch.ones_like(value)), jacrev(torch.sin)(x), jacfwd(torch.sin)(x), hessian(f)(x)]
        weights = {k: v.detach() for k, v in layer.named_parameters()}
        loss = lambda w, t: functional_call(layer, w, (t,)).pow(2).sum()
        out += list(vmap(grad(loss), (None, 0))(weights, m).values())
        return out

    check(case, prepare)


def test_forward_mode():
    import torch.autograd.forward_ad as fwd

    def case(device):
        x, t = torch.tensor([0.5, 2.0], device=device), torch.tensor([1.0, -1.0], device=device)
        with fwd.dual_level():
            dual = fwd.make_dual(x, t)
            out = fwd.unpack_dual(torch.tanh(dual * dual).cumsum(0))
            return out.primal, out.tangent

    check(case)


def test_parametrize_and_norms():
    def prepare(device):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 3)

        class Symmetric(torch.nn.Module):
            def forward(self, w):
                return w.triu() + w.triu(1).mT

        parametrize.register_parametrization(layer, "weight", Symmetric())
        return layer.to(device), parametrizations.weight_norm(torch.nn.Linear(3, 2)).to(device)

    def case(device, given):
        layer, normed = given
        x = torch.linspace(-1, 1, 6, device=device).reshape(2, 3)
        out = normed(layer(x))
        out.sum().backward()
        return out, layer.weight, [p.grad for p in (*layer.parameters(), *normed.parameters())]

    check(case, prepare)


def test_clip_and_norm_of_gradients():
    def prepare(device):
        torch.manual_seed(0)
        return torch.nn.Linear(4, 3).to(device)

    def case(device, net):
        net(torch.ones(2, 4, device=device)).pow(2).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        torch.nn.utils.clip_grad_value_(net.parameters(), 0.05)
        vector = torch.nn.utils.parameters_to_vector(net.parameters())
        return norm, vector, *[p.grad for p in net.parameters()]

    check(case, prepare)


def test_gradcheck():
    x = torch.tensor([0.3, -0.7], dtype=torch.float64, device=DEVICE, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.sigmoid(t) * t.exp(), (x,))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.untraceable("the value of a tensor was asked for")
def test_anomaly_mode_names_the_function():
    def case(device):
        x = torch.zeros(2, device=device, requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=True):
            (x.sqrt() * 0).sum().backward()

    check(case)


@pytest.mark.untraceable("a number of an optimizer was used after its schedule was stepped")
def test_a_training_loop_with_a_schedule_and_weight_averaging():
    def prepare(device):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1)).to(device)
        average = torch.optim.swa_utils.AveragedModel(net)
        opt = torch.optim.AdamW(net.parameters(), lr=0.01)
        return net, average, opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5)

    def case(device, given):
        net, average, opt, schedule = given
        x = torch.linspace(-1, 1, 32, device=device).reshape(8, 4)
        losses = []
        for _ in range(5):
            opt.zero_grad(set_to_none=True)
            loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
            loss.backward()
            opt.step()
            schedule.step()
            average.update_parameters(net)
            losses.append(loss.detach())
        return losses, *net.parameters(), *average.parameters(), schedule.get_last_lr()[0]

    check(case, prepare)


FOREACH = {
    "add": lambda ws: torch._foreach_add_(ws, 1.0),
    "mul": lambda ws: torch._foreach_mul_(ws, ws),
    "addcdiv": lambda ws: torch._foreach_addcdiv_(ws, ws, ws, [1.0] * len(ws)),
    "lerp": lambda ws: torch._foreach_lerp_(ws, ws, 0.5),
    "copy": lambda ws: torch._foreach_copy_(ws, [torch.ones_like(w) for w in ws]),
    "zero": torch._foreach_zero_,
}


@pytest.mark.parametrize("name", FOREACH)
def test_autograd_sees_writes_to_lists(name):
    ws = [torch.ones(3, device=DEVICE) for _ in range(2)]
    y = torch.ones(3, device=DEVICE, requires_grad=True)
    out = (ws[1] * y).sum()
    FOREACH[name](ws)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
