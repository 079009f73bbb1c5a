"""Faults seen in comparable systems, each tested as a kind: the inputs vary around the one that broke.

Every function runs on torch CPU and on the device, in each mode, and must have the same outcome.
"""

import pytest
import torch
import torch.nn.functional as F

from tests.conftest import MODES
from tests.support import DEVICE, check, in_mode

pytestmark = pytest.mark.usefixtures("mode")


# --- aliasing: writes reach the base and every other view ------------------------------------------------------------

VIEW_CHAINS = {
    "transpose, step, unflatten, select": lambda x: x.t()[1:5:2].unflatten(1, (2, 2))[:, 1],
    "select then slice": lambda x: x.select(0, 3)[2:4],
    "diagonal": lambda x: x.diagonal(1),
    "expand of a row": lambda x: x[1:2].unsqueeze(0),
    "narrow, permute, flatten": lambda x: x.narrow(1, 1, 3).t()[:, 2],
    "view, split, squeeze": lambda x: x.view(2, 2, 6).split(1, 0)[1].squeeze(0),
    "as_strided with overlap of rows": lambda x: x.as_strided((3, 2), (7, 2), 1),
    "unfold": lambda x: x.unfold(1, 2, 2)[:, 1],
    "chunk of chunk": lambda x: x.chunk(2, 1)[1].chunk(2, 0)[0],
    "movedim and negative step by index": lambda x: x.movedim(0, 1)[::3, -2:],
}
WRITES = {
    "add_": lambda v: v.add_(3),
    "mul_ by itself": lambda v: v.mul_(v),
    "assign": lambda v: v.__setitem__(..., 7),
    "copy_": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).reshape(v.shape)),
    "zero_": lambda v: v.zero_(),
    "masked_fill_": lambda v: v.masked_fill_(v > 5, -1),
    "out=": lambda v: torch.add(v, 1, out=v),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("chain", VIEW_CHAINS)
def test_a_write_through_a_chain_of_views_reaches_the_base(chain, write):
    def case(device):
        x = torch.arange(24.0, device=device).reshape(4, 6)
        other = x.t()[2]
        v = VIEW_CHAINS[chain](x)
        WRITES[write](v)
        x.select(0, 3)[2:4] = 7
        return x, v, other, v.stride(), v.storage_offset(), x._version

    check(case)


@pytest.mark.parametrize("seed", range(12))
def test_random_views_and_writes_agree(seed):
    """A random walk: views of views, writes through any of them, reads of all of them at the end."""

    def case(device):
        g = torch.Generator().manual_seed(seed)

        def pick(n):
            return int(torch.randint(n, (), generator=g))

        live = [torch.arange(36.0, device=device).reshape(6, 6)]
        for step in range(14):
            t = live[pick(len(live))]
            if t.dim() == 0 or t.numel() < 2:
                t = live[0]
            d = pick(t.dim())
            choice = pick(8)
            if choice == 0:
                live.append(t.transpose(0, d))
            elif choice == 1:
                live.append(t.select(d, pick(t.size(d))))
            elif choice == 2:
                start = pick(t.size(d))
                live.append(t.narrow(d, start, t.size(d) - start))
            elif choice == 3:
                live.append(t.unsqueeze(d))
            elif choice == 4:
                live.append(t[(slice(None),) * d + (slice(None, None, 2),)])
            elif choice == 5:
                t.add_(step)
            elif choice == 6:
                t.copy_(t.flip(d))
            else:
                t.mul_(t.sum() % 3 - 1)
        return live

    check(case)


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_offset_and_step_are_part_of_the_program(start, step):
    def case(device):
        t = torch.arange(24.0, device=device).reshape(12, 2)
        return t[start::step] + t[start::step], t[start::step, 1:].exp(), t[:, start % 2].sum()

    check(case)


def test_the_same_inputs_wired_differently_are_different_programs():
    def case(device):
        a, b, c = (torch.arange(6.0, device=device).reshape(2, 3) + 10**k for k in range(3))
        products = [p * q + r for p, q, r in ((a, b, c), (b, c, a), (a, c, b), (c, a, a), (a, a, c))]
        return a.t(), b.t(), c.t(), *products, torch.where(a > b, a, c), torch.where(a < b, c, a), a - b, b - a, a - a

    check(case)


def test_a_view_taken_before_a_write_sees_it():
    def case(device):
        one = torch.ones(3, device=device)
        x = torch.full((3,), 2.0, device=device)
        view = x[1:]
        x.add_(one)
        y = x + one
        x.mul_(view.sum())
        view.sub_(x[0])
        return x, y, view, one

    check(case)


@pytest.mark.parametrize("assign", ["data", "set_", "swap"])
def test_a_tensor_that_gets_new_storage_leaves_old_views_alone(assign):
    def case(device):
        x = torch.zeros(3, device=device)
        v = x[:2]
        new = x + 1
        if assign == "data":
            x.data = new
        elif assign == "set_":
            x.set_(new)
        else:
            x, new = new, x
        v.add_(5)
        x.mul_(3)
        return x, v

    check(case)


# --- shapes and numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 0), (0, 3), (0,), (2, 0, 3), (0, 0)])
def test_zero_size(shape):
    def case(device):
        x = torch.ones(shape, device=device)
        flat = [x.flatten(), x.flatten(0, -2) if x.dim() > 1 else x, x.reshape(-1), x.t() if x.dim() < 3 else x.mT]
        sums = [x.sum(d) for d in range(x.dim())] + [x.prod(), x.sum(), x.mean()]
        return *flat, *sums, torch.cat([x, x]), x + x, x.any(), x.all(), torch.empty_like(x), x.sort().values

    check(case)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8, torch.float32, torch.float64])
def test_python_number_on_the_left(dtype):
    def case(device):
        b = torch.tensor([1, 2, 3, 100], dtype=dtype, device=device)
        return 2 // b, 7 % b, 2 ** (b % 4), 1 - b, 5 / b, b < 3, 7 // b.clone().fill_(2), torch.rsub(b, 2, alpha=3)

    check(case)


def test_floor_division_and_remainder_round_down():
    def case(device):
        a = torch.tensor([7, -7, 7, -7, 0], device=device)
        b = torch.tensor([2, 2, -2, -2, 5], device=device)
        out = []
        for x, y in ((a, b), (a.float() / 3, b.float()), (a.double(), b)):
            out += [x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x / y]
        return out

    check(case)


def test_a_cpu_scalar_tensor_mixes_in():
    def case(device):
        a = torch.arange(6.0, device=device)
        s = torch.tensor(-1.0)
        out = [a.masked_fill(a > 2, s), torch.where(a > 2, a, torch.tensor(9.0)), a + s, s * a, a.add(s, alpha=2)]
        a.add_(torch.tensor(2.0, dtype=torch.float64))
        a[1] = torch.tensor(5)
        return *out, a, torch.maximum(a, torch.tensor(3.0))

    check(case)


@pytest.mark.parametrize(
    "op", [torch.add, torch.mul, torch.matmul, lambda a, b: torch.cat([a, b]), lambda a, b: torch.where(a > 0, a, b)]
)
def test_mixed_devices_are_an_error(op):
    check(lambda device: op(torch.ones(2, device=device), torch.ones(2, device="meta")).cpu())


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a second device")
@pytest.mark.parametrize("op", [torch.add, torch.matmul, lambda a, b: torch.cat([a, b])])
def test_a_cpu_tensor_with_a_device_tensor_is_an_error(op):
    x = torch.ones(2, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"(?i)device"):
        op(x, torch.ones(2)).cpu()
    assert x.cpu().tolist() == [1, 1]


def test_integer_and_bool_promotion():
    values = {
        torch.bool: [True, False, True],
        torch.uint8: [1, 2, 255],
        torch.int8: [1, -2, 3],
        torch.int16: [5, -6, 7],
        torch.int32: [8, 9, -10],
        torch.int64: [11, -12, 13],
        torch.float16: [0.5, -1.5, 2.0],
        torch.bfloat16: [0.5, -1.5, 2.0],
        torch.float32: [0.1, 1.2, -2.3],
        torch.float64: [0.1, 1.2, -2.3],
    }

    def case(device):
        out = []
        tensors = [torch.tensor(v, dtype=d, device=device) for d, v in values.items()]
        for a in tensors:
            out += [a.sum(), a + 1, a * 2.5, a / 2, (a == 1).sum(), a.float().mean()]
            out += (
                [a + b for b in tensors] + [a * b.sum() for b in tensors] + [torch.where(a > 0, a, b) for b in tensors]
            )
        return out

    check(case)


def test_huge_and_tiny_values_survive():
    def case(device):
        x = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e-40, 3e38, -0.0], device=device)
        return (
            torch.softmax(torch.tensor([1e4, 1e4 - 1, -1e4], device=device), 0),
            torch.log_softmax(torch.tensor([1e4, 1e4 - 1, -1e4], device=device), 0),
            x * 2,
            torch.logsumexp(x[3:], 0),
            torch.logsumexp(torch.tensor([-float("inf")] * 2, device=device), 0),
            x.isnan(),
            x.isinf(),
            torch.nan_to_num(x),
            x[[0, 1, 2, 4, 5]].sign(),  # XLA's CPU compares a subnormal as zero
            torch.signbit(x),
            torch.maximum(x, x.flip(0)),
            F.relu(x),
            x.clamp(-1, 1),
            torch.sigmoid(torch.tensor([-200.0, 200.0, 0.0], device=device)),
            F.softplus(torch.tensor([-200.0, 200.0, 0.0], device=device)),
        )

    check(case)


def test_ties_and_stability():
    def case(device):
        x = torch.tensor([[3.0, 1, 3, 2, 3], [0, 0, 0, 0, 0]], device=device)
        out = [x.argmax(), x.argmax(1), x.argmin(1), x.sort(stable=True).indices, x.topk(2).values, x.median()]
        out += [x.sort(dim=0, stable=True, descending=True).indices, *x.cummax(1), *x.cummin(1), *x.max(1), *x.min(1)]
        out += [x.median(1).values, x.mode(1).values, x.unique(), x.kthvalue(2, 1).values]
        nan = torch.tensor([1.0, float("nan"), 2.0], device=device)
        return *out, nan.argmax(), nan.max(), nan.sort().values, nan.cummax(0).values

    check(case)


def test_copy_broadcasts_and_converts():
    def case(device):
        x = torch.zeros(2, 3, device=device)
        x.copy_(torch.tensor(2, device=device))
        y = torch.zeros(2, 3, dtype=torch.int32, device=device)
        y.copy_(x + 0.7)
        z = torch.zeros(3, device=device).copy_(torch.arange(3))
        w = torch.zeros(2, 3, device=device)
        w.t().copy_(torch.arange(3.0).unsqueeze(1))
        b = torch.zeros(3, dtype=torch.bool, device=device).copy_(torch.tensor([0.5, 0.0, -2.0], device=device))
        return x, y, z, w, b, torch.tensor([-1.9, 1.9, 300.0], device=device).to(torch.int64)

    check(case)


# --- indexing --------------------------------------------------------------------------------------------------------


def test_boolean_masks():
    def case(device):
        x = torch.arange(12.0, device=device)
        picked = x[x > 4]
        x[x > 7] = torch.tensor([1.0, 2, 3, 4], device=device)
        x[x == 3] = -1
        m = torch.arange(12.0, device=device).reshape(3, 4)
        rows = torch.tensor([True, False, True], device=device)
        m2 = m.clone()
        m2[rows] *= 2
        m2[rows, 1] = 5
        m2[m2 > 100] = 0
        return x, picked, m[rows], m[rows, 2], m[:, [True, False, True, True]], m2, m[m < 0], m.masked_select(m > 5)

    check(case)


def test_tensor_none_ellipsis_and_negative_indices():
    def case(device):
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        i = torch.tensor([-1, 0, 1], device=device)
        j = torch.tensor([[0], [1]], device=device)
        y = x.clone()
        y[torch.tensor([0, 0, 1], device=device)] += 1
        y[:, i, -1] = 3
        y.index_put_((j, i[None]), torch.tensor(1.0, device=device), accumulate=True)
        return (
            x[..., i, None],
            x[:, i, i],
            x[i[:2], :, -1],
            x[[1, 0], ..., ::3],
            x[j, i],
            x[j, :, i],
            x[None, 1, ..., None],
            x[-1, -2:, i],
            x[i[:0]],
            y,
            x.take(torch.tensor([0, -1, 5], device=device)),
        )

    check(case)


BAD_INDICES = {
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "embedding": lambda x, i: F.embedding(i, x[:, None]),
    "index_put": lambda x, i: x.index_put((i,), torch.tensor(1.0, device=x.device)),
    "scatter": lambda x, i: x.scatter(0, i, 2.0),
}


@pytest.mark.parametrize("mode", MODES, indirect=True)
@pytest.mark.parametrize("which", BAD_INDICES)
@pytest.mark.parametrize("bad", [5, -4])
def test_an_index_out_of_range_is_an_error_at_once_or_at_the_next_read(which, bad, mode):
    x = torch.arange(3.0, device=DEVICE)
    index = torch.tensor([bad], device=DEVICE)
    with pytest.raises((IndexError, RuntimeError)):
        y = in_mode(lambda: BAD_INDICES[which](x, index))()
        assert mode != "debug", "debug mode raises at the faulty line"
        y.cpu()
    assert x.cpu().tolist() == [0, 1, 2]
    assert (x + 1).cpu().tolist() == [1, 2, 3]


# --- modules and autograd --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding_idx", [2, -1, None])
def test_the_padding_row_of_an_embedding_has_no_gradient(padding_idx):
    def case(device):
        e = torch.nn.Embedding(5, 3, padding_idx=padding_idx)
        with torch.no_grad():
            e.weight.copy_(torch.arange(15.0).reshape(5, 3))
        e = e.to(device)
        e(torch.tensor([[2, 0, 2, 4]], device=device)).pow(2).sum().backward()
        return (e.weight.grad,)

    check(case)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_batch_norm_statistics_move_in_training_and_stay_in_eval(dims, momentum):
    def case(device):
        bn = getattr(torch.nn, f"BatchNorm{dims}d")(3, momentum=momentum).to(device)
        x = torch.arange(2 * 3 * 4.0**dims, device=device).reshape(2, 3, *(4,) * dims) / 7
        y = bn(x), bn(x + 1)
        return *y, bn.eval()(x), bn.running_mean, bn.running_var, bn.num_batches_tracked

    check(case)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_tied_weights_train_once(optimizer):
    def case(device):
        torch.manual_seed(0)
        e, o = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False)
        o.weight = e.weight
        m = torch.nn.Sequential(e, o).to(device)
        assert m[0].weight is m[1].weight
        opt = optimizer(m.parameters(), lr=0.05)
        for _ in range(3):
            opt.zero_grad()
            F.cross_entropy(
                m(torch.tensor([1, 2, 3], device=device)), torch.tensor([2, 3, 4], device=device)
            ).backward()
            opt.step()
        return (m[0].weight.detach(),)

    check(case)


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
    check(lambda device: op(torch.ones(shape, device=device)).cpu())


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
    def case(device):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        enc = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
        x = torch.linspace(-1, 1, 2 * 5 * 8, device=device).reshape(2, 5, 8)
        pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2], device=device)
        trained = enc(x, src_key_padding_mask=pad)[:, :3]
        trained.sum().backward()
        grads = [p.grad for p in enc.parameters()]
        return trained, *grads, enc.eval()(x, src_key_padding_mask=pad)[:, :3]

    check(case)
