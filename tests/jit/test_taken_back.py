"""After an exception everything is as it was before the call: what autograd keeps with a tensor too."""

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close


def _weight(m):
    return m[0].weight


def _written(m, x):
    m.total.add_((_weight(m) * 2).sum())


CHANGES = {
    "requires_grad off": lambda m, x: _weight(m).requires_grad_(False),
    "requires_grad on": lambda m, x: m.total.requires_grad_(True),
    "of an argument": lambda m, x: x.requires_grad_(True),
    "of a module": lambda m, x: m.requires_grad_(False),
    "a hook": lambda m, x: _weight(m).register_hook(lambda g: g * 2),
    "a second hook": lambda m, x: m[0].bias.register_hook(lambda g: g * 2),
    "a hook less": lambda m, x: m.handle.remove(),
    "a hook of an argument": lambda m, x: x.requires_grad_().register_hook(lambda g: g * 2),
    "a hook after accumulation": lambda m, x: _weight(m).register_post_accumulate_grad_hook(lambda p: None),
    "a hook of a module": lambda m, x: m.register_full_backward_hook(lambda m, i, o: None),
    "a hook before": lambda m, x: m[0].register_full_backward_pre_hook(lambda m, o: None),
    "written with a gradient": _written,
}


def _state(m, x):
    tensors = [*m.parameters(), *m.buffers(), x]
    tables = [
        list((getattr(t, n, None) or {}).values())
        for t in tensors
        for n in ("_backward_hooks", "_post_accumulate_grad_hooks")
    ]
    modules = [
        [list(v.values()) if isinstance(v, dict) and "hooks" in k else v for k, v in vars(s).items() if "hook" in k]
        for s in m.modules()
    ]
    return [(t.requires_grad, t.is_leaf, t.grad is None, t._version) for t in tensors], tables, modules


def _model():
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    m.register_buffer("total", torch.zeros(()))
    m.to("pjrt")
    m.handle = m[0].bias.register_hook(lambda g: g * 3)
    return m


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("how", ["raised", "refused", "lowered"])
def test_marks_and_hooks(name, how):
    m, x = _model(), torch.ones(4, 3).to("pjrt")

    def f(x):
        CHANGES[name](m, x)
        if how == "raised":
            raise ValueError("mine")
        if how == "refused":
            float(x.detach().sum())
        with torch.no_grad():
            return x * 2

    before, traced = _state(m, x), tp.jit(f)
    if how == "lowered":
        if name != "written with a gradient":  # refused
            traced.lower(x)
    else:
        with pytest.raises(ValueError if how == "raised" else tp.JitError):
            traced(x)
    assert _state(m, x) == before
    m(x).sum().backward()
    host = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    host.load_state_dict({k: v.cpu() for k, v in m.state_dict().items() if k != "total"})
    host(torch.ones(4, 3)).sum().backward()
    close(m[0].weight.grad, host[0].weight.grad)
    close(m[0].bias.grad, host[0].bias.grad * 3)


def test_a_hook_of_a_tensor_in_the_middle_of_a_graph():
    w = torch.ones(3).to("pjrt").requires_grad_()
    y = w * 2

    @tp.jit
    def f(x):
        y.register_hook(lambda g: g * 100)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        f(torch.ones(3).to("pjrt"))
    y.sum().backward()
    close(w.grad, torch.full((3,), 2.0))


def test_what_a_view_belongs_to():
    whole = torch.zeros(4).to("pjrt")
    part, w = whole[1:3], torch.ones(2).to("pjrt").requires_grad_()

    @tp.jit
    def f(x):
        part.add_(w * x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        f(torch.ones(2).to("pjrt"))
    assert whole.is_leaf
    assert not whole.requires_grad
    close(whole, torch.zeros(4))
