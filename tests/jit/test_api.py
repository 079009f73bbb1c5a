"""The interface: arguments, results, static values, lowering, reasons."""

import dataclasses

import pytest
import torch
import torch_pjrt as tp
from torch import nn

from tests.jit.support import close, compiles


@pytest.fixture
def x():
    return torch.arange(6.0).reshape(2, 3).to("pjrt")


def test_arguments_and_results_are_any_pytree(x):
    @dataclasses.dataclass
    class Batch:
        a: torch.Tensor
        scale: int

    @tp.jit
    def f(batch, rest, *, k):
        return Batch(batch.a * batch.scale, batch.scale), [rest["y"] + k, None, "text"], (3, batch.a)

    for _ in range(3):
        out, items, last = f(Batch(x, 2), {"y": x}, k=1)
        close(out.a, x * 2)
        close(items[0], x + 1)
        assert items[1:] == [None, "text"]
        assert last[0] == 3
        assert last[1] is x
        assert out.scale == 2
    assert f.cache_info().misses == 1


def test_transformers_outputs_are_pytrees(x):
    outputs = pytest.importorskip("transformers.modeling_outputs")

    @tp.jit
    def f(x):
        return outputs.BaseModelOutput(last_hidden_state=x * 2)

    for _ in range(2):
        close(f(x).last_hidden_state, x * 2)


def test_views_of_arguments_come_back_as_views(x):
    f = tp.jit(lambda x: (x.t(), x[0], x))
    for _ in range(2):
        t, row, same = f(x)
        assert same is x
        row.fill_(7)
        close(x[0], torch.full((3,), 7.0))
        close(t[:, 0], torch.full((3,), 7.0))


def test_cpu_tensors_are_inputs(x):
    f = tp.jit(lambda a, b: a * b)
    close(f(x, torch.full((2, 3), 2.0)), x * 2)
    close(f(x, torch.full((2, 3), 3.0)), x * 3)
    assert f.cache_info().misses == 1


def test_a_cpu_tensor_in_a_closure_is_not_stale(x):
    c = torch.ones(3)
    f = tp.jit(lambda x: x + c.to("pjrt"))
    close(f(x), x + 1)
    c.add_(1)
    close(f(x), x + 2)
    assert "CPU tensor was written to" in f.cache_info().reasons[-1]


def test_reasons_name_what_changed(x):
    f = tp.jit(lambda x, n=2, **k: x * n)
    f(x)
    f(x)
    f(x.double())
    f(x.double()[:1])
    f(x.double()[:1], 3)
    with torch.no_grad():
        f(x.double()[:1], 3)
    info = f.cache_info()
    assert (info.hits, info.misses, info.entries) == (1, 5, 5)
    for reason, part in zip(
        info.reasons,
        ("first call", "dtype torch.float64", "shape (1, 3)", "structure", "grad mode: False"),
        strict=True,
    ):
        assert part in reason, (reason, part)


def test_explain_prints_the_reasons(x, capsys):
    f = tp.jit(lambda x: x + 1)
    f(x)
    tp.explain(f)
    printed = capsys.readouterr().out
    assert "first call" in printed
    assert "1 traces" in printed


def test_static_arguments_are_compared_by_value(x):
    @tp.jit(static_argnums=1, static_argnames="how")
    def f(x, sizes, how=("sum",)):
        return x.reshape(sizes) if how == ("sum",) else x

    assert f(x, (3, 2)).shape == (3, 2)
    assert f(x, (3, 2)).shape == (3, 2)
    assert f(x, (6,)).shape == (6,)
    assert f.cache_info().misses == 2
    assert f(x, (6,), how=("no",)).shape == (2, 3)


def test_a_method_has_its_own_programs_for_each_instance(x):
    class Scale:
        def __init__(self, by):
            self.by = torch.tensor(by).to("pjrt")

        @tp.jit
        def __call__(self, x):
            return x * self.by

    a, b = Scale(2.0), Scale(3.0)
    for _ in range(2):
        close(a(x), x * 2)
        close(b(x), x * 3)


def test_modules_and_bound_methods(x):
    m = nn.Linear(3, 2).to("pjrt")
    with torch.no_grad():
        close(tp.jit(m)(x), m(x))
        close(tp.jit(m.forward)(x), m(x))


def test_jit_inside_jit_is_one_program(x):
    inner = tp.jit(lambda x: x * 2)
    outer = tp.jit(lambda x: inner(x) + 1)
    close(outer(x), x * 2 + 1)
    assert inner.cache_info().misses == 0


def test_lowering_runs_nothing_and_changes_nothing(x):
    m = nn.BatchNorm1d(3).to("pjrt")
    state = {k: v.cpu() for k, v in m.state_dict().items()}
    before = compiles()
    lowered = tp.jit(m).lower(x)
    text = lowered.as_text()
    assert compiles() == before
    assert "module @BatchNorm1d" in text
    assert "stablehlo" in text
    for k, v in m.state_dict().items():
        close(v, state[k])


def test_lowering_takes_meta_tensors_and_gives_locations():
    lowered = tp.jit(lambda x: x @ x.T).lower(torch.empty(4, 3, device="meta"))
    assert "test_api.py" in lowered.as_text()
    assert "loc(" not in lowered.as_text(locations=False)
    assert lowered.out_info.shape == (4, 4)
    assert lowered.out_info.device.type == "meta"


def test_eval_shape():
    out = tp.eval_shape(lambda x: {"a": x @ x.T, "n": 3}, torch.empty(4, 3, device="meta"))
    assert out["a"].shape == (4, 4)
    assert out["n"] == 3


def test_compiled_programs_run_and_serialize(x):
    compiled = tp.jit(lambda x: x * 2).lower(x).compile()
    close(compiled(x), x * 2)
    assert compiled.memory_analysis()["arguments"] == 24
    assert len(compiled.serialize()) > 100
    with pytest.raises(ValueError, match="dtype f64, was f32"):
        compiled(x.double())
    with pytest.raises(ValueError, match="argument `target`: got 'abacus'"):
        tp.jit(lambda x: x * 2).lower(x).compile("abacus")


def test_debug_print_in_order(x, capsys):
    @tp.jit
    def f(x):
        tp.debug.print("first {}", x.sum())
        x = x * 2
        tp.debug.print("second {} {}", x.sum(), 3)
        return x

    for _ in range(2):
        f(x)
    lines = capsys.readouterr().out.split("\n")
    assert [line.split()[0] for line in lines[:4]] == ["first", "second"] * 2
    assert "15." in lines[0]
    assert "30." in lines[1]
    assert lines[1].endswith("3")


@dataclasses.dataclass
class Checked:
    """A dataclass that looks at what it is given."""

    x: torch.Tensor
    mode: str

    def __post_init__(self):
        if self.mode not in ("twice", "thrice") or not isinstance(self.x, torch.Tensor):
            raise ValueError(f"invalid: {self.mode}")


def test_a_dataclass_that_checks_its_fields():
    f = tp.jit(lambda c: Checked(c.x * (2 if c.mode == "twice" else 3), c.mode), donate=0)
    for mode, factor in (("twice", 2), ("thrice", 3), ("twice", 2)):
        out = f(Checked(torch.ones(2).to("pjrt"), mode))
        close(out.x, torch.full((2,), float(factor)))
        assert out.mode == mode
    assert "c.mode: thrice, was twice" in f.cache_info().reasons[1].replace("'", "")
