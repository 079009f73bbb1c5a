"""A tensor on the device behaves as torch's own: strides, aliasing, versions, resizing, out=, printing, conversion."""

import copy

import numpy as np
import pytest
import torch

from tests.support import DEVICE, check

pytestmark = [pytest.mark.usefixtures("mode"), pytest.mark.filterwarnings("ignore:An output with one or more")]


def test_views_share_storage_strides_and_version():
    x = torch.zeros(4, 6, device=DEVICE)
    v = x.t()[1:3]
    assert v._is_view()
    assert v._base is x
    assert v.stride() == (1, 6)
    assert v.storage_offset() == 1
    assert v.untyped_storage()._cdata == x.untyped_storage()._cdata
    before = x._version
    v.add_(1)
    assert x._version == v._version == before + 1


def test_views_match_cpu_metadata():
    def case(device):
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        views = [x.mT, x[:, 1], x[..., ::2], x.permute(2, 0, 1), x.unsqueeze(1), x.expand(5, 2, 3, 4), x.flatten(1)]
        views += [x.view(6, 4), x.diagonal(0, 1, 2), x.unfold(2, 2, 1), x.squeeze(), x.real, x.detach(), x.view_as(x)]
        views += [
            *x.unbind(0),
            *x.split([1, 2], 1),
            x.swapaxes(0, 2),
            x.ravel(),
            x.view(torch.int32),
            x.narrow(1, 1, 2),
        ]
        return [(v.shape, v.stride(), v.storage_offset(), v.is_contiguous(), v._is_view()) for v in views], views

    check(case)


def test_outputs_keep_the_strides_that_torch_gives():
    def case(device, x):
        t = x.permute(0, 2, 3, 1)
        last = x.contiguous(memory_format=torch.channels_last)
        outs = [t + 1, t * t, t.exp(), t.clone(), torch.empty_like(t), last + 1, last.relu(), torch.zeros_like(last)]
        outs += [
            t.contiguous(),
            t.sum(0),
            t.to(torch.float64),
            torch.where(t > 0, t, -t),
            last.clone(),
            x + t.mT.mT.permute(0, 3, 1, 2),
        ]
        return [(o.shape, o.stride(), o.is_contiguous(memory_format=torch.channels_last)) for o in outs]

    check(case, lambda device: torch.randn(2, 3, 4, 5).to(device))


def test_data_set_and_swap():
    def case(device):
        x = torch.zeros(3, device=device)
        before = x._version
        x.data.add_(2)
        same_version = x._version == before
        y = torch.arange(6.0, device=device)
        z = torch.empty(0, device=device)
        z.set_(y.untyped_storage(), 1, (2, 2), (2, 1))
        z.mul_(10)
        p = torch.nn.Parameter(torch.ones(2, device=device))
        p.data = y[:2]
        y.add_(1)
        a, b = torch.ones(2, device=device), torch.zeros(3, device=device)
        torch.utils.swap_tensors(a, b)
        return x, same_version, y, z, p, a, b

    check(case)


def test_resize():
    def case(device):
        x = torch.arange(6.0, device=device)
        x.resize_(2, 2)
        small = x.clone()
        grown = torch.arange(4.0, device=device)
        grown.resize_(3, 4)
        grown[1:] = 5
        empty = torch.empty(0, device=device).resize_(2, 2).fill_(3)
        return small, grown, empty, x.resize_as_(torch.empty(3, device=device)).shape

    check(case)


@pytest.mark.skipif(DEVICE == "cpu", reason="torch CPU can")
def test_resizing_a_storage_itself_is_refused_with_the_way_out():
    """The one thing of storages that needs a C++ hook; tensors resize by taking a new storage."""
    x = torch.ones(4, device=DEVICE)
    with pytest.raises(NotImplementedError, match="a storage on pjrt keeps its size"):
        x.untyped_storage().resize_(0)
    assert x.tolist() == [1, 1, 1, 1]


@pytest.mark.untraceable("a storage was copied")
def test_storages():
    def case(device):
        x = torch.arange(4.0, device=device)
        storage = x.untyped_storage()
        twin, moved = storage.clone(), storage.clone().cpu()
        x.add_(1)
        made = torch.UntypedStorage(8, device=device)
        made.copy_(torch.arange(2.0).untyped_storage())
        back = torch.empty(0, device=device).set_(made, 0, (2,), (1,))
        back.mul_(3)
        old = torch.empty(0, device=device).set_(twin)
        old.add_(10)
        return x, moved.tolist(), storage.size(), back, old, torch.empty(0, device=device).set_(made, 1, (1,), (1,))

    check(case)


def test_out_arguments():
    def case(device):
        a = torch.arange(6.0, device=device).reshape(2, 3)
        out = torch.empty(0, device=device)
        returned = torch.add(a, 1, out=out)
        strided = torch.zeros(3, 2, device=device).t()
        torch.mul(a, 2, out=strided)
        wide = torch.empty(2, 3, dtype=torch.float64, device=device)
        torch.exp(a, out=wide)
        values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
        torch.max(a, 1, out=(values, indices))
        torch.sub(a, 1, out=a)
        return returned is out, out, strided, strided.stride(), wide, values, indices, a, torch.cat([a, a], out=out)

    check(case)


def test_out_of_a_narrower_type_is_an_error():
    check(lambda d: torch.add(torch.ones(2, device=d), 0.5, out=torch.empty(2, dtype=torch.int32, device=d)))


DTYPES = [torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalars_and_empties(dtype):
    def case(device):
        s = torch.tensor(1, dtype=dtype, device=device)
        e = torch.empty(0, 3, dtype=dtype, device=device)
        return (
            s.dim(),
            s.reshape(1, 1),
            s.expand(2, 3),
            s + s,
            e + e,
            e.numel(),
            e.sum(),
            torch.stack([s, s]),
            s.view(1)[0],
            e.t().contiguous(),
        )

    check(case)


@pytest.mark.untraceable("the value of a tensor was asked for")
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_scalars_and_empties(dtype):
    def case(device):
        s, e = torch.tensor(1, dtype=dtype, device=device), torch.empty(0, 3, dtype=dtype, device=device)
        return s.item(), bool(s), s.tolist(), e.tolist()

    check(case)


@pytest.mark.untraceable("a tensor was copied to the CPU")
def test_python_conversions():
    def case(device):
        x = torch.tensor([[1.5, -2.0], [3.0, 4.0]], device=device)
        i = torch.tensor([2, 1], device=device)
        listed = [row.tolist() for row in x]
        return listed, len(x), float(x[0, 0]), int(i[0]), [1, 2, 3][i[1]], bool((x > 0).any()), 3 in i, x.tolist()

    check(case)


@pytest.mark.parametrize("error", [lambda x: bool(x), lambda x: x.item(), lambda x: int(x[:0])])
def test_bad_conversions_are_torchs_own_errors(error):
    check(lambda device: error(torch.ones(3, device=device)))


def test_print():
    x = torch.tensor([[1.0, 2.5], [-3.0, 4.0]], device=DEVICE)
    text = repr(x)
    assert "[ 1.0000,  2.5000]" in text
    assert "[-3.0000,  4.0000]" in text
    if DEVICE != "cpu":
        assert "device='pjrt:0'" in text
    assert "grad_fn=<" in repr(torch.ones(2, device=DEVICE, requires_grad=True) * 2)
    for t in (torch.zeros(0, 3), torch.tensor(7), torch.arange(3000.0), torch.tensor([True]), torch.ones(2) * 1j):
        repr(t.to(DEVICE))
    assert f"{torch.tensor(2.5, device=DEVICE):.2f}" == "2.50"


def test_numpy_after_cpu():
    x = torch.arange(6.0, device=DEVICE).reshape(2, 3)
    assert x.t().cpu().numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.cpu().numpy().dtype == np.float32
    assert torch.from_numpy(np.arange(3)).to(DEVICE).sum().item() == 3
    assert torch.tensor(np.float64(2.5), device=DEVICE).item() == 2.5
    if DEVICE != "cpu":
        with pytest.raises(TypeError, match="cpu"):
            x.numpy()


@pytest.mark.parametrize("non_blocking", [False, True])
def test_to(non_blocking):
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to(DEVICE, non_blocking=non_blocking)
    assert y.device.type == DEVICE
    assert y.to(DEVICE) is y
    assert y.to(DEVICE, copy=True) is not y
    assert y.to("cpu", torch.float64, non_blocking=non_blocking).dtype == torch.float64
    assert y.half().dtype == torch.float16
    assert y.to(torch.int32).cpu().tolist() == x.to(torch.int32).tolist()
    assert y.to(x).device.type == "cpu"
    assert x.to(y).device.type == DEVICE
    x.add_(100)
    if DEVICE != "cpu":
        assert y.cpu().tolist() == [[0, 1, 2], [3, 4, 5]], "a copy does not see later writes to its source"
        assert x.pjrt().is_pjrt
        assert torch.nn.Linear(2, 2).pjrt().weight.is_pjrt
    back = y.cpu()
    y.add_(1)
    if DEVICE != "cpu":
        assert back.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_strides_survive_a_copy_between_devices(memory_format):
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=memory_format)
    y = x.to(DEVICE)
    assert y.stride() == x.stride()
    assert y.cpu().stride() == x.stride()
    assert torch.equal(y.cpu(), x)
    t = x.permute(3, 0, 1, 2)
    assert torch.equal(t.to(DEVICE).cpu(), t)
    assert torch.equal(x[:, ::2, 1:].to(DEVICE).cpu(), x[:, ::2, 1:])


def test_factories_take_the_device():
    def case(device):
        with torch.device(device):
            inside = [torch.zeros(2), torch.arange(3), torch.tensor([1.0]), torch.eye(2), torch.linspace(0, 1, 3)]
        assert all(t.device.type == torch.device(device).type for t in inside)
        base = torch.ones(2, 2, dtype=torch.float64, device=device)
        return (
            *inside,
            torch.full((2,), 7, device=device),
            torch.arange(5, 0, -2, device=device),
            torch.logspace(0, 2, 3, device=device),
            torch.tril_indices(3, 3, device=device),
            base.new_tensor([1, 2]),
            base.new_zeros(3),
            base.new_full((2,), 3),
            torch.ones_like(base),
            torch.as_tensor([1, 2], device=device),
            torch.scalar_tensor(4.0, device=device),
            torch.complex(base, base),
            torch.asarray([1.5], device=device),
        )

    check(case)


def test_deepcopy_keeps_structure_and_sharing():
    x = torch.arange(4.0, device=DEVICE)
    pair = {"base": x, "view": x[1:], "parameter": torch.nn.Parameter(x.clone())}
    twin = copy.deepcopy(pair)
    twin["base"].add_(10)
    assert twin["view"].cpu().tolist() == [11, 12, 13]
    assert x.cpu().tolist() == [0, 1, 2, 3]
    assert isinstance(twin["parameter"], torch.nn.Parameter)
    assert twin["parameter"].device.type == DEVICE


def test_dtype_views():
    def case(device):
        x = torch.tensor([1.0, -2.0, 3.5], device=device)
        z = torch.tensor([1 + 2j, 3 - 4j], device=device)
        real = torch.view_as_real(z)
        real[0, 1] = 9
        return (
            x.view(torch.int32),
            x.view(torch.uint8),
            x.view(torch.uint8).view(torch.float32),
            z,
            z.real,
            z.imag,
            z.conj(),
            (z.conj() * 2).resolve_conj(),
            torch.view_as_complex(torch.ones(2, 2, device=device)),
            z.abs(),
            z.angle(),
        )

    check(case)


def test_conj_and_neg_views_write_through():
    def case(device):
        z = torch.tensor([1 + 2j, 3 - 4j], device=device)
        z.conj().mul_(2)
        z.imag.add_(1)
        z.conj().imag.fill_(5)
        return z, z.conj().imag, z.is_conj(), z.conj().is_conj()

    check(case)


def test_products_honour_conjugate_bits():
    def case(device):
        z = torch.tensor([[1 + 2j, 3 - 4j], [0.5j, 2 + 0j]], device=device)
        w = torch.tensor([[2 - 1j, 1j], [1 + 1j, 3 + 0j]], device=device)
        v = z[0]
        products = [
            z.conj() @ w,
            z.mH @ w.conj(),
            torch.addmm(w.conj(), z, w.conj()),
            torch.bmm(z.conj()[None], w[None]),
        ]
        return *products, torch.dot(v.conj(), v), torch.vdot(v, w[0].conj()), z.conj().clone(), z.conj().imag.clone()

    check(case)


def test_a_product_into_a_conjugate_view():
    def case(device):
        z = torch.tensor([[1 + 2j, 3 - 4j], [0.5j, 2 + 0j]], device=device)
        w = torch.tensor([[2 - 1j, 1j], [1 + 1j, 3 + 0j]], device=device)
        z.conj().addmm_(w, w.mH)
        return z, z.conj().clone()

    check(case)


def test_versions_guard_saved_tensors():
    def case(device):
        x = torch.ones(3, device=device, requires_grad=True)
        y = x * 2
        z = y * y
        y.add_(1)
        z.sum().backward()

    check(case)


def test_weak_and_hash_semantics():
    x = torch.ones(2, device=DEVICE)
    assert x in {x: 1}
    assert hash(x) == id(x)
    assert x is not x.view_as(x)
    x.tag = "kept"
    assert x.tag == "kept"
    assert x.data_ptr() == x.view(2).data_ptr()


def test_subclasses_and_modes():
    class Tagged(torch.Tensor):
        pass

    t = torch.ones(2, device=DEVICE).as_subclass(Tagged)
    assert type(t + 1) is Tagged

    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Spy(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Spy():
        torch.ones(2, device=DEVICE) * 2
    assert "aten.mul.Tensor" in seen
