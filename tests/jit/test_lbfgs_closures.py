"""Closures of ``torch.optim.LBFGS`` inside jit: what they may do, what is refused, and who else steps."""

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close, equal, refusal
from tests.jit.test_lbfgs import SEARCHES, assert_same_state, counts


def one_parameter(device="pjrt"):
    return nn.Parameter(torch.full((3,), 1.0, dtype=torch.float64).to(device))


def test_a_closure_that_raises_leaves_everything_as_it_was():
    w = one_parameter()
    opt = torch.optim.LBFGS([w], lr=0.5)
    fail = True

    def step(x):
        def closure():
            opt.zero_grad()
            loss = (w - x).pow(2).sum()
            loss.backward()
            if fail:
                raise KeyError("closure")
            return loss

        return opt.step(closure)

    traced, x = tp.jit(step), torch.full((3,), 2.0, dtype=torch.float64).to("pjrt")
    for _ in range(2):
        with pytest.raises(KeyError, match="closure"):
            traced(x)
        equal(w, torch.ones(3, dtype=torch.float64))
        assert w.grad is None
        assert not opt.state_dict()["state"].get(0)
    fail = False
    traced(x)
    assert (w - x).abs().max().item() < 1e-4, "it did not go on to the minimum"


@pytest.mark.parametrize("kind", ["list", "number", "shape", "none"])
def test_a_closure_that_keeps_something_else_is_refused(kind):
    w = one_parameter()
    opt = torch.optim.LBFGS([w], lr=0.5)
    kept = {"list": [], "number": 0, "shape": torch.zeros(0, device="pjrt"), "none": torch.zeros(3, device="pjrt")}

    def step():
        def closure():
            opt.zero_grad()
            loss = (w - 2).pow(2).sum()
            loss.backward()
            if kind == "list":
                kept[kind].append(loss.detach())
            elif kind == "number":
                kept[kind] += 1
            elif kind == "shape":
                kept[kind] = torch.cat([kept[kind], loss.detach().reshape(1).float()])
            else:
                kept[kind] = None if kept[kind] is not None else torch.zeros(3, device="pjrt")
            return loss

        return opt.step(closure)

    message = refusal(step)
    assert "closure" in message and "kept" in message and "Way out" in message
    equal(w, torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("to_none", [True, False])
def test_tensors_that_the_closure_keeps_are_those_of_the_last_evaluation(search, to_none):
    found = []
    for wrap in (lambda f: f, tp.jit):
        w, unused = one_parameter(), one_parameter()
        count = torch.zeros((), dtype=torch.int64, device="pjrt")
        opt = torch.optim.LBFGS([w, unused], lr=0.3, max_iter=5, line_search_fn=search)
        last, first_gradients = {"loss": None}, []

        def step(w=w, opt=opt, count=count, last=last, firsts=first_gradients):
            firsts.clear()

            def closure():
                opt.zero_grad(set_to_none=to_none)
                loss = ((w - 2) * torch.tensor([1.0, 2.0, 3.0], device="pjrt")).pow(4).sum()
                loss.backward()
                count.add_(1)
                last["loss"] = loss.detach()
                return loss

            return opt.step(closure)

        step = wrap(step)
        out = [step().item() for _ in range(4)]
        found.append((torch.tensor(out), last["loss"].cpu(), w.grad.cpu(), count.cpu(), unused.cpu(), unused.grad))
    for a, b in zip(*found, strict=True):
        assert a is b is None or torch.allclose(a, b, rtol=1e-8)


def test_subclasses_step_hooks_and_other_optimizers_beside():
    class Mine(torch.optim.LBFGS):
        def step(self, closure):
            return super().step(lambda: closure() * 1.0)

    class Same(torch.optim.LBFGS):
        pass

    results = []
    for wrap in (lambda f: f, tp.jit):
        for cls in (Mine, Same):
            a, b = one_parameter(), one_parameter()
            opt, adam = cls([a], lr=0.4, max_iter=3), torch.optim.Adam([b], lr=0.1)
            calls = torch.zeros((), device="pjrt")
            opt.register_step_post_hook(lambda *_, calls=calls: calls.add_(1))

            def step(a=a, b=b, opt=opt, adam=adam):
                def closure():
                    opt.zero_grad()
                    loss = (a - b.detach() * 2).pow(4).sum()
                    loss.backward()
                    return loss

                opt.step(closure)
                adam.zero_grad()
                (b - a.detach()).pow(2).sum().backward()
                adam.step()

            step = wrap(step)
            for _ in range(4):
                step()
            results.append((a.detach().cpu(), b.detach().cpu(), calls.cpu()))
    for eager, traced in zip(results[:2], results[2:], strict=True):
        for expected, got in zip(eager, traced, strict=True):
            close(got, expected)
        assert eager[2].item() >= 4


def test_what_is_refused():
    w = one_parameter()

    def loss_of(opt):
        def closure():
            opt.zero_grad()
            loss = (w - 2).pow(2).sum()
            loss.backward()
            return loss

        return closure

    def made_inside():
        opt = torch.optim.LBFGS([w])
        opt.step(loss_of(opt))

    assert "was made inside" in refusal(made_inside)
    opt = torch.optim.LBFGS([w], max_iter=2)

    def looks():
        opt.step(loss_of(opt))
        return opt.state[w]["n_iter"]

    for _ in range(2):
        message = refusal(looks)
        opt.step(loss_of(opt))
    assert "look at it outside" in message and "test_lbfgs_closures.py" in message
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        bad = torch.optim.LBFGS([w], line_search_fn="armijo")
        tp.jit(lambda: bad.step(loss_of(bad)))()
    opt.step(loss_of(opt))
    assert counts(opt)[0] >= 1


def test_a_jit_closure_of_an_eager_step():
    def make():
        w = one_parameter()
        opt = torch.optim.LBFGS([w], max_iter=3)

        def closure():
            opt.zero_grad()
            loss = (w - 2).pow(4).sum()
            loss.backward()
            return loss

        return w, opt, closure

    (w, opt, closure), (other, opt2, closure2) = make(), make()
    traced, whole = tp.jit(closure), tp.jit(lambda: opt.step(closure))
    for kind in "cwcwc":
        whole() if kind == "w" else opt.step(traced)
        opt2.step(closure2)
        close(w, other)
    assert_same_state(opt, opt2)
    assert traced.cache_info().misses <= 3
    assert whole.cache_info().misses <= 2


@pytest.mark.parametrize("search", SEARCHES)
def test_checks_of_the_device_are_made(search):
    module = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3)).to("pjrt")
    opt = torch.optim.LBFGS(module.parameters(), lr=0.3, max_iter=4, line_search_fn=search)
    target = torch.tensor([0, 1, 2]).to("pjrt")

    @tp.jit
    def step(index):
        def closure():
            opt.zero_grad()
            loss = nn.functional.cross_entropy(module(index), target)
            loss.backward()
            return loss

        return opt.step(closure)

    good = torch.tensor([0, 4, 2])
    first = step(good).item()
    before, steps = module[1].weight.detach().cpu(), counts(opt)
    with pytest.raises(IndexError, match="index out of range"):
        step(torch.tensor([0, 5, 2]))
    equal(module[1].weight, before)
    assert counts(opt) == steps
    assert step(good).item() < first


def test_several_steps_and_a_jit_closure_in_one_function():
    results = []
    for wrap in (lambda f: f, tp.jit):
        w = one_parameter()
        opt = torch.optim.LBFGS([w], lr=0.3, max_iter=3)
        seen = {"loss": torch.zeros((), dtype=torch.float64, device="pjrt")}

        @tp.jit
        def closure(w=w, opt=opt, seen=seen):
            opt.zero_grad()
            loss = (w - 2).pow(4).sum()
            loss.backward()
            seen["loss"] = loss.detach()
            return loss

        def step(opt=opt, closure=closure):
            return torch.stack([opt.step(closure).detach() for _ in range(3)])

        step = wrap(step)
        losses = torch.cat([step().cpu() for _ in range(3)])
        results.append((losses, w.detach().cpu(), seen["loss"].cpu()))
    for a, b in zip(*results, strict=True):
        close(b, a)


@pytest.mark.parametrize("search", SEARCHES)
def test_the_program_keeps_one_history(search):
    w = nn.Parameter(torch.zeros(1 << 14, device="pjrt"))
    opt = torch.optim.LBFGS([w], history_size=64, max_iter=8, lr=0.1, line_search_fn=search)

    def closure():
        opt.zero_grad()
        loss = (w - 2).pow(4).sum()
        loss.backward()
        return loss

    step = tp.jit(lambda: opt.step(closure))
    step()
    step()
    memory = step.lower().compile().memory_analysis()
    history = 2 * 64 * w.nbytes
    assert memory["aliased"] >= history
    assert memory["temporaries"] < history / 4
