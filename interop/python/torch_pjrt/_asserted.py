"""Looks at values that decide nothing but whether to raise: the device finds out, and the error comes with its results.

A row's checks are of the same kind. Here they are made for code of torch's that is written in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from ._lazy_kernel import Kernel

_check = Kernel("_check", "_check", "functional")


def check(bad: torch.Tensor, message: str, kind: str = "runtime", value: torch.Tensor | None = None) -> None:
    """Reports an error once the program has run if any of ``bad`` holds. The message begins with an op and a colon;
    ``{}`` in it is the largest ``value`` of those that are bad."""
    bad = plain(bad)
    _check(bad, bad if value is None else plain(value), kind, message)


def plain(t: torch.Tensor) -> torch.Tensor:
    """The tensor below the levels of ``torch.func``."""
    functorch = torch._C._functorch
    t = t.detach()
    while functorch.is_functorch_wrapped_tensor(t):
        t = functorch.get_unwrapped(t)
    return t


def _kind(constraint: Any) -> str:
    """A constraint's name; its own text shows its bounds, which may be tensors."""
    return type(constraint).__name__.strip("_")


def _parameter(frame: FrameType) -> str:
    """What ``torch.distributions`` says, without the values, of an argument that it checks."""
    names = frame.f_locals
    if "error_message" in names and frame.f_back is not None:  # a function of its own checks for the caller
        names = frame.f_back.f_locals
    owner = type(names.get("self")).__name__
    if "param" in names:
        return (
            f"{owner}: Expected parameter {names['param']} of the distribution to satisfy the constraint "
            f"{_kind(names['constraint'])}, but found invalid values"
        )
    return (
        f"{owner}: Expected value argument to be within the support ({_kind(names.get('support'))}) of the distribution"
    )


@functools.cache
def _table() -> dict[CodeType, tuple[bool, str, Callable[[FrameType], str]]]:
    """By the function that looks: the answer with which it goes on, the kind of its error, and what that says."""
    from torch.distributions import Geometric, constraints, distribution
    from torch.nn import functional
    from torch.nn.utils import clip_grad

    found: dict[CodeType, tuple[bool, str, Callable[[FrameType], str]]] = {
        functional.gaussian_nll_loss.__code__: (
            False,
            "value",
            lambda frame: "gaussian_nll_loss: var has negative entry/entries",
        ),
        Geometric.__init__.__code__: (
            True,
            "value",
            lambda frame: "Geometric: Expected parameter probs of the distribution to be positive",
        ),
    }
    norm = clip_grad._get_total_norm if hasattr(clip_grad, "_get_total_norm") else clip_grad.clip_grad_norm_
    found[_inner(norm)] = (
        False,
        "runtime",
        lambda frame: (
            f"get_total_norm: The total norm of order {frame.f_locals.get('norm_type')} for gradients from "
            "`parameters` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        ),
    )
    asks = getattr(distribution, "_all_true_or_runtime_assert", None)
    base = distribution.Distribution
    for f in (base.__init__, base._validate_sample) if asks is None else (asks,):
        found[f.__code__] = (True, "value", _parameter)
    for name in ("_Symmetric", "_PositiveSemidefinite", "_PositiveDefinite"):
        code = getattr(constraints, name).check.__code__
        found[code] = (True, "value", lambda frame: "distributions: Expected a matrix that is square and symmetric")
    return found


def _inner(f: Any) -> CodeType:
    while hasattr(f, "__wrapped__"):
        f = f.__wrapped__
    return f.__code__  # type: ignore[no-any-return]


def answer(asked: torch.Tensor, frame: FrameType) -> bool | None:
    """What ``bool(asked)`` in this frame shall be, a check having been made; or ``None`` for a look like any other."""
    entry = _table().get(frame.f_code)
    if entry is None or asked.device.type != "pjrt":
        return None
    expected, kind, message = entry
    check(asked.logical_not() if expected else asked, message(frame), kind)
    return expected


_PHASES = {
    "LinalgSvdBackward0": (
        "svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The "
        "specified loss function depends on this phase term, making it ill-defined."
    )
}


def close(args: Any, kwargs: Any) -> bool | None:
    """What ``allclose`` shall be in torch's own gradients, a check having been made; or ``None`` anywhere else."""
    node = torch._C._current_autograd_node()
    message = None if node is None else _PHASES.get(node.name())
    if message is None:
        return None
    check(torch.isclose(*args, **kwargs).all().logical_not(), message)
    return True
