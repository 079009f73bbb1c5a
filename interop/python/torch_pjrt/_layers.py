"""``scan_layers``: a deep stack of equal layers as one loop, so that its program does not grow with its depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from . import _native
from ._differentiable import variables_of
from ._jit_errors import no_graph, refusal


def _parameters(layer: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(layer.named_parameters()), **dict(layer.named_buffers())}


def _check(layers: Sequence[nn.Module]) -> None:
    first = {k: (tuple(v.shape), v.dtype) for k, v in _parameters(layers[0]).items()}
    for i, layer in enumerate(layers):
        mine = {k: (tuple(v.shape), v.dtype) for k, v in _parameters(layer).items()}
        if type(layer) is not type(layers[0]) or mine != first or layer.training != layers[0].training:
            raise ValueError(
                f"scan_layers: argument `layers`: layer {i} differs from layer 0 in class, mode, or the names, shapes "
                "or dtypes of its parameters; expected equal layers. Run different ones one after the other"
            )


class _Scan(torch.autograd.Function):
    """The loop; its gradient is a loop backwards that computes each layer again."""

    @staticmethod
    def forward(
        ctx: Any, call: Callable[..., torch.Tensor], given: int, x: torch.Tensor, *rest: torch.Tensor
    ) -> torch.Tensor:
        others, stacked = rest[:given], rest[given:]

        def step(c: torch.Tensor, *ps: torch.Tensor) -> list[torch.Tensor]:
            out = call(c, ps, others)
            if out.shape != c.shape or out.dtype != c.dtype:
                raise ValueError(
                    f"scan_layers: a layer made {out.dtype}{list(out.shape)} of {c.dtype}{list(c.shape)}; expected the "
                    "same shape and dtype"
                )
            return [out, c]

        out, inputs = _native.trace_scan(step, [x], list(stacked), stacked[0].shape[0], [x.detach()])
        ctx.save_for_backward(inputs, *rest)
        ctx.call, ctx.given = call, given
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        no_graph("scan_layers")
        inputs, *rest = ctx.saved_tensors
        n = ctx.given
        others, stacked = rest[:n], rest[n:]
        wanted = [t.is_floating_point() or t.is_complex() for t in stacked]

        def step(g: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
            sums, x, ps = given[:n], given[n], given[n + 1 :]
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                ps = tuple(p.detach().requires_grad_(w) for p, w in zip(ps, wanted, strict=True))
                same = [t.detach().requires_grad_() for t in others]
                out = ctx.call(x, ps, same)
            to = [x, *same, *(p for p, w in zip(ps, wanted, strict=True) if w)]
            if any(all(v is not t for t in to) for v in variables_of([out])):
                raise refusal("layer")
            found = torch.autograd.grad(out, to, g, allow_unused=True)
            gx, *gs = [torch.zeros_like(t) if g is None else g for g, t in zip(found, to, strict=True)]
            return [gx, *(a + b for a, b in zip(sums, gs[:n], strict=True)), *gs[n:]]

        backwards = [t.flip(0) for t in (inputs, *stacked)]
        samples = [t[0] for t, w in zip(stacked, wanted, strict=True) if w]
        start = [grad, *(torch.zeros_like(t) for t in others)]
        gx, *found = _native.trace_scan(step, start, backwards, inputs.shape[0], samples)
        it = iter(found[n:])
        return None, None, gx, *found[:n], *(next(it).flip(0) if w else None for w in wanted)


def scan_layers(layers: Sequence[nn.Module], x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """``for layer in layers: x = layer(x, *args, **kwargs)``, in a jit function as one loop of the program.

    The layers must be equal but for the values of their parameters, of which each has at least one, and give a tensor
    of the shape and dtype of ``x``, as the result is. Program and compile time are flat in the number of layers, and
    the gradient computes each layer again, so that memory holds one layer's intermediate values and every layer's
    input. Outside of jit it is the plain loop.

    Raises ``ValueError`` for unequal layers, or such as give another shape or dtype; ``JitError`` where a layer draws
    random numbers, writes to its buffers, or uses a tensor that wants a gradient and is neither a parameter nor an
    argument; and where a gradient of it is to be differentiated again.
    """
    layers = list(layers)
    if not _native.tracing() or len(layers) < 2:
        for layer in layers:
            x = layer(x, *args, **kwargs)
        return x
    _check(layers)
    names = list(_parameters(layers[0]))
    if not names:
        raise ValueError("scan_layers: argument `layers`: got layers without parameters, expected some")
    stacked = [torch.stack([_parameters(layer)[n] for layer in layers]) for n in names]

    leaves, spec = pytree.tree_flatten((args, kwargs))
    # What each layer gets, and wants a gradient.
    places = [i for i, v in enumerate(leaves) if isinstance(v, torch.Tensor) and v.requires_grad]
    others = [leaves[i] for i in places]

    def call(c: torch.Tensor, ps: Sequence[torch.Tensor], same: Sequence[torch.Tensor]) -> torch.Tensor:
        given = list(leaves)
        for i, v in zip(places, same, strict=True):
            given[i] = v
        args, kwargs = pytree.tree_unflatten(given, spec)
        return functional_call(layers[0], dict(zip(names, ps, strict=True)), (c, *args), kwargs)

    return _Scan.apply(call, len(others), x, *others, *stacked)
