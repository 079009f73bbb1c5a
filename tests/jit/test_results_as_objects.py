"""Attributes of what a call gives back and leaves behind, and what is one object there."""

import types

import torch
import torch_pjrt as tp

from tests.jit.support import Holder, calls, close, leaf, ones, refusal


class Marked(torch.Tensor):
    pass


class Note:
    def __init__(self):
        self.lines = []


def test_each_call_has_attributes_of_its_own():
    shared = Holder(all=[1])

    def marked(x):
        y = x * 2
        y.items, y.by_name, y.some, y.pair = [1, [2]], {"a": [3]}, {4}, ([5],)
        y.note, y.theirs, y.text = Note(), shared.all, "y"
        return y

    f = tp.jit(marked)
    results = []
    for x in calls():
        y = f(x)
        close(y, x.cpu() * 2)
        assert (y.items, y.by_name, y.some, y.pair, y.text) == ([1, [2]], {"a": [3]}, {4}, ([5],), "y")
        assert y.theirs is shared.all
        assert type(y.note) is Note
        assert y.note.lines == []
        y.items.append(0)
        y.items[1].append(0)
        y.by_name["a"].append(0)
        y.some.add(0)
        y.pair[0].append(0)
        y.note.lines.append(0)
        results.append(y)
    assert len({id(y.items) for y in results}) == 4
    assert f.cache_info().misses == 1


def test_attributes_of_results_with_a_graph():
    w = leaf(2.0, 3.0)

    def marked(x):
        y = w * x
        y.tag, y.items = 1, []
        return y, (w * x).as_subclass(Marked)

    f = tp.jit(marked)
    for x in calls():
        w.grad = None
        y, z = f(x)
        assert hasattr(y, "tag")
        assert y.items == []
        y.items.append(1)
        assert (type(y), type(z)) == (torch.Tensor, Marked)
        y.sum().backward()
        close(w.grad, x.cpu())
        z.sum().backward()
        close(w.grad, x.cpu() * 2)


def test_attributes_of_what_is_stored():
    h, w = Holder(y=None, z=None), leaf(2.0, 3.0)

    def stored(x):
        h.y, h.z = w * x, x * 2
        h.y.items, h.z.items = [], []

    f = tp.jit(stored)
    for x in calls():
        f(x)
        assert (h.y.items, h.z.items) == ([], [])
        h.y.items.append(1)
        h.z.items.append(1)
        close(h.y, w.cpu() * x.cpu())
        close(h.z, x.cpu() * 2)


def test_an_attribute_with_a_tensor_is_refused():
    w = leaf(2.0, 3.0)

    def marked(x):
        y = w * x
        y.other = [x * 2]
        return y

    assert "attribute `other`" in refusal(marked, ones(2))


def test_a_result_that_is_there_twice():
    w = leaf(2.0, 3.0)

    def plain(x):
        y, z = x * 2, x + 1
        return y, z, y, [y, {"z": z}], types.SimpleNamespace(y=y)

    def with_graph(x):
        y = w * x
        return y, x + 1, y, [y]

    f, g = tp.jit(plain), tp.jit(with_graph)
    for x in calls():
        a, b, c, (d, e), o = f(x)
        assert a is c
        assert a is d
        assert a is o.y
        assert b is e["z"]
        close(a, x.cpu() * 2)
        close(b, x.cpu() + 1)
        w.grad = None
        a, b, c, (d,) = g(x)
        assert a is c
        assert a is d
        close(b, x.cpu() + 1)
        a.mul_(2)
        close(c, w.cpu() * x.cpu() * 2)
        c.sum().backward()
        close(w.grad, x.cpu() * 2)
    assert f.cache_info().misses == g.cache_info().misses == 1


def test_an_argument_and_a_result_that_are_there_twice():
    f = tp.jit(lambda x: (x, x * 2, x))
    for x in calls():
        a, b, c = f(x)
        assert a is x
        assert c is x
        close(b, x.cpu() * 2)


def test_what_is_printed_comes_behind_what_is_there_twice(capfd):
    def printed(x):
        y = x * 2
        tp.debug.print("y = {}", y)
        return y, y

    f = tp.jit(printed)
    for x in calls():
        a, b = f(x)
        assert a is b
        assert f"{x[0].item() * 2:.0f}" in capfd.readouterr().out


def test_what_is_stored_twice():
    w = leaf(2.0, 3.0)
    h = Holder(a=None, b=None, d={"c": None}, t=None, g=None, p=None)

    def stored(x):
        h.a = h.b = h.d["c"] = x * 2
        h.t = x * 3
        h.g = w * x
        h.p = x.detach().clone().requires_grad_()
        return h.t, h.g, h.p

    f = tp.jit(stored)
    kept = []
    for x in calls():
        t, g, p = f(x)
        assert h.a is h.b
        assert h.a is h.d["c"]
        assert h.t is t
        assert h.g is g
        assert h.p is p
        w.grad = None
        g.sum().backward()
        close(w.grad, x.cpu())
        kept.append((x, t, h.a))
    for x, t, a in kept:
        close(t, x.cpu() * 3)
        close(a, x.cpu() * 2)
    assert f.cache_info().misses <= 2


def test_what_is_stored_and_returned_after_a_backward():
    h, w = Holder(y=None), leaf(2.0, 3.0)

    def step(x):
        w.grad = None
        h.y = (w * x).sum()
        h.y.backward()
        return h.y

    f = tp.jit(step)
    for x in calls():
        y = f(x)
        assert h.y is y
        close(w.grad, x.cpu())
        close(y, (w.cpu() * x.cpu()).sum())


def test_a_result_that_is_there_twice_and_cut():
    def twice(x):
        y = x * 2
        return y, [y]

    f = tp.jit(twice, pad_batch=0)
    for n in (3, 5, 6):
        x = torch.randn(n)
        a, (b,) = f(x.to("pjrt"))
        assert a is b
        close(a, x * 2)
