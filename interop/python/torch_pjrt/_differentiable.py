"""Gradients from outside: a traced function is one node of the caller's autograd graph.

Forward and backward are traced together with the gradients of the results as parameters, and cut in two at the end of
the forward part; values that the second part needs of the first are kept between the two runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from . import _native, _sparse_jit
from ._border import Border, is_spent
from ._changes import Place
from ._jit_errors import no_graph
from ._state import Walk
from ._storage import slot_of


class Gradients:
    """The backward part of a traced function."""

    def __init__(self, mark: int, slots: list[int], outputs: list[int], inputs: list[Any], has: list[Any]) -> None:
        self.mark, self.slots = mark, slots
        self.outputs = outputs
        """Which results have a gradient."""
        self.inputs = inputs
        """What receives one: an index of the known tensors, or a tensor that Python cannot find again."""
        self.has = has
        """Which of them there is one for; for a sparse one, what ``_sparse_jit.assemble`` takes."""
        self.alive: list[torch.Tensor] = []
        self.stored: list[tuple[Place, int]] = []
        """Where the function put results, by their index: they get their place in the caller's graph there too."""
        self.not_returned: list[torch.Tensor] = []
        """Those among them that it did not return; their indices follow those that it did."""


def variables_of(results: list[torch.Tensor], border: Border | None = None) -> list[torch.Tensor]:
    """What the results depend on: tensors at the border of the trace, and leaves but those of ``torch.func``, which
    nobody has any more."""
    found: dict[int, torch.Tensor] = {}
    seen: set[Any] = set()
    queue = [(t.grad_fn, t.output_nr) for t in results]
    while queue:
        node, output = queue.pop()
        if node is None or node in seen:
            continue
        tensor = None if border is None else border.tensor(node, output)
        if tensor is not None:
            found[id(tensor)] = tensor
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and not torch._C._functorch.is_functorch_wrapped_tensor(variable):
            found[id(variable)] = variable
        queue.extend(node.next_functions)
    return list(found.values())


def _whole(t: torch.Tensor) -> torch.Tensor:
    t = t.contiguous()
    return t if t.numel() == 0 or _native.is_whole(t) else t.clone(memory_format=torch.contiguous_format)


@contextlib.contextmanager
def _without_hooks(variables: list[torch.Tensor]) -> Iterator[None]:
    tables = [hooks for v in variables if v.is_leaf and (hooks := v._backward_hooks)]
    held = [dict(hooks) for hooks in tables]
    try:
        for hooks in tables:
            hooks.clear()
        yield
    finally:
        for hooks, was in zip(tables, held, strict=True):
            hooks.update(was)


def joint(
    results: list[torch.Tensor], before: Walk, stand_ins: list[Any], border: Border, place: str
) -> Gradients | None:
    """Traces the backward part of results that require gradients; ``None`` where nobody can ask for it."""
    outputs = [i for i, t in enumerate(results) if t.grad_fn is not None and not is_spent(t)]
    if not outputs:
        return None
    wanted = [results[i] for i in outputs]
    _sparse_jit.refuse_result(wanted, place)
    index = dict(before.index)
    arguments = [x for x in stand_ins if isinstance(x, torch.Tensor)]
    for (t, _, _), stand_in in zip(before.tensors, arguments, strict=False):
        index.setdefault(id(stand_in), before.index[id(t)])
    variables = variables_of(wanted, border)
    if not variables:
        return None
    mark = _native.trace_mark()
    seeds = [_native.trace_given(t, k) for k, t in enumerate(wanted)]
    # Beyond the border the graph must be there for the caller, who also runs the hooks of what receives a gradient.
    with border.cut() as more, _without_hooks(variables):
        grads = torch.autograd.grad(wanted, variables, seeds, retain_graph=more, allow_unused=True)
    inputs: list[Any] = []
    has: list[Any] = []
    slots: list[int] = []
    kept: list[torch.Tensor] = []
    for v, g in zip(variables, grads, strict=True):
        inputs.append(index.get(id(v), v))
        sparse = g is not None and g.is_sparse
        has.append(_sparse_jit.about(g) if sparse else g is not None and g.numel() > 0)
        if has[-1]:
            parts = _sparse_jit.halves(g) if sparse else [g.detach()]
            kept.extend(map(_whole, parts))
            slots.extend(map(slot_of, kept[-len(parts) :]))
    made = Gradients(mark, slots, outputs, inputs, has)
    made.alive = kept
    return made


class _Jitted(torch.autograd.Function):
    """The node of a jit call."""

    @staticmethod
    def forward(ctx: Any, call: Any, traced: Any, *inputs: torch.Tensor) -> tuple[Any, ...]:
        results, residuals = call()
        ctx.traced, ctx.residuals = traced, residuals
        ctx.shapes = [(t.shape, t.dtype) for t in inputs]
        ctx.outputs = traced.gradients.outputs
        ctx.mark_non_differentiable(*(t for i, t in enumerate(results) if i not in ctx.outputs))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_graph("jit")
        traced, gradients = ctx.traced, ctx.traced.gradients
        seeds = [_whole(grads[i]) for i in gradients.outputs if grads[i].numel() > 0]
        found = iter(_native.run_backward(traced.backward, ctx.residuals, seeds))
        out: list[Any] = [None, None]
        for (shape, dtype), has in zip(ctx.shapes, gradients.has, strict=True):
            if type(has) is tuple:
                out.append(_sparse_jit.assemble(next(found), next(found), has))
                continue
            out.append(next(found) if has else torch.zeros(shape, dtype=dtype, device="pjrt"))
        return tuple(out)


def _inputs(traced: Any, known: list[Any]) -> list[torch.Tensor]:
    return [known[i] if isinstance(i, int) else i for i in traced.gradients.inputs]


def attach(traced: Any, known: list[Any], results: list[Any], residuals: Any) -> list[Any]:
    """Gives the results of the first run their place in the caller's graph."""
    return list(_Jitted.apply(lambda: (results, residuals), traced, *_inputs(traced, known)))
