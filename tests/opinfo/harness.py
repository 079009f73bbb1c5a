"""One op_db entry in one dtype: every sample on torch CPU and on the device; forward, gradient, in place, errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from tests import support
from tests.opinfo import judge, ties
from tests.support import DEVICE, SHARE, assert_no_fallback, assert_same, fallbacks, in_mode, in_share, outcome, to_cpu

warnings.filterwarnings("ignore", module="torch.testing")
# Entries seed by themselves, which no trace may do; here each run is seeded before.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)

# Entries whose values are random or uninitialised: shapes and dtypes are compared, values are not.
VALUELESS = set(
    """
    bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial
    new_empty new_empty_strided normal normal.in_place normal.number_mean rand_like randint randint_like randn
    randn_like nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
    nn.functional.feature_alpha_dropout.with_train nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d nn.functional.rrelu
    uniform pca_lowrank svd_lowrank
    """.split()
)
# Where the dropout probability is among the arguments after the input, in entries that give it by position.
DROPOUT_AT = {"nn.functional.multi_head_attention_forward": 9}
# Where several answers are right (signs of eigenvectors, order among equals), what is compared instead.
UP_TO_SIGN = set(
    """
    linalg.eigh linalg.eig linalg.svd svd linalg.qr qr
    """.split()
)

# Entries whose results have other strides than torch CPU's, with the reason.
OTHER_STRIDES = {
    "argwhere": "rows of a table of a rounded length, cut off",
    "nonzero": "rows of a table of a rounded length, cut off",
    "linalg.lstsq": "torch CPU hands out a part of LAPACK's buffer",
}

# Entries whose tensor arguments after the input must be on the CPU, on every device.
HOST_ARGUMENTS = {"tensor_split"}

# Types that no plugin computes with.
NO_SUCH_DTYPE = {torch.complex32, getattr(torch, "bcomplex32", None), torch.float8_e4m3fnuz, torch.float8_e5m2fnuz}

UNCLAIMED_FILE = Path(__file__).with_name("unclaimed.txt")
UNTRACEABLE_FILE = Path(__file__).with_name("untraceable.txt")


def full_name(op: Any) -> str:
    """Name and variant, unique in op_db."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Case:
    """An entry of op_db in one dtype."""

    op: Any
    dtype: torch.dtype
    principal: bool

    @property
    def id(self) -> str:
        return f"{full_name(self.op)}-{dtype_name(self.dtype)}"


def cases() -> list[Case]:
    """Every entry in every dtype that torch CPU supports for it and a device has; float32 first where it is one."""
    found = []
    for op in op_db:
        dtypes = sorted(op.supported_dtypes("cpu") - NO_SUCH_DTYPE, key=lambda d: (d != torch.float32, str(d)))
        found += [Case(op, dtype, principal=i == 0) for i, dtype in enumerate(dtypes)]
    return found


WITH_ERRORS = [op for op in op_db if op.error_inputs_func is not None]


def errors_id(op: Any) -> str:
    """What the bad inputs of an entry are listed by."""
    return f"{full_name(op)}-errors"


def all_ids() -> list[str]:
    """Of every case, and of the bad inputs of every entry that has some."""
    return [*(c.id for c in cases()), *map(errors_id, WITH_ERRORS)]


# A dtype other than the principal one takes the same rows: of its samples this many run, and under jit, which takes the
# same rows again, every eighth such dtype with two samples.
SAMPLES_OF_OTHERS = 8
SHARE_OF_OTHERS_UNDER_JIT = 1 / 8


def selected_cases(share: float = SHARE) -> list[Case]:
    """Every entry in its principal dtype, and a share of the others: all of them, unless the whole sweep is a share."""
    return [c for i, c in enumerate(cases()) if c.principal or in_share(i, share)]


def traced_cases() -> list[Case]:
    """What runs under jit."""
    return selected_cases(min(SHARE, SHARE_OF_OTHERS_UNDER_JIT))


def _listed(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))


def unclaimed() -> dict[str, str]:
    """The cases known not to pass, each with its reason: lines ``entry-dtype  reason``."""
    return _listed(UNCLAIMED_FILE)


def unclaimed_text(reasons: dict[str, str]) -> str:
    """What unclaimed.txt has for these cases."""
    ids = all_ids()
    lines = [f"{case}  {reasons[case]}" for case in ids if case in reasons]
    head = f"# Entries of op_db that do not pass on the device, with the reason: {len(lines)} of {len(ids)}."
    return "\n".join([head, *lines]) + "\n"


def untraceable() -> dict[str, str]:
    """The entries with samples that jit refuses, each with its reason: lines ``entry  reason``."""
    return _listed(UNTRACEABLE_FILE)


def move(t: torch.Tensor, device: str) -> torch.Tensor:
    """``t`` on ``device`` with its strides and offset; a leaf that requires what ``t`` did."""
    source = t.detach()
    plain = source.layout == torch.strided and not source.is_conj() and not source.is_neg()
    if plain and not source.is_contiguous() and source.numel():
        whole = torch.empty(0, dtype=source.dtype).set_(source.untyped_storage())
        whole = whole.to(device, copy=True)  # the overlap of an expanded tensor is kept on every device
        moved = whole.as_strided(source.size(), source.stride(), source.storage_offset())
    else:
        moved = source.to(device)
    if moved is source or moved.data_ptr() == source.data_ptr():
        moved = moved.clone()
    return moved.requires_grad_() if t.requires_grad else moved


def on(device: str, value: Any) -> Any:
    """The sample's arguments on ``device``."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return move(leaf, device)
        if isinstance(leaf, torch.device):
            return torch.device(device)
        return device if isinstance(leaf, str) and leaf == "cpu" else leaf

    return tree_map(one, value)


def _samples(case: Case) -> Iterator[Any]:
    torch.manual_seed(1)
    grad = case.op.supports_autograd and (case.dtype.is_floating_point or case.dtype.is_complex)
    share, most = (SHARE, sys.maxsize) if case.principal else (min(SHARE, 0.1), SAMPLES_OF_OTHERS)
    samples = case.op.sample_inputs("cpu", case.dtype, requires_grad=grad)
    yield from islice((s for i, s in enumerate(samples) if i < 2 or in_share(i, share)), most)


def _is_random(case: Case, sample: Any) -> bool:
    at = DROPOUT_AT.get(case.op.name)
    dropped = sample.kwargs.get("dropout_p") if at is None else sample.args[at]
    return bool({full_name(case.op), case.op.name} & VALUELESS or dropped)


def _comparable(case: Case, sample: Any, out: Any, args: Any = None) -> Any:
    """What of ``out`` is compared; ``args`` are the input, the other arguments and the keyword arguments."""
    if args is not None and ties.applies(case.op.name, args[2]):
        out = ties.elements(case.op.name, *args, out)
    if _is_random(case, sample):
        return [(tuple(t.shape), t.dtype) for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor)]
    if case.op.name in UP_TO_SIGN:
        return tree_map(lambda t: t.abs() if isinstance(t, torch.Tensor) else t, tree_flatten(out)[0])
    return tree_flatten(out)[0]


def _strides(case: Case, sample: Any, out: Any) -> list[tuple[int, ...]]:
    """Of each result with elements, for its dims longer than one: the others have no say."""
    if case.op.name in OTHER_STRIDES or _is_copied(case, sample):
        return []
    tensors = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.layout == torch.strided]
    return [tuple(s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1) for t in tensors if t.numel()]


def _is_copied(case: Case, sample: Any) -> bool:
    """Whether a part is read at a place that is a tensor: under jit it is a copy, not a view."""
    return support.jitted and case.op.name == "narrow" and any(isinstance(x, torch.Tensor) for x in sample.args)


def gradients(out: Any, inputs: list[torch.Tensor]) -> list[Any]:
    """Gradients of the inputs for output gradients that are the same in every dtype and on every device."""
    outs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    if not outs or not inputs:
        return []
    generator = torch.Generator().manual_seed(7)
    seeds = []
    for t in outs:
        # Sixteenths are the same number in every dtype; in no order, so that a sum does not rise before it cancels.
        real = torch.randn(t.shape, generator=generator, dtype=torch.float64).mul(16).round().div(16)
        seeds.append(real.to(t.dtype).to(t.device))
    return list(torch.autograd.grad(outs, inputs, seeds, allow_unused=True))


def _forward_and_gradient(case: Case, sample: Any, device: str) -> list[Any]:
    torch.manual_seed(3)
    rest = (sample.args, sample.kwargs)
    args = (on(device, sample.input), *on("cpu" if case.op.name in HOST_ARGUMENTS else device, rest))
    leaves = [t for t in tree_flatten(args)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = leaves and not _is_random(case, sample)
    op, last = case.op.get_op(), sample.output_process_fn_grad

    def work() -> Any:
        out = last(op(args[0], *args[1], **args[2]))
        grads = gradients(out, leaves) if wanted else []
        return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, out), grads

    call = in_mode(work, device)
    out, grads = call()
    if support.jitted and device != "cpu":
        out, grads = _served(call, (out, grads), args)
    if grads and ties.applies(case.op.name, args[2]):
        grads = ties.gradients(args[0], grads)
    return [_comparable(case, sample, out, args), grads, _strides(case, sample, out)]


def _served(call: Any, traced: Any, args: Any) -> Any:
    """What the program gives at a second call, which makes its results anew: the same as the call that traced."""
    torch.manual_seed(3)
    served = call()
    given = {id(t) for t in tree_flatten(args)[0]}
    for a, b in zip(tree_flatten(traced)[0], tree_flatten(served)[0], strict=True):
        assert not isinstance(a, torch.Tensor) or a is not b or id(a) in given, "the result of another call"
    assert_same(to_cpu(served), to_cpu(traced), "second call")
    return served


def _in_place(case: Case, sample: Any, device: str) -> list[Any]:
    args = on(device, tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, sample.input))
    rest = on(device, (sample.args, sample.kwargs))
    target = args if isinstance(args, torch.Tensor) else list(args)
    variant = case.op.inplace_variant

    @torch.no_grad()
    def work() -> None:
        variant(target, *rest[0], **rest[1])

    in_mode(work, device)()
    return _comparable(case, sample, target)


def _compare(run: Any, what: str, exact: Any = None) -> None:
    """``run(device)`` and ``run("cpu")`` agree, errors included; or the device is as near to ``exact()``."""
    expected = outcome(lambda: run("cpu"))
    if isinstance(expected, Exception):
        actual = outcome(lambda: run(DEVICE))
        assert isinstance(actual, Exception), f"{what}: no error; torch CPU raises {expected!r}"
        if type(actual).__name__ == "JitError" and not isinstance(actual, type(expected)):
            raise actual
        assert isinstance(actual, type(expected)), f"{what}: raises {actual!r}; torch CPU raises {expected!r}"
        return
    actual = run(DEVICE)
    try:
        assert_same(actual, expected, what)
    except AssertionError:
        if exact is None or not judge.as_exact(to_cpu(actual), expected, outcome(exact)):
            raise


def _describe(sample: Any) -> str:
    def brief(x: Any) -> Any:
        return f"{dtype_name(x.dtype)}{list(x.shape)}" if isinstance(x, torch.Tensor) else x

    return f"({tree_map(brief, sample.input)}, *{tree_map(brief, sample.args)}, **{tree_map(brief, sample.kwargs)})"


def _run_sample(case: Case, sample: Any, in_place: bool, how: str = "") -> None:
    what = f"{case.id} {_describe(sample)}{how}"
    _compare(
        lambda device: _forward_and_gradient(case, sample, device),
        what,
        lambda: _forward_and_gradient(case, judge.widened_sample(sample), "cpu"),
    )
    if in_place and case.op.inplace_variant is not None and not sample.broadcasts_input:
        _compare(
            lambda device: _in_place(case, sample, device),
            f"{what} in place",
            lambda: _in_place(case, judge.widened_sample(sample), "cpu"),
        )


def run_case(case: Case) -> int:
    """Runs all samples; AssertionError (or the device's exception) at the first difference. Returns how many ran."""
    before, count = fallbacks(), 0
    for sample in _samples(case):
        _run_sample(case, sample, in_place=count < 2)
        count += 1
    assert_no_fallback(before)
    return count


def run_traced(case: Case) -> tuple[int, list[str]]:
    """Runs samples under jit, which the fixture ``mode`` has turned on: of a share, one a case. Returns how many were
    right, and the refusals of the others; AssertionError (or the device's exception) at the first difference."""
    import torch_pjrt

    before, right, refusals = fallbacks(), 0, []
    for i, sample in enumerate(_samples(case)):
        if i >= (1 if SHARE < 1 else 2 if not case.principal else sys.maxsize):
            break
        try:
            _run_sample(case, sample, in_place=not i, how=" under jit")
            right += 1
        except torch_pjrt.JitError as error:
            refusals.append(str(error))
    assert_no_fallback(before)
    return right, refusals


def run_errors(op: Any) -> None:
    """Each bad input of the entry raises the kind of exception on the device that it raises on the CPU."""
    for bad in op.error_inputs("cpu"):
        sample = bad.sample_input

        def call(device: str, sample: Any = sample) -> Any:
            args = on(device, (sample.input, sample.args, sample.kwargs))
            return op(args[0], *args[1], **args[2])

        _compare(call, f"{full_name(op)} {_describe(sample)}")
