"""torch's higher-order operators on the device: branches and loops of the program under a trace, Python's outside."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import _bodies, _native
from ._jit_errors import refusal

_KEY = torch._C.DispatchKey.PrivateUse1


class _Lists:
    """A function of tensors as the native side calls it: lists in and out, the rest of the structure kept here."""

    def __init__(self, f: Callable[..., Any], statics: list[Any], tail: tuple[Any, ...] = ()) -> None:
        self.f, self.statics, self.tail = f, statics, tail
        self.spec: Any = None
        self.holes: list[Any] = []

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        it = iter(tensors)
        args = [next(it) if s is _HOLE else s for s in self.statics]
        out = self.f(*args, *self.tail)
        leaves, self.spec = pytree.tree_flatten(out)
        self.holes = [_HOLE if isinstance(x, torch.Tensor) else x for x in leaves]
        return [x for x in leaves if isinstance(x, torch.Tensor)]

    def result(self, tensors: list[torch.Tensor]) -> Any:
        it = iter(tensors)
        return pytree.tree_unflatten([next(it) if h is _HOLE else h for h in self.holes], self.spec)


_HOLE = object()


def _split(values: Any) -> tuple[list[torch.Tensor], list[Any]]:
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    return tensors, [_HOLE if isinstance(v, torch.Tensor) else v for v in values]


def _on_device(t: Any) -> Any:
    return t.to("pjrt") if isinstance(t, torch.Tensor) and t.device.type == "cpu" else t


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    if not isinstance(pred, torch.Tensor) or not _native.tracing():
        return true_fn(*operands) if pred else false_fn(*operands)
    on_true, on_false = _Lists(true_fn, list(operands)), _Lists(false_fn, list(operands))
    made = _native.trace_cond(_on_device(pred), on_true, on_false)
    return on_true.result(made)


def switch(index: Any, branches: Any, operands: Any) -> Any:
    n = len(branches)
    if not isinstance(index, torch.Tensor) or not _native.tracing():
        from torch._higher_order_ops.switch import switch_op_dense

        return switch_op_dense(index, branches, operands)
    # An index that names no branch is an error; this gather raises it.
    index = torch.arange(n, device="pjrt").gather(0, _on_device(index).reshape(1).long()).reshape(())
    return _one_of(index, branches, operands)


def _one_of(index: torch.Tensor, branches: Any, operands: Any) -> Any:
    if len(branches) == 1:
        return branches[0](*operands)

    # The first branch, or a choice among the others.
    def others(*args: Any) -> Any:
        return _one_of(index - 1, branches[1:], args)

    return cond(index <= 0, branches[0], others, operands)


def while_loop(cond_fn: Any, body_fn: Any, carried: Any, additional: Any, *rest: Any, **kwargs: Any) -> Any:
    from torch._higher_order_ops.while_loop import while_loop_dense

    if not _native.tracing():
        return while_loop_dense(cond_fn, body_fn, carried, additional, *rest, **kwargs)
    return loop(lambda *a: cond_fn(*a, *additional), lambda *a: body_fn(*a, *additional), carried)


def loop(condition: Callable[..., Any], body: Callable[..., Any], carried: Any) -> tuple[torch.Tensor, ...]:
    """A loop of the program. A Python int that it changes is a value of the loop."""
    carried = [torch.tensor(c, device="pjrt") if type(c) is int else _on_device(c) for c in carried]
    tensors, statics = _split(carried)
    return tuple(_native.trace_while(_Lists(lambda *a: (condition(*a),), statics), _Lists(body, statics), tensors))


def differentiable_while_loop(cond_fn: Any, body_fn: Any, carried: Any, additional: Any, *rest: Any) -> Any:
    """Where a gradient may be wanted: torch's own form keeps each round, which a program cannot."""
    from torch._higher_order_ops.while_loop import while_loop_op
    from torch._subclasses.fake_tensor import FakeTensor

    leaves = (*carried, *additional)
    tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
    wanted = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if not wanted or not _native.tracing() or any(isinstance(t, FakeTensor) for t in tensors):
        return while_loop_op.py_kernels[torch._C.DispatchKey.Autograd](cond_fn, body_fn, carried, additional, *rest)
    from ._loop_gradient import Loop

    return Loop.apply(cond_fn, body_fn, len(carried), *leaves)


def while_loop_stack_output(cond_fn: Any, body_fn: Any, carried: Any, additional: Any) -> Any:
    """What every round gives: as many rounds as the values say."""
    from torch._higher_order_ops.while_loop import while_loop_dense

    if _native.tracing():
        raise refusal("while_loop rounds")
    return while_loop_dense(cond_fn, body_fn, carried, additional, stack_output=True)


def scan(combine_fn: Any, init: Any, xs: Any, additional: Any, *rest: Any, **kwargs: Any) -> Any:
    from torch._higher_order_ops.scan import generic_scan

    if not _native.tracing() or not xs or xs[0].shape[0] == 0:
        return generic_scan(combine_fn, init, xs, additional_inputs=additional)
    n, length = len(init), xs[0].shape[0]
    init = [_on_device(c) for c in init]
    step = _Lists(lambda *a: combine_fn(*a, *additional), [_HOLE] * (n + len(xs)))
    like = [torch.empty(o.shape, dtype=o.dtype, device="cpu") for o in _shapes(step, [*init, *(x[0] for x in xs)])]
    made = _native.trace_scan(step, init, [_on_device(x) for x in xs], length, like[n:])
    out = step.result(made)
    return list(out)


def _shapes(step: _Lists, args: list[torch.Tensor]) -> list[torch.Tensor]:
    """What ``step`` returns, traced for its types alone."""
    return _native.trace_probe(lambda: step(*args))


def map_impl(f: Any, xs: Any, pos_args: Any, *rest: Any, **kwargs: Any) -> Any:
    from torch._higher_order_ops.map import map_dense

    leaves, spec = pytree.tree_flatten(xs)
    if not _native.tracing() or any(x.shape[0] == 0 for x in leaves):
        return map_dense(f, xs, pos_args)
    one = _Lists(lambda *a: f(*pytree.tree_unflatten(list(a), spec), *pos_args), [_HOLE] * len(leaves))
    like = [torch.empty(o.shape, dtype=o.dtype, device="cpu") for o in _shapes(one, [x[0] for x in leaves])]
    made = _native.trace_scan(one, [], leaves, leaves[0].shape[0], like)
    return one.result(made)


@functools.cache
def register() -> None:
    """Gives torch's operators their kernels for the device; not at import, which must stay quick."""
    _bodies.register()
    from torch._higher_order_ops.cond import cond_op
    from torch._higher_order_ops.map import map_impl as map_op
    from torch._higher_order_ops.scan import scan_op
    from torch._higher_order_ops.while_loop import while_loop_op

    with contextlib.suppress(ImportError):  # a torch whose while_loop has no gradient
        from torch._higher_order_ops.while_loop import while_loop_stack_output_op

        while_loop_stack_output_op.py_impl(_KEY)(while_loop_stack_output)
    with contextlib.suppress(ImportError):  # a torch that has no switch
        from torch._higher_order_ops.switch import switch_op

        switch_op.py_impl(_KEY)(switch)
    for op, kernel in ((cond_op, cond), (while_loop_op, while_loop), (scan_op, scan), (map_op, map_impl)):
        op.py_impl(_KEY)(kernel)
    while_loop_op.py_impl(torch._C.DispatchKey.AutogradPrivateUse1)(differentiable_while_loop)
