"""``donate=``: memory given to the program; a donated tensor is an error on use, never a wrong value."""

import gc

import pytest
import torch
import torch_pjrt as tp
from torch import nn
from torch_pjrt._native import holders

from tests.jit.support import close


def ones(n=1000):
    return torch.ones(n).to("pjrt")


def gone(t, argument="x"):
    with pytest.raises(RuntimeError, match=rf"argument `{argument}` of the jit program .* donated.*Way out"):
        t.cpu()


def aliased(f, *args):
    return f.lower(*args).compile().memory_analysis()["aliased"]


def double(x, y=None, *, z=None):
    out = x * 2
    return out if y is None else out + y


@pytest.mark.parametrize("donate", [0, "x", (0,), ["x"], (0, "x")])
def test_a_donated_argument_is_unusable_afterwards(donate):
    f = tp.jit(double, donate=donate)
    for i in range(3):
        x, y = ones() + i, ones()
        view = x[1:]
        expected = x.cpu() * 2 + 1
        close(f(x, y), expected)
        gone(x)
        gone(view)
        close(y, torch.ones(1000))
    assert f.cache_info().misses == 1
    assert aliased(f, ones(), ones()) == 4000


USES = {
    "print": repr,
    "op": lambda x: x + 1,
    "in place": lambda x: x.add_(1),
    "part written": lambda x: x[:2].fill_(0),
    "clone": lambda x: x.clone(),
    "item": lambda x: x[0].item(),
    "jit": lambda x: tp.jit(lambda t: t + 1)(x),
    "the same program": lambda x: tp.jit(double, donate=0)(x),
    "state": lambda x: tp.jit(lambda: x + 1)(),
    "numpy": lambda x: x.cpu().numpy(),
    "backward": lambda x: (ones().requires_grad_() * x).sum().backward(),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_is_an_error(use):
    x = ones()
    tp.jit(double, donate=0)(x)
    with pytest.raises(RuntimeError, match="donated"):
        USES[use](x)


def test_a_tensor_that_is_written_whole_is_usable_again():
    x = ones()
    tp.jit(double, donate=0)(x)
    x.copy_(torch.full((1000,), 3.0))
    close(x, torch.full((1000,), 3.0))


def test_keywords_pytrees_and_methods():
    f = tp.jit(lambda state, *, k: ({n: v + k for n, v in state.items()}), donate=("state", "k"))
    state, k = {"a": ones(), "b": [ones()]["b" == "a"]}, ones()
    a = state["a"]
    close(f(state, k=k)["a"], torch.full((1000,), 2.0))
    gone(a, r"state\['a'\]")
    gone(k, "k")

    class Model:
        @tp.jit(donate=1)
        def step(self, cache):
            return cache + 1

    m = Model()
    for _ in range(2):
        cache = ones()
        close(m.step(cache), torch.full((1000,), 2.0))
        gone(cache, "cache")


def test_a_cpu_argument_stays():
    x = torch.ones(1000)
    f = tp.jit(double, donate=0)
    for _ in range(2):
        close(f(x), x * 2)
    close(x, torch.ones(1000))


def test_a_value_that_somebody_else_holds_is_copied():
    x = ones()
    other = x.clone()
    shared = other.data  # another name for the memory: dies too
    copy = x.detach().clone()
    f = tp.jit(double, donate=0)
    f(x)
    close(other, torch.ones(1000))
    close(copy, torch.ones(1000))
    f(other)
    gone(shared)


def test_what_the_function_hands_back_stays():
    class Holder:
        last = None

    h = Holder()
    h.last = ones()

    def keep(x):
        h.last = x
        return x.sum()

    f, g, k = tp.jit(lambda x: (x, x[1:]), donate=0), tp.jit(lambda x: x.add_(1), donate=0), tp.jit(keep, donate=0)
    for _ in range(3):
        x = ones()
        same, view = f(x)
        assert same is x
        close(view, torch.ones(999))
        y = ones()
        assert g(y) is y
        close(y, torch.full((1000,), 2.0))
        z = ones()
        close(k(z), torch.tensor(1000.0))
        close(h.last, torch.ones(1000))
        close(z, torch.ones(1000))


def test_an_argument_that_is_written_to_and_donated_ends():
    def f(x):
        x.add_(1)
        return x * 2

    f = tp.jit(f, donate=0)
    for _ in range(2):
        x = ones()
        close(f(x), torch.full((1000,), 4.0))
        gone(x)


REFUSED = {
    "requires grad": (lambda: (ones().requires_grad_(), None), r"argument `x` is donated, but it requires grad"),
    "a parameter": (lambda: (nn.Parameter(ones()), None), "requires grad"),
    "passed twice": (lambda: (lambda t: (t, t))(ones()), r"it is `y` too.*x\.clone\(\)"),
    "a view of another argument": (lambda: (lambda t: (t[1:], t[:-1]))(ones()), "shares its memory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_needed_afterwards_is_refused(case):
    make, message = REFUSED[case]
    x, y = make()
    with pytest.raises(RuntimeError, match=message):
        tp.jit(double, donate=0)(x, y)
    assert x.sum().item() >= 999


def test_state_is_refused_at_every_call():
    m = nn.Linear(3, 3).to("pjrt").requires_grad_(False)
    f = tp.jit(lambda x: m.weight + x, donate=0)
    for _ in range(2):
        close(f(torch.ones(3, 3).to("pjrt")), m.weight + 1)
    with pytest.raises(RuntimeError, match=r"argument `x` is donated, but it is `m\.weight` too"):
        f(m.weight)
    with pytest.raises(RuntimeError, match="shares its memory"):
        f(m.weight.t())
    close(f(torch.ones(3, 3).to("pjrt")), m.weight + 1)


def test_the_same_tensor_twice_may_be_donated_twice():
    f = tp.jit(lambda x, y: x + y, donate=(0, 1))
    for _ in range(2):
        x = ones()
        close(f(x, x), torch.full((1000,), 2.0))
        with pytest.raises(RuntimeError, match="donated"):
            x.cpu()


def test_gradients_from_outside_keep_what_they_need():
    w = ones().requires_grad_()
    f = tp.jit(lambda x, w: (x * x * w).sum(), donate=0)
    for _ in range(2):
        x = ones() * 3
        w.grad = None
        f(x, w).backward()
        close(w.grad, torch.full((1000,), 9.0))
        gone(x)


def test_a_graph_that_saved_a_donated_tensor_says_so():
    w = ones().requires_grad_()
    f = tp.jit(double, donate=0)
    for _ in range(2):
        x = ones()
        y = (w * x).sum()
        f(x)
        with pytest.raises(RuntimeError, match=r"modified by an inplace operation|donated"):
            y.backward()


@pytest.mark.parametrize(
    ("donate", "error", "message"),
    [
        (5, ValueError, r"argument `donate`: got 5.*\(x, y, z\) of double"),
        ("w", ValueError, "argument `donate`: got 'w'"),
        (1.0, TypeError, "."),
        ((None,), TypeError, "argument `donate`: got None"),
        ("y", ValueError, "static argument too"),
    ],
)
def test_a_wrong_list_is_an_error_at_once(donate, error, message):
    with pytest.raises(error, match=message):
        tp.jit(double, donate=donate, static_argnums=1)


def test_an_argument_without_a_fitting_result_is_given_all_the_same():
    f = tp.jit(lambda x: x.sum(), donate=0)
    for _ in range(2):
        x = ones()
        close(f(x), torch.tensor(1000.0))
        gone(x)


def test_a_failed_call_takes_nothing():
    x = ones()
    with pytest.raises(tp.JitError):
        tp.jit(lambda x: x.sum().item(), donate=0)(x)
    close(x, torch.ones(1000))


# --- tensors whose place another takes


class Holder:
    last: torch.Tensor


def _descent():
    """A parameter, and a step whose gradient is its argument."""
    w = nn.Parameter(ones())
    opt = torch.optim.SGD([w], lr=0.1)

    @tp.jit
    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()

    return w, step


def _keep_their_values(kept, run, read):
    """What is kept after each of some calls still holds the argument of that call at the end."""
    found = []
    for k in range(5):
        run(ones() * k)
        found.append((KEPT[kept](read()), float(k)))
    for t, k in found:
        close(t, torch.full_like(t.cpu(), k))


def test_the_old_gradient_gives_its_memory():
    w, step = _descent()
    step(ones())
    # The parameter and its gradient.
    assert aliased(step, ones()) == 8000
    for k in range(3):
        step(ones() * k)
        close(w.grad, torch.full((1000,), float(k)))
    live = tp.live_buffers()
    step(ones())
    gc.collect()
    assert tp.live_buffers() <= live


KEPT = {
    "the tensor": lambda g: g,
    "a view": lambda g: g[1:],
    "a transposed view": lambda g: g.reshape(10, 100).t(),
    "detached": lambda g: g.detach(),
    "data": lambda g: g.data,
    "part of the data": lambda g: g.data[1:],
    "another tensor of the storage": lambda g: torch.empty(0, device="pjrt").set_(g.untyped_storage()),
}


@pytest.mark.parametrize("kept", KEPT)
def test_an_old_tensor_that_somebody_has_keeps_its_value(kept):
    h = Holder()
    h.last = ones()

    @tp.jit
    def f(x):
        h.last = h.last * 0 + x

    _keep_their_values(kept, f, lambda: h.last)


@pytest.mark.parametrize("kept", KEPT)
def test_an_old_gradient_that_somebody_has_keeps_its_value(kept):
    w, step = _descent()
    _keep_their_values(kept, step, lambda: w.grad)


OTHERS = {
    "nobody": lambda t: None,
    "detached": lambda t: t.detach(),
    "a view": lambda t: t.view(-1),
    "data": lambda t: t.data,
    "graph": lambda t: t * torch.ones(1, device="pjrt", requires_grad=True),
}


@pytest.mark.parametrize("other", OTHERS)
def test_holders_are_counted_as_torch_counts_them(other):
    t = ones()
    held = OTHERS[other](t)
    read, told = holders(t)
    assert read == told == {"nobody": (1, 1), "detached": (1, 2), "data": (1, 2)}.get(other, (2, read[1]))
    del held
    assert holders(t)[0][0] == 1


def test_a_graph_that_saved_the_old_tensor_keeps_it():
    h = Holder()
    h.last = ones()
    w = ones().requires_grad_()
    f = tp.jit(lambda x: setattr(h, "last", x * 2))
    for k in range(3):
        f(ones() * k)
        y = (w * h.last).sum()
        was = h.last.cpu()
        f(ones() * (k + 10))
        w.grad = None
        y.backward()
        close(w.grad, was)


def test_an_old_tensor_of_another_shape_is_not_written_to():
    h = Holder()

    @tp.jit
    def f():
        h.last = h.last[:2] * 2

    for _ in range(3):
        h.last = ones(4)
        f()
        close(h.last, torch.full((2,), 2.0))
        f()
        close(h.last, torch.full((2,), 4.0))
