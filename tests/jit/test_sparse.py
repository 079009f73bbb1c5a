"""Sparse tensors in a traced function: exact as a whole, and refused where their number of entries would be seen."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close, compiles
from tests.support import assert_same

pytestmark = [pytest.mark.filterwarnings("ignore:Sparse invariant checks")]

INDICES = torch.tensor([[0, 1, 1, 2, 0], [2, 0, 0, 1, 2]])
VALUES = torch.tensor([1.0, 2, 3, 4, -5])


def sparse(values, indices=INDICES):
    return torch.sparse_coo_tensor(indices.to(values.device), values, (3, 3))


def same_sparse(actual, expected):
    """The same entries, where torch CPU has them in another order too."""
    assert actual.is_coalesced() == expected.is_coalesced()
    if expected.is_coalesced():
        assert actual._nnz() == expected._nnz()
    a, e = actual.cpu().coalesce(), expected.coalesce()
    assert torch.equal(a.indices(), e.indices())
    assert_same(a.values(), e.values())


def train(d, cls, jit, *, accumulate=1, clip=None, padding=None, to_sparse=False, returns=False, steps=20, **options):
    """Losses, gradients and parameters of ``steps`` steps under a schedule; and the function."""
    torch.manual_seed(3)
    table, head = nn.Embedding(10, 3, sparse=not to_sparse, padding_idx=padding).to(d), nn.Linear(3, 2).to(d)
    opt = cls(table.parameters(), lr=0.05, **options)
    others = torch.optim.SGD(head.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

    def step(words):
        opt.zero_grad()
        others.zero_grad()
        for k in range(accumulate):
            loss = head(table(words + k)).pow(2).mean()
            loss.backward()
        if to_sparse:
            table.weight.grad = table.weight.grad.to_sparse(1)
        if clip:
            nn.utils.clip_grad_norm_([*table.parameters(), *head.parameters()], clip)
        opt.step()
        others.step()
        return (loss, table.weight.grad) if returns else loss

    f = tp.jit(step) if jit else step
    torch.manual_seed(5)
    seen = []
    before = 0
    for i in range(steps):
        result = f(torch.randint(9, (6,)).to(d))
        schedule.step()
        if jit and i == 2:
            before = compiles()
        seen.append((result, table.weight.grad))
    if jit and not (padding is not None or to_sparse or returns):
        assert compiles() == before
    return seen, [table.weight, head.weight], f


CASES = {
    "SparseAdam": (torch.optim.SparseAdam, {}),
    "SparseAdam, maximize": (torch.optim.SparseAdam, {"maximize": True}),
    "SparseAdam, accumulated": (torch.optim.SparseAdam, {"accumulate": 2}),
    "SparseAdam, clipped": (torch.optim.SparseAdam, {"clip": 0.01}),
    "SparseAdam, padding": (torch.optim.SparseAdam, {"padding": 2}),
    "SparseAdam, to_sparse": (torch.optim.SparseAdam, {"to_sparse": True}),
    "SparseAdam, gradient returned": (torch.optim.SparseAdam, {"returns": True}),
    "SGD": (torch.optim.SGD, {}),
    "SGD, padding": (torch.optim.SGD, {"padding": 2}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "Adagrad, one by one": (torch.optim.Adagrad, {"foreach": False}),
}


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps_under_a_schedule(name):
    cls, options = CASES[name]
    expected, host, _ = train("cpu", cls, False, **options)
    actual, device, f = train("pjrt", cls, True, **options)
    for (result, gradient), (wanted, wanted_gradient) in zip(actual, expected, strict=True):
        if options.get("returns"):
            same_sparse(result[1], wanted[1])
            result, wanted = result[0], wanted[0]
        close(result, wanted)
        same_sparse(gradient, wanted_gradient)
    for p, q in zip(device, host, strict=True):
        close(p, q)
    assert f.cache_info().misses <= 2


@pytest.mark.parametrize("padding", [None, 2])
def test_sparse_state_that_a_first_step_makes(padding):
    def steps(d):
        torch.manual_seed(0)
        table = nn.Embedding(6, 3, sparse=True, padding_idx=padding).to(d)
        opt = torch.optim.SGD(table.parameters(), lr=0.1, momentum=0.5)
        kept = {}

        def step(words):
            opt.zero_grad()
            table(words).pow(2).sum().backward()
            kept.setdefault("first", {"grad": table.weight.grad.clone()})
            opt.step()

        words = torch.tensor([1, 2, 2, 5]).to(d)
        (tp.jit(step) if d == "pjrt" else step)(words)
        step(words)
        return table.weight, opt.state[table.weight]["momentum_buffer"], kept["first"]["grad"]

    expected, actual = steps("cpu"), steps("pjrt")
    close(actual[0], expected[0])
    same_sparse(actual[1], expected[1])
    same_sparse(actual[2], expected[2])


def test_a_ragged_batch_is_one_more_trace():
    table = nn.Embedding(10, 3, sparse=True).to("pjrt")
    opt = torch.optim.SparseAdam(table.parameters())

    @tp.jit
    def step(words):
        opt.zero_grad()
        table(words).pow(2).sum().backward()
        opt.step()

    for n in (6, 6, 6, 4, 6, 4):
        step(torch.randint(10, (n,)).to("pjrt"))
    assert step.cache_info().misses == 3


def test_steps_in_and_out_of_a_program_are_one_training():
    def run(d, jitted):
        torch.manual_seed(3)
        table = nn.Embedding(10, 3, sparse=True).to(d)
        opt = torch.optim.SparseAdam(table.parameters(), lr=0.1)

        def step(words):
            opt.zero_grad()
            table(words).pow(2).sum().backward()
            opt.step()

        traced = tp.jit(step)
        for i in range(6):
            (traced if jitted(i) else step)(torch.arange(i, i + 4).to(d))
        return table.weight

    expected = run("cpu", lambda i: False)
    for jitted in (lambda i: i < 3, lambda i: i >= 3, lambda i: i % 2 == 0):
        close(run("pjrt", jitted), expected)


@pytest.mark.parametrize("padding", [None, 2])
def test_gradients_from_outside(padding):
    torch.manual_seed(0)
    host = nn.Embedding(5, 2, sparse=True, padding_idx=padding)
    device = nn.Embedding(5, 2, sparse=True, padding_idx=padding)
    device.load_state_dict(host.state_dict())
    device = device.to("pjrt")
    f = tp.jit(lambda words: device(words).pow(2).sum())
    for words in (torch.tensor([1, 2, 2]), torch.tensor([3, 3, 1]), torch.tensor([2, 2, 2])):
        host.weight.grad = device.weight.grad = None
        host(words).pow(2).sum().backward()
        f(words.to("pjrt")).backward()
        assert device.weight.grad._nnz() == host.weight.grad._nnz()
        same_sparse(device.weight.grad, host.weight.grad)
    assert f.cache_info().misses == 1


WHOLE = {
    "to_dense": lambda v: sparse(v).coalesce().to_dense(),
    "add to dense": lambda v: torch.ones(3, 3, device=v.device) + 2 * sparse(v).coalesce(),
    "norm": lambda v: sparse(v).norm(),
    "sum": lambda v: sparse(v).coalesce().sum(),
    "torch.sparse.sum": lambda v: torch.sparse.sum(sparse(v) / 0.5),
    "sum of a dim": lambda v: torch.sparse.sum(sparse(v), 0).to_dense(),
    "mm": lambda v: torch.sparse.mm(sparse(v).coalesce(), torch.ones(3, 2, device=v.device)),
    "zeros among values": lambda v: sparse(v).coalesce().pow(2).norm(3),
}
SPARSE = {
    "coalesce": lambda v: sparse(v).coalesce(),
    "uncoalesced": lambda v: sparse(v) * 2,
    "sum of coalesced": lambda v: sparse(v).coalesce() + sparse(v * 2).coalesce(),
    "sparse_mask": lambda v: torch.arange(9.0, device=v.device).reshape(3, 3).sparse_mask(sparse(v).coalesce()),
    "to_sparse": lambda v: (v.reshape(1, 5) - 1).to_sparse(),
    "to_sparse of rows": lambda v: (v.reshape(5, 1) - 1).to_sparse(1),
    "clone": lambda v: sparse(v).coalesce().clone(),
}


@pytest.mark.parametrize("name", [*WHOLE, *SPARSE])
def test_what_is_exact(name):
    function = WHOLE.get(name) or SPARSE[name]
    f = tp.jit(function)
    for values in (VALUES, VALUES * 3, VALUES - 1):
        expected, actual = function(values), f(values.to("pjrt"))
        (same_sparse if name in SPARSE else close)(actual, expected)
    assert f.cache_info().misses == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda v: sparse(v).coalesce()._nnz(),
        lambda v: sparse(v).coalesce().indices(),
        lambda v: sparse(v).coalesce().values(),
        lambda v: sparse(v).coalesce()._values(),
        lambda v: sparse(v).coalesce().detach()._indices(),
        lambda v: sparse(v).norm(-1),
        lambda v: sparse(v).coalesce().t(),
        lambda v: sparse(v).coalesce().permute(1, 0),
    ],
)
def test_the_number_of_entries_is_refused(function):
    with pytest.raises(tp.JitError, match=r"sparse: the entries of a sparse tensor .* Way out: "):
        tp.jit(function)(VALUES.to("pjrt"))
    # What is refused leaves no trace of itself.
    function(VALUES.to("pjrt"))


def test_entries_that_are_all_there_may_be_seen():
    f = tp.jit(lambda v: (sparse(v)._nnz(), sparse(v)._values() * 2))
    nnz, values = f(VALUES.to("pjrt"))
    assert nnz == 5
    close(values, VALUES * 2)


def test_a_sparse_tensor_from_outside_is_read_at_each_call():
    box = {"x": sparse(VALUES.to("pjrt"))}
    f = tp.jit(lambda: box["x"].to_dense())
    close(f(), sparse(VALUES).to_dense())
    box["x"] = sparse(VALUES.to("pjrt") * 3)
    close(f(), sparse(VALUES * 3).to_dense())
    assert f.cache_info().misses == 1
    box["x"] = sparse(VALUES[:2].to("pjrt"), INDICES[:, :2])
    close(f(), sparse(VALUES[:2], INDICES[:, :2]).to_dense())
    box["x"] = torch.ones(3, 3, device="pjrt")
    close(f().to_dense(), torch.ones(3, 3))
    assert f.cache_info().misses == 3


def test_a_sparse_tensor_from_outside_is_not_written_to():
    x = sparse(VALUES.to("pjrt"))
    with pytest.raises(tp.JitError, match=r"the sparse tensor x from outside was written to.* Way out: "):
        tp.jit(lambda: x.mul_(2).to_dense())()
    same_sparse(x, sparse(VALUES))


def test_momentum_of_sparse_gradients_is_refused():
    with pytest.raises(tp.JitError, match=r"momentum_buffer'\] from outside was written to.* Way out: "):
        train("pjrt", torch.optim.SGD, True, momentum=0.9, steps=3)


def test_arguments_and_differentiable_results_are_refused():
    x = sparse(VALUES.to("pjrt"))
    f = tp.jit(lambda x: x * 2)
    with pytest.raises(tp.JitError, match=r"an argument with layout sparse_coo, expected strided. Way out: "):
        f(x)
    f(VALUES.to("pjrt"))
    with pytest.raises(tp.JitError, match=r"an argument with layout sparse_coo, expected strided. Way out: "):
        f(x)
    with pytest.raises(tp.JitError, match=r"a result is a sparse tensor that requires grad.* Way out: "):
        tp.jit(sparse)(VALUES.to("pjrt").requires_grad_())


def test_without_running():
    lowered = tp.jit(lambda v: sparse(v).coalesce()).lower(VALUES.to("pjrt"))
    assert lowered.out_info.is_sparse
    assert lowered.out_info.shape == (3, 3)
