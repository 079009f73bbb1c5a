"""Modules, optimizers and autograd. See ``tests/cases``."""

import pytest
import torch
import torch.nn.functional as F

from tests.support import check

pytestmark = pytest.mark.usefixtures("mode")


@pytest.mark.parametrize("padding_idx", [2, -1, None])
def test_the_padding_row_of_an_embedding_has_no_gradient(padding_idx):
    def case(device, e):
        e(torch.tensor([[2, 0, 2, 4]], device=device)).pow(2).sum().backward()
        return (e.weight.grad,)

    def prepare(device):
        weight = torch.arange(15.0).reshape(5, 3)
        return torch.nn.Embedding.from_pretrained(weight, freeze=False, padding_idx=padding_idx).to(device)

    check(case, prepare)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_batch_norm_statistics_move_in_training_and_stay_in_eval(dims, momentum):
    def case(device, bn):
        x = torch.arange(2 * 3 * 4.0**dims, device=device).reshape(2, 3, *(4,) * dims) / 7
        y = bn(x), bn(x + 1)
        return *y, bn.eval()(x), bn.running_mean, bn.running_var, bn.num_batches_tracked

    check(case, lambda device: getattr(torch.nn, f"BatchNorm{dims}d")(3, momentum=momentum).to(device))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_tied_weights_train_once(optimizer):
    def prepare(device):
        torch.manual_seed(0)
        e, o = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False)
        o.weight = e.weight
        m = torch.nn.Sequential(e, o).to(device)
        assert m[0].weight is m[1].weight
        return m, optimizer(m.parameters(), lr=0.05)

    def case(device, given):
        m, opt = given
        for _ in range(3):
            opt.zero_grad()
            F.cross_entropy(
                m(torch.tensor([1, 2, 3], device=device)), torch.tensor([2, 3, 4], device=device)
            ).backward()
            opt.step()
        return (m[0].weight.detach(),)

    check(case, prepare)


def test_pooling_and_interpolation_edges():
    def case(device):
        x = torch.arange(50.0, device=device).reshape(1, 2, 5, 5)
        pools = [
            F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False),
            F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
            F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True),
            F.max_pool2d(-x, 2, dilation=2),
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.adaptive_max_pool2d(x, (2, 3)),
        ]
        for mode in ("nearest", "bilinear", "bicubic", "area"):
            corners = {} if mode in ("nearest", "area") else {"align_corners": False}
            pools += [F.interpolate(x, scale_factor=s, mode=mode, **corners) for s in (1.5, 0.6)]
        pools.append(F.interpolate(x, size=(9, 3), mode="bilinear", align_corners=True))
        return pools

    check(case)


@pytest.mark.parametrize("op", [torch.inverse, torch.linalg.det, torch.linalg.cholesky, torch.trace])
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_linear_algebra_of_the_wrong_shape_is_an_error(op, shape):
    check(lambda device: op(torch.ones(shape, device=device)))


def test_detach_and_no_grad_stop_gradients():
    def case(device):
        x = torch.ones(3, device=device, requires_grad=True)
        y = (x * 2).detach() * x
        with torch.no_grad():
            z = x * 5
        with torch.inference_mode():
            w = x * 7
        y.sum().backward()
        return x.grad, z.requires_grad, w.requires_grad, w.is_inference(), y.requires_grad, x.data.requires_grad

    check(case)


def test_a_transformer_encoder_with_padding():
    def prepare(device):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)

    def case(device, enc):
        x = torch.linspace(-1, 1, 2 * 5 * 8, device=device).reshape(2, 5, 8)
        pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2], device=device)
        trained = enc(x, src_key_padding_mask=pad)[:, :3]
        trained.sum().backward()
        grads = [p.grad for p in enc.parameters()]
        return trained, *grads, enc.eval()(x, src_key_padding_mask=pad)[:, :3]

    check(case, prepare)
