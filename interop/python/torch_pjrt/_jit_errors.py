"""Errors of tracing, which name the user's line, the op and the way out."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

import torch

from . import _native

_STDLIB = tuple(os.path.join(sysconfig.get_paths()["stdlib"], name) for name in ("contextlib", "functools"))
_WAYS = {
    "item": (
        "the value of a tensor was asked for (.item(), bool(), int(), float(), an index or an `if` on a tensor)",
        "use torch.where or torch.cond instead of `if`, x.narrow(dim, start, length) instead of a slice, pass the "
        "value as a static argument, or read it outside",
    ),
    "cpu": (
        "a tensor was copied to the CPU (.cpu(), .to('cpu'), .numpy(), .tolist(), print)",
        "return the tensor and copy it outside; to see a value use torch_pjrt.debug.print",
    ),
    "storage": (
        "a storage was copied (copy.deepcopy of a tensor, UntypedStorage.clone)",
        "use tensor.clone(), or copy outside",
    ),
    "nonzero": (
        "the shape of a result depends on values (nonzero, boolean mask, unique, masked_select)",
        "use torch.where with three arguments, or a mask multiplied in, which keep the shape",
    ),
    "linalg.lstsq": (
        "whether there are residuals depends on the rank, which drivers gelsd and gelss find out",
        "use driver='gels', which takes full rank for granted, or 'gelsy', which gives no residuals",
    ),
    "sparse": (
        "the entries of a sparse tensor were asked for whose number depends on values (coalesced, or without its "
        "padding_idx)",
        "compute with the tensor as a whole (sums, norms, dense.add_(sparse), to_dense), or read its entries outside",
    ),
    "while_loop rounds": (
        "what each round of a while_loop gave was asked for, and the number of rounds depends on values",
        "use a scan over a fixed number of rounds, with torch.where where the loop would have ended",
    ),
    "jit": (
        "a gradient of a jit function was asked for, from outside, that can be differentiated again (create_graph)",
        "take both gradients inside the function, or call it without jit",
    ),
    "layer": (
        "a layer of scan_layers uses a tensor that wants a gradient and is neither a parameter of the layer nor an "
        "argument of scan_layers",
        "pass it as an argument, or use the plain loop over the layers",
    ),
    "scan_layers": (
        "a gradient of scan_layers was asked for that can be differentiated again (create_graph)",
        "use the plain loop over the layers",
    ),
    "while_loop": (
        "a gradient of a while_loop was asked for that can be differentiated again (create_graph)",
        "use a scan over a fixed number of rounds, with torch.where where the loop would have ended",
    ),
    "narrow": (
        "a part at a place that is a tensor (narrow, select, x[i]) is a copy here, which was written to, or used after "
        "a write to the tensor that it was taken from",
        "write to the tensor (x[i] = v, index_copy), take the part anew after the write, or pass the place as a number",
    ),
    "host": (
        "a CPU tensor that outlives the function was written to",
        "keep the tensor on the pjrt device, or write to it outside",
    ),
    "argument": (
        "an argument that is a CPU tensor, or that pad_batch pads, was written to, of which the program has a copy",
        "pass it on the pjrt device and at its full size, or return the new value",
    ),
    "backward": (
        "backward() went into an argument, or a tensor of a closure, that was computed outside, or is a CPU tensor: "
        "there the trace ends",
        "make what computes it part of the function, detach() it, return the loss and call backward() outside, or take "
        "its gradient with torch.autograd.grad",
    ),
    "graph": (
        "a tensor whose gradient may be asked for later was left in a container that the function made",
        "return it, give it a place of its own (an attribute), detach() it, or call backward() inside",
    ),
    "in place": (
        "a tensor that was there before was written to in place with a value that has a gradient",
        "make a new tensor and return or assign it, detach() the value, or write under torch.no_grad()",
    ),
    "random": (
        "random numbers were drawn on the host; they would be the same at every call",
        "draw them on the device (torch.rand(..., device='pjrt')), or pass them as arguments",
    ),
    "generator": (
        "numbers were drawn from a torch.Generator; they would be the same at every call",
        "leave out `generator=` to use the device's own random state, which torch.manual_seed seeds",
    ),
    "branch": (
        "a branch or loop body wrote to a tensor from outside, or drew random numbers",
        "return the new value from the branch (carry it through the loop)",
    ),
    "lbfgs": (
        "torch.optim.LBFGS was made inside the function, or works on what a program cannot hold",
        "make the optimizer outside; or leave opt.step(closure) outside and make the closure one program: "
        "opt.step(tp.jit(closure))",
    ),
    "lbfgs_state": (
        "the state of a torch.optim.LBFGS was looked at, which is made of Python numbers and lists",
        "look at it outside",
    ),
    "closure": (
        "a closure that is called as often as values decide changed something other than values of tensors",
        "make it a tensor on the device of a fixed shape that is there before, or change it outside",
    ),
    "clock": (
        "the clock was read; it would say the same at every call",
        "read it outside, before the call and after a result was looked at",
    ),
    "outside": (
        "something outside was asked or run (the network, another process or thread, the terminal, the system); "
        "what it says would be the same at every call",
        "do it outside the function and pass the result as an argument",
    ),
    "schedule": (
        "a schedule was stepped by a value that the program computes",
        "return the value and step the schedule outside",
    ),
    "stepped": (
        "a number of an optimizer was used after its schedule was stepped, which happens after each run of the program",
        "step the schedule last, or outside",
    ),
    "seed": (
        "the random state was seeded, read or set inside the function",
        "do it outside; the program advances the state by itself",
    ),
    "fallback": (
        "an op has no kernel on the device and would run on the CPU",
        "leave the op outside, or use others",
    ),
    "custom": (
        "a custom op has no kernel on the device and would run on the CPU",
        "register a kernel written with torch's own ops (torch.library.impl(name, 'pjrt'), or register_kernel('pjrt') "
        "of a torch.library.custom_op), or leave the op outside",
    ),
}


class JitError(RuntimeError):
    """Something that jit cannot trace."""

    looked = False
    """Whether it was a look at a value, which may be torch's own."""


def _shape_dependent() -> str | None:
    """The op of ours whose result's shape depends on values, if it is what asks."""
    frame = sys._getframe()
    here = __file__.rsplit("/", 1)[0]
    while frame is not None:
        if frame.f_code.co_filename.startswith(here) and frame.f_code.co_filename != __file__:
            name = frame.f_code.co_name
            if any(part in name for part in ("nonzero", "unique", "mask", "index", "repeat_interleave", "bincount")):
                return name
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _library_line() -> str:
    """The line of a library other than torch that asked, if it was one."""
    frame = sys._getframe(2)
    own = (f"{os.sep}torch{os.sep}", f"{os.sep}torch_pjrt{os.sep}")
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<") or any(part in file for part in own) or file.startswith(_STDLIB):
            frame = frame.f_back  # type: ignore[assignment]
            continue
        parts = file.split(f"{os.sep}site-packages{os.sep}")
        return f" (in {parts[1]}:{frame.f_lineno})" if len(parts) == 2 else ""
    return ""


def refusal(op: str, detail: str = "", place: str = "") -> JitError:
    """The error for ``op`` at ``place``, or else at the user's line."""
    found = _shape_dependent() if op in ("item", "cpu") else None
    what, way = _WAYS["nonzero" if found else op]
    where = place or (_native.user_location() or "") + _library_line()
    name = "" if op == "jit" else f"{found or op}: "
    made = error(f"{name}{what}{detail}, which a trace cannot follow. Way out: {way}.", where)
    made.looked = op in ("item", "cpu", "nonzero")
    return made


def error(text: str, place: str = "") -> JitError:
    """The error at ``place``, or else at the user's line, which the threads of backwards do not know. No other is
    made."""
    where = place or _native.user_location()
    return JitError(f"jit: {where}: {text}" if where else f"jit: {text}")


def place_of(fn: Callable[..., Any]) -> str:
    """``file:line: `` of a function of Python's, of a module's forward, or of what an object does when it is called;
    empty for others."""
    f: Any = fn
    for _ in range(32):
        if isinstance(f, torch.nn.Module):
            f = f.forward
        inner = getattr(f, "func", None) if isinstance(f, functools.partial) else getattr(f, "__wrapped__", None)
        inner = inner or getattr(f, "__func__", None)
        if inner is None and not hasattr(f, "__code__") and hasattr(type(f).__call__, "__code__"):
            inner = type(f).__call__
        if inner is None:
            break
        f = inner
    code = getattr(f, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""


def no_graph(op: str) -> None:
    """For the backward function of ``op``, which cannot be differentiated: raises if its caller records a graph
    (``create_graph``). The gradients would count as constants there, and what is computed from them would be wrong."""
    if torch.is_grad_enabled():
        raise refusal(op)


def tensors_of(args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors among the arguments of a kernel."""
    found: list[torch.Tensor] = []

    def look(x: Any) -> None:
        if isinstance(x, torch.Tensor):
            found.append(x)
        elif isinstance(x, list | tuple):
            for y in x:
                look(y)

    look(args)
    look(list((kwargs or {}).values()))
    return found
