"""Gradients from outside: a traced function is one node of the caller's autograd graph.

Forward and backward are traced together with the gradients of the results as parameters, and cut in two at the end of
the forward part; values that the second part needs of the first are kept between the two runs.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from . import _native, _sparse_jit
from ._border import Border, is_spent
from ._changes import Place
from ._jit_errors import error, no_graph
from ._state import Walk
from ._storage import slot_of


class _Result(NamedTuple):
    """A leaf that the function made and left: that of each call receives the gradient."""

    at: int


class Gradients:
    """The backward part of a traced function."""

    def __init__(self, mark: int, slots: list[int], outputs: list[int], inputs: list[Any], has: list[Any]) -> None:
        self.mark, self.slots = mark, slots
        self.outputs = outputs
        """Which results have a gradient."""
        self.inputs = inputs
        """What receives one: an index of the known tensors, a leaf among the results (``_Result``), or a reference to a
        tensor that Python cannot find again."""
        self.has = has
        """Which of them there is one for; for a sparse one, what ``_sparse_jit.assemble`` takes; ``None`` where
        autograd gives none."""
        self.reached: list[int] = []
        """Which of ``outputs`` depend on each of them, as bits."""
        self.alive: list[torch.Tensor] = []
        self.stored: list[tuple[Place, int]] = []
        """Where the function put results, by their index: they get their place in the caller's graph there too."""
        self.not_returned: list[torch.Tensor] = []
        """Those among them that it did not return; their indices follow those that it did."""


def variables_of(results: list[torch.Tensor], border: Border | None = None) -> list[torch.Tensor]:
    """What the results depend on: tensors at the border of the trace, and leaves but those of ``torch.func``, which
    nobody has any more."""
    return [t for t, _ in _reached(results, border)]


def _reached(results: list[torch.Tensor], border: Border | None) -> list[tuple[torch.Tensor, int]]:
    """The same, each with the results that depend on it, as bits."""
    found: dict[int, tuple[torch.Tensor, int]] = {}
    bits: dict[Any, int] = {}

    def reach(node: Any, output: int, by: int) -> None:
        tensor = None if border is None else border.tensor(node, output)
        if tensor is not None:
            found[id(tensor)] = tensor, found.get(id(tensor), (tensor, 0))[1] | by
        elif node is not None:
            bits[node] = bits.get(node, 0) | by

    roots = [(t.grad_fn, t.output_nr) for t in results]
    for i, (start, output) in enumerate(roots):
        reach(start, output, 1 << i)
    for node in _from_above(roots, border):
        variable = getattr(node, "variable", None)
        if variable is not None and not torch._C._functorch.is_functorch_wrapped_tensor(variable):
            found[id(variable)] = variable, bits[node]
        for after, output in node.next_functions:
            reach(after, output, bits[node])
    return list(found.values())


def _from_above(roots: list[tuple[Any, int]], border: Border | None) -> list[Any]:
    """The nodes within the border, each behind all those that depend on it."""
    nodes: list[Any] = []
    seen: set[Any] = set()
    stack = [(root, False) for root in roots]
    while stack:
        (node, output), is_done = stack.pop()
        if is_done:
            nodes.append(node)
        elif node is not None and node not in seen and (border is None or border.tensor(node, output) is None):
            seen.add(node)
            stack.append(((node, output), True))
            stack.extend((edge, False) for edge in node.next_functions)
    return nodes[::-1]


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
    if any(t.retains_grad for t in wanted):
        raise error(
            "a result keeps its gradient (retain_grad) of a backward() outside, which does not pass it there. Way out: "
            "call backward inside the function, or return the gradient that torch.autograd.grad gives there.",
            place,
        )
    index = dict(before.index)
    arguments = [x for x in stand_ins if isinstance(x, torch.Tensor)]
    for (t, _, _), stand_in in zip(before.tensors, arguments, strict=False):
        index.setdefault(id(stand_in), before.index[id(t)])
    reached = _reached(wanted, border)
    if not reached:
        return None
    variables = [v for v, _ in reached]
    mark = _native.trace_mark()
    seeds = [_native.trace_given(t, k) for k, t in enumerate(wanted)]
    # Beyond the border the graph must be there for the caller, who also runs the hooks of what receives a gradient.
    with border.cut() as more, _without_hooks(variables):
        grads = torch.autograd.grad(wanted, variables, seeds, retain_graph=more, allow_unused=True)
    mine = {id(t): _Result(i) for i, t in enumerate(results) if t.grad_fn is None}
    inputs: list[Any] = []
    has: list[Any] = []
    slots: list[int] = []
    kept: list[torch.Tensor] = []
    for v, g in zip(variables, grads, strict=True):
        to = index.get(id(v), mine.get(id(v)))
        # Nobody may have a leaf that the function made. The graph alone keeps it until the trace is over.
        inputs.append(weakref.ref(v) if to is None else to)
        sparse = g is not None and g.is_sparse
        has.append(None if g is None else _sparse_jit.about(g) if sparse else g.numel() > 0)
        if has[-1]:
            parts = _sparse_jit.halves(g) if sparse else [g.detach()]
            kept.extend(map(_whole, parts))
            slots.extend(map(slot_of, kept[-len(parts) :]))
    made = Gradients(mark, slots, outputs, inputs, has)
    made.alive = kept
    made.reached = [by for _, by in reached]
    return made


class _Jitted(torch.autograd.Function):
    """The node of a jit call."""

    @staticmethod
    def forward(ctx: Any, call: Any, traced: Any, *inputs: torch.Tensor) -> tuple[Any, ...]:
        results, residuals = call()
        # What only depends on results without a gradient has none either: an optimizer leaves it as it is.
        ctx.set_materialize_grads(False)
        ctx.results = [(t.shape, t.dtype) for t in results]
        ctx.traced, ctx.residuals = traced, residuals
        ctx.shapes = [None if t is _NOBODY else (t.shape, t.dtype) for t in inputs]
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        no_graph("jit")
        traced, gradients = ctx.traced, ctx.traced.gradients
        asked = sum(1 << k for k, g in enumerate(grads) if g is not None)
        if not asked:
            return (None,) * (2 + len(ctx.shapes))
        given = [_zeros(*like) if g is None else g for g, like in zip(grads, ctx.results, strict=True)]
        seeds = [_whole(g) for g in given if g.numel() > 0]
        found = iter(_native.run_backward(traced.backward, ctx.residuals, seeds))
        out: list[Any] = [None, None]
        for like, has, reached in zip(ctx.shapes, gradients.has, gradients.reached, strict=True):
            g = None
            if type(has) is tuple:
                g = _sparse_jit.assemble(next(found), next(found), has)
            elif has is not None:
                g = next(found) if has else like and _zeros(*like)
            out.append(g if reached & asked and like is not None else None)
        return tuple(out)


_NOBODY = torch.empty(0, requires_grad=True)
"""Stands for a leaf that the function made and nobody has: the results require a gradient, which goes nowhere."""


def _zeros(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device="pjrt")


def _inputs(traced: Any, known: list[Any], results: list[Any]) -> list[torch.Tensor]:
    def found(i: Any) -> Any:
        if type(i) is int:
            return known[i]
        if type(i) is _Result:
            return results[i.at]
        alive = i()
        return _NOBODY if alive is None else alive

    return [found(i) for i in traced.gradients.inputs]


def attach(traced: Any, known: list[Any], results: list[Any], residuals: Any) -> list[Any]:
    """Gives the results that have a gradient their place in the caller's graph."""
    outputs = traced.gradients.outputs
    made = _Jitted.apply(lambda: ([results[i] for i in outputs], residuals), traced, *_inputs(traced, known, results))
    placed = dict(zip(outputs, made, strict=True))
    return [placed.get(i, t) for i, t in enumerate(results)]
