"""Which objects a call gives back and leaves behind, and which of them its gradients go to."""

import gc

import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import Holder, calls, close, leaf, ones, refusal


def test_what_only_other_results_depend_on_has_no_gradient():
    for used in (0, 1):
        ws = [leaf(3.0), leaf(5.0), leaf(7.0)]
        a, b, both = ws
        opt = torch.optim.SGD(ws, lr=0.1, weight_decay=1.0)
        f = tp.jit(lambda x, a=a, b=b, both=both: (a * x * both, b * x * both))
        for x in (2.0, 3.0, 4.0):
            opt.zero_grad()
            was = [w.detach().clone() for w in ws]
            f(ones(1) * x)[used].sum().backward()
            assert ws[1 - used].grad is None
            close(ws[used].grad, was[2] * x)
            close(both.grad, was[used] * x)
            opt.step()
            close(ws[1 - used], was[1 - used].cpu())
        assert f.cache_info().misses == 1


def test_all_results_that_are_used_give_gradients():
    a, b = leaf(3.0), leaf(5.0)
    f = tp.jit(lambda x: (a * x, b * x, a * b))
    for x in (2.0, 3.0, 4.0):
        one, two, three = f(ones(1) * x)
        got = torch.autograd.grad(one.sum() + three.sum(), (a, b), retain_graph=True)
        close(got[0], torch.tensor([x + 5.0]))
        close(got[1], torch.tensor([3.0]))
        got = torch.autograd.grad(two.sum(), (a, b), allow_unused=True)
        assert got[0] is None
        close(got[1], torch.tensor([x]))


def test_what_a_function_of_the_users_gives_no_gradient_has_none():
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, None

    a, b = leaf(3.0), leaf(5.0)
    f = tp.jit(lambda x: First.apply(a, b) * x)
    for x in (2.0, 3.0, 4.0):
        a.grad = None
        f(ones(1) * x).sum().backward()
        assert b.grad is None
        close(a.grad, torch.tensor([x]))


def test_each_call_has_its_own_leaf():
    def leaves(x):
        p, q = x.detach().requires_grad_(), nn.Parameter(x.detach() * 3)
        return p, {"q": q}, (p * p).sum() + (q * 2).sum()

    f = tp.jit(leaves)
    found = []
    for x in calls():
        p, rest, loss = f(x)
        loss.backward()
        found.append((x, p, rest["q"]))
    for x, p, q in found:
        assert type(q) is nn.Parameter
        close(p.grad, x.cpu() * 2)
        close(q.grad, torch.full((2,), 2.0))
    assert len({id(p) for _, p, _ in found}) == 4
    assert f.cache_info().misses == 1


def test_a_leaf_that_is_stored():
    lin = nn.Linear(2, 2, bias=False).to("pjrt")

    def renewed(x):
        lin.weight = nn.Parameter(lin.weight.detach() * 0 + x)
        return (lin(x) ** 2).sum()

    f = tp.jit(renewed)
    for x in calls():
        f(x).backward()
        w = nn.Parameter(torch.zeros(2, 2) + x.cpu())
        (nn.functional.linear(x.cpu(), w) ** 2).sum().backward()
        assert type(lin.weight) is nn.Parameter
        close(lin.weight, w)
        close(lin.weight.grad, w.grad)


def test_a_leaf_that_is_stored_with_others():
    h = Holder(y=None, d={"z": None})
    w = leaf(2.0, 3.0)

    def stored(x):
        h.y = x.detach().clone().requires_grad_()
        h.d["z"] = h.y * w
        return h.y, h.d["z"].sum() + w.sum()

    f = tp.jit(stored)
    for x in calls():
        w.grad = None
        y, out = f(x)
        close(h.d["z"], x.cpu() * w.cpu())
        out.backward(retain_graph=True)
        close(h.y.grad, w.cpu())
        h.d["z"].sum().backward()
        close(h.y.grad, w.cpu() * 2)
        close(w.grad, x.cpu() * 2 + 1)
        close(y, x.cpu())


def test_a_leaf_that_lasts():
    h = Holder(all=[])

    def appended(x):
        p = x.detach().clone().requires_grad_()
        h.all.append(p)
        return (p * p).sum()

    f = tp.jit(appended)
    for x in calls()[:2]:
        f(x).backward()
        close(h.all[-1].grad, x.cpu() * 2)


def test_a_leaf_that_nobody_keeps():
    w = leaf(2.0, 3.0)

    def alone(x):
        return (x.detach().requires_grad_() * 2).sum()

    def beside(x):
        return (x.detach().clone().requires_grad_() * w).sum()

    f, g = tp.jit(alone), tp.jit(beside)
    for x in calls():
        out = f(x)
        assert out.requires_grad
        out.backward()
        w.grad = None
        g(x).backward()
        close(w.grad, x.cpu())
        gc.collect()


def test_a_leaf_with_a_backward_inside():
    h = Holder(y=None)

    def inside(x):
        h.y = x.detach().clone().requires_grad_()
        (h.y * h.y).sum().backward()

    f = tp.jit(inside)
    for x in calls():
        f(x)
        close(h.y, x.cpu())
        close(h.y.grad, x.cpu() * 2)


def test_a_leaf_with_the_backward_of_others():
    h = Holder(y=None)

    def left(x):
        h.y = x.detach().clone().requires_grad_()

    f = tp.jit(left)
    for x in calls():
        f(x)
        assert h.y.grad is None
        (h.y * h.y).sum().backward()
        close(h.y.grad, x.cpu() * 2)


def test_a_hook_on_a_leaf_that_leaves_is_refused():
    def hooked(x, after=False, keep=True):
        p = x.detach().clone().requires_grad_()
        handle = p.register_post_accumulate_grad_hook(lambda p: None) if after else p.register_hook(lambda g: g * 2)
        loss = (p * p).sum()
        loss.backward()
        if not keep:
            handle.remove()
        return p

    for after in (False, True):
        assert "has a hook" in refusal(lambda x, after=after: hooked(x, after), ones(2))
    f = tp.jit(lambda x: hooked(x, keep=False))
    for x in calls():
        close(f(x).grad, x.cpu() * 4)


def test_a_result_that_keeps_its_gradient_is_refused():
    w = leaf(2.0, 3.0)

    def kept(x, inside):
        y = w * x
        y.retain_grad()
        loss = y.sum()
        if inside:
            loss.backward()
            return y, y.grad
        return y, loss

    assert "retain_grad" in refusal(lambda x: kept(x, False), ones(2))
    f = tp.jit(lambda x: kept(x, True))
    for x in calls():
        y, grad = f(x)
        close(y, w.cpu() * x.cpu())
        close(grad, torch.ones(2))
