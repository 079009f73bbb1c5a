"""Static arguments: nothing of them is baked in that the next call has otherwise."""

import dataclasses

import numpy as np
import pytest
import torch
import torch_pjrt as tp

from tests.support import DEVICE


@dataclasses.dataclass(frozen=True)
class Frozen:
    size: float


EQUAL = {
    "numbers": (1, 1.0, True, np.float32(1), 1 + 0j),
    "zeros": (0, 0.0, -0.0, False),
    "in a tuple": ((1, "a"), (1.0, "a"), (True, "a"), (True, "a"), (-0.0,), (0.0,)),
    "in a dataclass": (Frozen(1), Frozen(1.0), Frozen(True), Frozen(1)),
}


def of(s):
    n = s.size if isinstance(s, Frozen) else s[0] if isinstance(s, tuple) else s
    return n.item() if isinstance(n, np.generic) else n


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("by_name", [False, True])
def test_equal_values_of_other_types_are_others(name, by_name):
    f = tp.jit(lambda x, s: torch.full((2,), of(s), device=x.device), static_argnums=1, static_argnames="s")
    x = torch.ones(2, device=DEVICE)
    for s in EQUAL[name] * 3:
        got, want = (f(x, s=s) if by_name else f(x, s)).cpu(), torch.full((2,), of(s))
        assert got.dtype == want.dtype
        assert torch.equal(got, want)
        assert torch.equal(1 / got, 1 / want)


def test_nan_is_one_value():
    f = tp.jit(lambda x, s: x * s, static_argnums=1)
    for _ in range(4):
        assert f(torch.ones(2, device=DEVICE), float("nan")).cpu().isnan().all()
    assert f.cache_info().misses == 1


def scaled(by):
    return lambda x: x * by[0]


def test_what_is_in_a_static_object_is_watched():
    class Config:
        by = 1

        def times(self, x):
            return x * self.by

    config, by, layer = Config(), [1.0], torch.nn.Linear(2, 2).to(DEVICE)
    f = tp.jit(lambda x, c, g: g(x) * c[0].by + c[1](x) + c[2](x), static_argnums=(1, 2))
    x, g = torch.ones(2, device=DEVICE), scaled(by)
    for _ in range(3):
        config.by += 1
        by[0] *= 3
        with torch.no_grad():
            layer.weight.add_(1)
        torch.testing.assert_close(f(x, (config, layer, config.times), g), (g(x) + x) * config.by + layer(x))


REFUSED = {
    "list": ([1], r"static argument 1 of f: a list has no hash"),
    "array": (np.ones(2), r"static argument 1 of f: a ndarray has no hash"),
    "tensor": (torch.ones(1), r"static argument 1 of f: a tensor, whose values may change"),
    "in a tuple": ((2, torch.ones(1)), r"static argument 1 of f: a tensor, whose values may change"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_change_is_not_static(name):
    value, message = REFUSED[name]

    @tp.jit(static_argnums=1)
    def f(x, s):
        return x

    with pytest.raises(TypeError, match=message):
        f(torch.ones(2, device=DEVICE), value)


def test_positions_from_the_end():
    f = tp.jit(lambda x, s: x * s, static_argnums=-1)
    x = torch.ones(2, device=DEVICE)
    assert [f(x, s).sum().item() for s in (2.5, 3.5, 2.5)] == [5, 7, 5]
    assert f.cache_info().misses == 2
    for n in (2, -3, "s"):
        with pytest.raises(ValueError, match=r"`static_argnums`: got .*, expected the index of one of .*x, s"):
            tp.jit(lambda x, s: x * s, static_argnums=(n,))
    tp.jit(lambda *x: x[5], static_argnums=5)


@pytest.mark.parametrize("write", ["add_", "a view", "out="])
def test_a_cpu_argument_that_is_written_to(write):
    def f(x, into):
        if write == "add_":
            into.add_(x)
        elif write == "a view":
            into[1:].mul_(x[1:])
        else:
            torch.mul(x, x, out=into)
        return x * 2

    jitted, x, c = tp.jit(f), torch.ones(3, device=DEVICE), torch.ones(3)
    for _ in range(2):
        with pytest.raises(tp.JitError, match=r"argument that is a CPU tensor.*was written to.*: into"):
            jitted(x, c)
        assert torch.equal(c, torch.ones(3))
        d = c.to(DEVICE)
        want = c.clone()
        f(x.cpu(), want)
        jitted(x, d)
        assert torch.equal(d.cpu(), want)
