"""Sparse COO tensors: made, converted, computed with, as gradients, in optimizers; other sparse layouts are refused."""

import copy
import io
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.support import DEVICE, assert_same

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse invariant checks", "ignore:Sparse CSR", "ignore:.*falls back to CPU"),
]

# Two entries of one place, unordered.
INDICES = torch.tensor([[0, 1, 1, 2, 0], [2, 0, 0, 1, 2]])
VALUES = torch.tensor([1.0, 2, 3, 4, -5])
ROWS = torch.arange(10.0).reshape(5, 2) - 3


@pytest.fixture(autouse=True)
def _no_cpu(monkeypatch):
    monkeypatch.setenv("TORCH_PJRT_FALLBACK", "error")


@pytest.fixture(autouse=True, params=["strict", "debug"])
def _mode(request):
    if DEVICE != "pjrt":
        yield
        return
    import torch_pjrt as tp

    tp.eager_mode(request.param)
    yield
    tp.eager_mode("strict")


def sparse(d, values=VALUES, size=(3, 3)):
    return torch.sparse_coo_tensor(INDICES.to(d), values.to(d), size)


def hybrid(d):
    return torch.sparse_coo_tensor(INDICES.to(d), ROWS.to(d), (3, 3, 2))


def merged(d):
    return sparse(d).coalesce()


def dense(d):
    return torch.arange(9.0).reshape(3, 3).to(d)


def thin(d):
    return torch.arange(6.0).reshape(3, 2).to(d)


def comparable(x):
    """Sparse tensors as their parts in order; the number of entries before that is an implementation's."""
    if isinstance(x, list | tuple):
        return [comparable(y) for y in x]
    if isinstance(x, torch.Tensor) and x.is_sparse:
        whole = x.detach().coalesce()
        return [tuple(x.shape), x.is_coalesced(), x.sparse_dim(), whole.indices(), whole.values()]
    return x


def outcome(f, d):
    try:
        return comparable(f(d))
    except Exception as error:
        return error


def same(f):
    """``f`` has the same result, on the device, or the same exception as on the CPU."""
    expected, actual = outcome(f, "cpu"), outcome(f, DEVICE)
    if isinstance(expected, Exception):
        assert type(actual) is type(expected), repr(actual)
        assert str(actual).replace("torch.pjrt.", "torch.") == str(expected)
    else:
        assert not isinstance(actual, Exception), repr(actual)
        assert_same(actual, expected)


MADE = {
    "with a size": sparse,
    "without a size": lambda d: torch.sparse_coo_tensor(INDICES.to(d), VALUES.to(d)),
    "from the host": lambda d: torch.sparse_coo_tensor(INDICES, VALUES, (3, 3), device=d),
    "from lists": lambda d: torch.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2], (3, 3), device=d),
    "without entries": lambda d: torch.sparse_coo_tensor((3, 4), device=d),
    "zeros": lambda d: torch.zeros(3, 3, layout=torch.sparse_coo, device=d),
    "zeros_like": lambda d: torch.zeros_like(sparse(d)),
    "empty_like": lambda d: torch.empty_like(sparse(d)),
    "the old constructor": lambda d: sparse(d).new(INDICES.to(d), VALUES.to(d), (3, 3)),
    "the old constructor, empty": lambda d: sparse(d).new().resize_as_(sparse(d)),
    "with an index out of range": lambda d: torch.sparse_coo_tensor(
        torch.tensor([[5]]).to(d), torch.ones(1).to(d), (3,), check_invariants=True
    ),
    "to": lambda d: sparse("cpu").to(d),
    "to dtype": lambda d: sparse(d).to(torch.float64),
    "half": lambda d: sparse(d).half(),
    "detach": lambda d: sparse(d).detach(),
    "clone": lambda d: merged(d).clone(),
    "copy_": lambda d: torch.zeros_like(sparse(d)).copy_(merged(d)),
    "copy_ to dense": lambda d: dense(d).copy_(sparse(d)),
    "deepcopy": lambda d: copy.deepcopy(sparse(d)),
    "to_sparse": lambda d: torch.eye(3).to(d).to_sparse(),
    "to_sparse(1)": lambda d: torch.eye(3).to(d).to_sparse(1),
    "to_sparse of a number": lambda d: torch.tensor(3.0).to(d).to_sparse(),
    "to_sparse(5)": lambda d: torch.eye(3).to(d).to_sparse(5),
    "to_sparse(0)": lambda d: torch.eye(3).to(d).to_sparse(0),
    "to_dense": lambda d: sparse(d).to_dense(),
    "to_dense of rows": lambda d: hybrid(d).to_dense(),
    "to_dense(dtype)": lambda d: sparse(d).to_dense(dtype=torch.float64),
    "coalesce": merged,
    "coalesce of rows": lambda d: hybrid(d).coalesce(),
    "coalesce of bools": lambda d: sparse(d, VALUES > 2).coalesce(),
    "coalesce of ints": lambda d: sparse(d, VALUES.int()).coalesce(),
    "coalesce of complex": lambda d: sparse(d, VALUES * 1j).coalesce(),
    "coalesce of nothing": lambda d: torch.sparse_coo_tensor(torch.zeros(2, 0).long(), [], (3, 3)).to(d).coalesce(),
    "parts": lambda d: [sparse(d)._indices(), sparse(d)._values(), sparse(d)._nnz(), sparse(d).dense_dim()],
    "coalesced parts": lambda d: [merged(d).indices(), merged(d).values(), merged(d)._nnz()],
    "parts before coalesce": lambda d: sparse(d).indices(),
    "print": lambda d: str(sparse(d)).replace(f"device='{DEVICE}:0', ", ""),
    "kind": lambda d: [sparse(d).is_sparse, str(sparse(d).layout), sparse(d).numel(), dense(d).is_sparse],
    "transpose": lambda d: sparse(d).t(),
    "permute": lambda d: hybrid(d).permute(1, 0, 2),
    "permute rows": lambda d: hybrid(d).permute(2, 0, 1),
    "unsqueeze": lambda d: sparse(d).unsqueeze(0),
    "cat": lambda d: torch.cat([sparse(d), sparse(d)]),
}

COMPUTED = {
    "neg": lambda d: -sparse(d),
    "mul": lambda d: sparse(d) * 2,
    "mul ints": lambda d: sparse(d, VALUES.long()) * 0.5,
    "rmul": lambda d: 0.5 * merged(d),
    "mul_": lambda d: sparse(d).mul_(3.0),
    "mul 0-d": lambda d: sparse(d) * torch.tensor(2.0).to(d),
    "mul dense": lambda d: sparse(d) * dense(d),
    "div": lambda d: sparse(d) / 2,
    "div_": lambda d: sparse(d).clone().div_(2),
    "div ints": lambda d: sparse(d, VALUES.long()) / 2,
    "div floor": lambda d: torch.div(sparse(d), 2, rounding_mode="floor"),
    "div sparse": lambda d: sparse(d) / sparse(d),
    "add": lambda d: torch.add(sparse(d), sparse(d), alpha=2),
    "add coalesced": lambda d: merged(d) + merged(d),
    "add_": lambda d: sparse(d).add_(sparse(d), alpha=0.5),
    "add sizes": lambda d: sparse(d) + hybrid(d),
    "add to dense": lambda d: dense(d) + sparse(d),
    "add_ to dense": lambda d: dense(d).add_(sparse(d), alpha=-2),
    "add_ to a view": lambda d: dense(d).t().add_(sparse(d), alpha=-2),
    "add_ rows": lambda d: torch.ones(3, 3, 2).to(d).add_(hybrid(d)),
    "add wider": lambda d: dense(d) + sparse(d, VALUES.double()),
    "add_ wider": lambda d: dense(d).add_(sparse(d, VALUES.double())),
    "add_ floats to ints": lambda d: dense(d).long().add_(sparse(d)),
    "add dense": lambda d: sparse(d) + dense(d),
    "sub": lambda d: dense(d) - sparse(d),
    "sub_": lambda d: sparse(d).sub_(sparse(d)),
    "zero_": lambda d: sparse(d).zero_(),
    "sparse_mask": lambda d: dense(d).sparse_mask(merged(d)),
    "sparse_mask of rows": lambda d: torch.ones(3, 3, 2).to(d).sparse_mask(hybrid(d).coalesce()),
    "sparse_mask of sparse": lambda d: sparse(d).sparse_mask(torch.eye(3).to(d).to_sparse()),
    "sum": lambda d: [torch.sparse.sum(sparse(d)), sparse(d).sum()],
    "sum of a dim": lambda d: [torch.sparse.sum(sparse(d), 0), torch.sparse.sum(hybrid(d), 2)],
    "sum of sparse dims": lambda d: torch.sparse.sum(hybrid(d), [0, 1]),
    "mm": lambda d: [torch.sparse.mm(sparse(d), thin(d)), torch.mm(sparse(d), thin(d)), sparse(d) @ thin(d)],
    "mm from the right": lambda d: thin(d).t() @ sparse(d),
    "mm sizes": lambda d: torch.sparse.mm(sparse(d), torch.ones(2, 2).to(d)),
    "mv": lambda d: sparse(d) @ torch.ones(3).to(d),
    "addmm": lambda d: torch.sparse.addmm(thin(d), sparse(d), thin(d), beta=2, alpha=3),
    "norm": lambda d: [sparse(d).norm(), torch.norm(sparse(d), 1), torch.linalg.vector_norm(sparse(d), math.inf)],
    "foreach": lambda d: torch._foreach_norm([sparse(d), thin(d)]),
    "foreach mul": lambda d: torch._foreach_mul([sparse(d), thin(d)], 0.5),
    "any": lambda d: torch.any(sparse(d)),
    "select": lambda d: sparse(d)[1],
    "pow": lambda d: sparse(d) ** 2,
    "pow 0": lambda d: sparse(d) ** 0,
    "isnan": lambda d: torch.isnan(sparse(d)),
    "sqrt": lambda d: sparse(d).abs().sqrt(),
    "sin_": lambda d: merged(d).sin_(),
    "sin_ before coalesce": lambda d: sparse(d).sin_(),
    "relu": lambda d: torch.relu(sparse(d)),
    "out=": lambda d: torch.sin(sparse(d), out=torch.zeros_like(sparse(d))),
}


@pytest.mark.parametrize("name", MADE)
def test_made(name):
    same(MADE[name])


@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name):
    same(COMPUTED[name])


ON_THE_CPU = {
    "mul sparse": lambda d: sparse(d) * merged(d),
    "mm sparse": lambda d: torch.sparse.mm(sparse(d), sparse(d)),
    "bmm": lambda d: torch.bmm(torch.ones(2, 3, 3).to(d).to_sparse(), torch.ones(2, 3, 1).to(d)),
    "softmax": lambda d: torch.sparse.softmax(sparse(d), 1),
    "index_select": lambda d: sparse(d).index_select(0, torch.tensor([1, 0]).to(d)),
    "narrow_copy": lambda d: sparse(d).narrow_copy(0, 1, 2),
    "sum of a dim": lambda d: sparse(d).sum(1),
}


@pytest.mark.parametrize("name", ON_THE_CPU)
@pytest.mark.skipif(DEVICE == "cpu", reason="about the way to the CPU and back")
def test_what_has_no_kernel_falls_back_or_says_so(name, monkeypatch):
    with pytest.raises(NotImplementedError, match="TORCH_PJRT_FALLBACK=error forbids the CPU"):
        ON_THE_CPU[name](DEVICE)
    monkeypatch.delenv("TORCH_PJRT_FALLBACK")
    same(ON_THE_CPU[name])


@pytest.mark.skipif(DEVICE == "cpu", reason="about the way to the CPU and back")
def test_there_and_back():
    there = sparse("cpu").to(DEVICE)
    assert there.device.type == DEVICE
    back = there.cpu()
    assert back.device.type == "cpu"
    assert_same(comparable(back), comparable(sparse("cpu")))
    buffer = io.BytesIO()
    torch.save(there, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded.device.type == DEVICE
    assert_same(comparable(loaded.cpu()), comparable(sparse("cpu")))


@pytest.mark.skipif(DEVICE == "cpu", reason="memory errors on the CPU")
def test_an_index_out_of_range_raises():
    x = torch.sparse_coo_tensor(torch.tensor([[0, 7]]).to(DEVICE), torch.ones(2).to(DEVICE), (3,))
    with pytest.raises(RuntimeError, match="for dim 0, size is 3 but found index 7"):
        x.to_dense().cpu()


@pytest.mark.skipif(DEVICE == "cpu", reason="the CPU has other layouts")
def test_other_layouts_are_refused():
    compressed = torch.eye(3).to_sparse_csr()
    for f in (
        lambda: dense(DEVICE).to_sparse_csr(),
        lambda: dense(DEVICE).to_sparse_csc(),
        lambda: sparse(DEVICE).to_sparse_csr(),
        lambda: dense(DEVICE).to_sparse_bsr((1, 1)),
        lambda: dense(DEVICE).to_sparse(layout=torch.sparse_csr),
        lambda: torch.empty(2, 2, layout=torch.sparse_csr, device=DEVICE),
        lambda: print(compressed.to(DEVICE)),
        lambda: compressed.to(DEVICE).values(),
        lambda: compressed.to(DEVICE).to_dense(),
        lambda: compressed.to(DEVICE) @ dense(DEVICE),
        lambda: compressed.to(DEVICE).cpu(),
    ):
        with pytest.raises(NotImplementedError, match=r"no other layout exists on the pjrt device. Way out: "):
            f()


# --- gradients

WEIGHT = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
WORDS = torch.tensor([[1, 2, 2], [5, 1, 9]])


def embedding(**options):
    def run(d):
        w = WEIGHT.to(d, copy=True).requires_grad_()
        F.embedding(WORDS.to(d), w, sparse=True, **options).pow(2).sum().backward()
        return w.grad

    return run


def bag(weighted=False, **options):
    def run(d):
        w = WEIGHT.to(d, copy=True).requires_grad_()
        per_sample = torch.arange(6.0).to(d) if weighted else None
        offsets = torch.tensor([0, 2, 2, 5]).to(d)
        y = F.embedding_bag(WORDS.flatten().to(d), w, offsets, sparse=True, per_sample_weights=per_sample, **options)
        y.pow(2).sum().backward()
        return w.grad

    return run


def of_values(function):
    """The gradient of the values of a tensor with two entries of one place."""

    def run(d):
        v = torch.tensor([1.0, 2, 3]).to(d).requires_grad_()
        s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 0]]).to(d), v, (3, 3))
        function(s, d).backward()
        return v.grad

    return run


def of_dense(function):
    def run(d):
        x = dense(d).requires_grad_()
        function(x, d).backward()
        return x.grad

    return run


def of_product(d):
    s, x = merged(d).requires_grad_(), thin(d).requires_grad_()
    torch.sparse.mm(s, x).pow(2).sum().backward()
    return [s.grad, x.grad]


GRADIENTS = {
    "embedding": embedding(),
    "embedding, padding": embedding(padding_idx=2),
    "embedding, by frequency": embedding(scale_grad_by_freq=True),
    "bag": bag(mode="sum"),
    "bag, mean": bag(mode="mean"),
    "bag, max": bag(mode="max"),
    "bag, weighted": bag(mode="sum", weighted=True),
    "bag, padding": bag(mode="sum", padding_idx=2),
    "bag, by frequency": bag(mode="sum", scale_grad_by_freq=True),
    "to_dense": of_values(lambda s, d: s.to_dense().pow(2).sum()),
    "sum": of_values(lambda s, d: torch.sparse.sum(s * 2).pow(2)),
    "sum of a dim": of_values(lambda s, d: torch.sparse.sum(s, 0).to_dense().pow(2).sum()),
    "values": of_values(lambda s, d: s.coalesce().values().pow(2).sum()),
    "add to dense": of_values(lambda s, d: (dense(d) + s).pow(2).sum()),
    "to_sparse": of_dense(lambda x, d: (x.to_sparse() * 3).to_dense().pow(2).sum()),
    "sparse_mask": of_dense(lambda x, d: x.sparse_mask(torch.eye(3).to(d).to_sparse()).to_dense().pow(2).sum()),
    "mm": of_product,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name):
    same(GRADIENTS[name])


def training(cls, accumulate=1, clip=None, **options):
    def run(d):
        torch.manual_seed(1)
        model = nn.Embedding(10, 3, sparse=True)
        model.weight.data.copy_(WEIGHT)
        model = model.to(d)
        opt = cls(model.parameters(), lr=0.1, **options)
        for _ in range(3):
            opt.zero_grad()
            for _ in range(accumulate):
                model(torch.randint(10, (4,)).to(d)).pow(2).sum().backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            opt.step()
        state = opt.state[model.weight].values()
        return [model.weight.detach(), [v for v in state if isinstance(v, torch.Tensor)]]

    return run


def scaled(d):
    model = nn.Embedding(10, 3, sparse=True)
    model.weight.data.copy_(WEIGHT)
    model = model.to(d)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(d, init_scale=4.0)
    scaler.scale(model(WORDS.to(d)).pow(2).sum()).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    return model.weight.detach()


TRAININGS = {
    "SparseAdam": training(torch.optim.SparseAdam),
    "SparseAdam, maximize": training(torch.optim.SparseAdam, maximize=True),
    "SparseAdam, accumulated": training(torch.optim.SparseAdam, accumulate=2),
    "SparseAdam, clipped": training(torch.optim.SparseAdam, clip=0.5),
    "SGD": training(torch.optim.SGD),
    "SGD, one by one": training(torch.optim.SGD, foreach=False),
    "SGD, fused": training(torch.optim.SGD, fused=True),
    "SGD, momentum": training(torch.optim.SGD, momentum=0.9),
    "SGD, nesterov": training(torch.optim.SGD, momentum=0.9, nesterov=True),
    "SGD, weight decay": training(torch.optim.SGD, weight_decay=0.1),
    "Adagrad": training(torch.optim.Adagrad),
    "Adagrad, one by one": training(torch.optim.Adagrad, foreach=False),
    "Adam": training(torch.optim.Adam),
    "a scaler": scaled,
}


@pytest.mark.parametrize("name", TRAININGS)
def test_training(name):
    same(TRAININGS[name])
