"""Functions given to torch's higher-order operators, which dynamo takes apart before it calls the operator."""

from __future__ import annotations

import contextlib
import functools
import types
from typing import Any

from torch.utils import _pytree as pytree

from . import _native
from ._floats import bound


def _bind(x: Any, seen: dict[int, Any]) -> Any:
    """``x`` with the numbers that functions close over as plain floats: dynamo computes with nothing else."""
    if id(x) in seen:
        return seen[id(x)]
    seen[id(x)] = x
    if isinstance(x, functools.partial):
        keywords = {k: _bind(v, seen) for k, v in x.keywords.items()}
        return functools.partial(_bind(x.func, seen), *(_bind(a, seen) for a in x.args), **keywords)
    if not isinstance(x, types.FunctionType):
        return bound(x)
    cells = x.__closure__ or ()
    was = [_contents(c) for c in cells]
    now = [_bind(v, seen) for v in was]
    defaults = tuple(_bind(v, seen) for v in x.__defaults__ or ())
    if all(a is b for a, b in zip([*now, *defaults], [*was, *(x.__defaults__ or ())], strict=True)):
        return x
    closure = tuple(c if a is b else types.CellType(b) for c, a, b in zip(cells, was, now, strict=True))
    made = types.FunctionType(x.__code__, x.__globals__, x.__name__, defaults or None, closure)
    made.__kwdefaults__ = x.__kwdefaults__
    seen[id(x)] = functools.update_wrapper(made, x)
    return seen[id(x)]


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


@functools.cache
def register() -> None:
    """Inside a trace everything that such a function closes over, but tensors, is what it is.

    Left alone dynamo would make a size or a number symbolic that it sees with a second value, and torch's operators
    take no symbolic floats: they fail, on every device. A program is of one size, and it is bound to such a number.
    """
    import torch
    from torch._higher_order_ops import utils

    environment = utils._set_compilation_env

    @contextlib.contextmanager
    def static() -> Any:
        with environment():
            if not _native.tracing():
                yield
                return
            with torch._dynamo.config.patch(specialize_float=True, automatic_dynamic_shapes=False):
                yield

    utils._set_compilation_env = static
    call = getattr(utils, "_hop_compile_and_call", None)  # a newer torch's one way in
    if call is None:
        return

    def bound_call(fn: Any, args: Any, kwargs: Any = None) -> Any:
        if _native.tracing():
            seen: dict[int, Any] = {}
            fn, args, kwargs = pytree.tree_map(lambda x: _bind(x, seen), (fn, args, kwargs))
        return call(fn, args, kwargs)

    utils._hop_compile_and_call = bound_call
