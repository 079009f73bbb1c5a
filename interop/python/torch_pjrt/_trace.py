"""One trace: from a Python function to a program with what it reads, writes and takes for granted."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import (
    _averaged,
    _batch_norm,
    _blind,
    _checkpoint,
    _clock,
    _control,
    _differentiable,
    _donation,
    _entropy,
    _files,
    _hosts,
    _native,
    _outside,
    _ran,
    _saved,
    _scaler,
    _sparse_jit,
    _sparse_parts,
    _traceable,
    debug,
)
from ._afterwards import postponed
from ._border import Border, is_spent
from ._caches import Caches
from ._changes import stored, undo, with_graph
from ._finish import finish
from ._flatten import distinct_tensors, flatten
from ._floats import OnHost, Run
from ._host_random import Randomness, check_generators
from ._jit_errors import JitError, error, refusal
from ._lbfgs_state import NotFrozenError, fill, freeze, tensors_held
from ._moved import Moved
from ._names import came
from ._numbers import Trace
from ._opened import opened
from ._optimizers import followed
from ._optimizers import settle as settle_optimizers
from ._replaced import replaced
from ._request import Request
from ._settled import settle, settle_error, settle_result
from ._state import Walk
from ._taken import check_iterators, no_parametrized
from ._traced import Traced
from ._versions import Versions, written_leaves


def trace(request: Request, frozen: tuple[Any, ...] = ()) -> tuple[Traced | None, Any]:
    """Traces a function and, if asked to, runs the program once. Returns it (``None`` when it cannot serve again) and
    the function's result; without a run the result is made of meta tensors and everything is as before."""
    _averaged.register()
    _control.register()
    _checkpoint.register()
    _scaler.register()
    _traceable.register()
    before = request.walk()
    moved = _averaged.settle(before.averaged)
    if settle_optimizers(before.optimizers) or moved:
        before = request.walk()
    for o in before.optimizers:
        if request.run and tensors_held(o):
            fill(o)
    _donation.check(before, request.donated_tensors, request.place)
    try:
        return _attempts(request, before)
    except NotFrozenError as found:
        if any(found.optimizer is o for o in frozen):
            raise error("the state of an LBFGS was replaced while it was traced", request.place) from None
        freeze(found.optimizer, request.run)
        return trace(request, (*frozen, found.optimizer))


def _attempts(request: Request, before: Walk) -> tuple[Traced | None, Any]:
    error: Exception | None = None
    # With numbers that are followed, or, if the function does not work with them, without.
    for follow in (True, False) if any(not n.ours for n in before.numbers) else (False,):
        for blind in (False, True):
            try:
                return _attempt(request, before, Run() if follow else None, blind)
            except _Stopped as stopped:
                if not (blind and isinstance(stopped.error, JitError) and stopped.error.looked):
                    error = stopped.error
            if not (isinstance(error, JitError) and error.looked):
                break
            # Perhaps it was not the function that looked at a value, but torch in a formula of its own.
    try:
        assert error is not None
        raise error
    finally:
        # Frames that an exception keeps alive keep guards of torch's alive; this one would keep the exception alive.
        del error


class _Stopped(Exception):
    """A function that was being traced raised ``error``."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _attempt(request: Request, before: Walk, run: Run | None, blind: bool) -> tuple[Traced | None, Any]:
    attempt, caches = _Attempt(request, before), Caches(before)
    debug.take()
    # Casts that autocast keeps are of one side of the trace or the other.
    torch.clear_autocast_cache()
    _native.trace_keep()
    _native.trace_begin(request.name)
    numbers = Trace()
    try:
        with numbers.entered():
            out, gradients = attempt.called(run, blind)
            program, value = finish(request, out, before, gradients, attempt.versions, attempt.moved)
        if (imported := came(attempt.modules, before.names)) and program is not None:
            # What is in them was not there to be looked at.
            program.lasting = ", ".join([*filter(None, [program.lasting]), f"module {min(imported)}"])
        program.stepped = attempt.stepped
        return program, value
    except BaseException:
        if run is not None:
            run.end()
        attempt.take_back()
        raise
    finally:
        if run is not None:
            run.end()
        torch.clear_autocast_cache()
        caches.drop()
        _sparse_parts.forget()


class _Attempt:
    """A call of the function under the trace, which can be taken back."""

    def __init__(self, request: Request, before: Walk) -> None:
        self.request, self.before = request, before
        self.stand_ins = [_stand_in(x) if isinstance(x, torch.Tensor) else x for x in request.leaves]
        self.versions, self.moved = Versions(before), Moved(before)
        self.stepped: list[torch.optim.Optimizer] = []
        self._randomness = Randomness()
        self.modules = set(sys.modules)
        self._hosts = _hosts.copies(before)

    def called(self, run: Run | None, blind: bool) -> tuple[Any, _differentiable.Gradients | None]:
        """What the function returns, and its gradients for the outside."""
        try:
            # A trace is the calling thread's: so backward has to run on it.
            with torch.autograd.set_multithreading_enabled(False), contextlib.ExitStack() as modes:
                if run is not None:
                    modes.enter_context(OnHost())
                hooks = modes.enter_context(_saved.taken_off())
                copies = modes.enter_context(_blind.blind()) if blind else None
                modes.enter_context(_files.noted(self.before))
                border = modes.enter_context(Border(self.before))
                modes.enter_context(replaced(self.before, _stand_ins(self.before)))
                modes.enter_context(self._randomness.followed(self.before))
                modes.enter_context(no_parametrized())
                modes.enter_context(self.request.variables.followed())
                with followed(self.before, run, self.stepped) as numbers, postponed(self.before):
                    for i, number in numbers.items():
                        self.stand_ins[i] = number
                    out = opened(self.request.call(self.stand_ins), self.before, self.request.place)
                self.moved.put_back()
                settle(self.before)
                settle_result(out)
                if copies is not None:
                    copies.finish(out)
                self._check()
                out, gradients = self._differentiated(out, border)
                if gradients is not None:
                    _saved.check(hooks, self.request.place)
                return out, gradients
        except Exception as error:
            settle_error(error, self.before)
            raise _Stopped(error) from error

    def _differentiated(self, out: Any, border: Border) -> tuple[Any, _differentiable.Gradients | None]:
        """The result, with the gradients of what is in it and of what was stored."""
        if not torch.is_grad_enabled():
            return out, None
        for path, t in with_graph(self.before):
            if not is_spent(t):
                raise refusal("graph", f": {path}", self.request.place)
        returned = distinct_tensors(flatten(out)[0])
        results, places = list(returned), []
        for place, t in stored(self.before):
            at = next((i for i, r in enumerate(results) if r is t), len(results))
            if at == len(results):
                results.append(t)
            places.append((place, at))
        gradients = _differentiable.joint(results, self.before, self.stand_ins, border, self.request.place)
        if gradients is not None:
            gradients.stored, gradients.not_returned = places, results[len(returned) :]
        return out, gradients

    def _check(self) -> None:
        """Refuses what the function did that no program can do."""
        request, before = self.request, self.before
        self._randomness.check(request.name, request.place)
        _check_hosts(request, before)
        _hosts.check_pointers(before, request.place)
        self.versions.check_graphs()
        # Again with what the program writes, once there is one; but before a gradient fails for the same reason.
        written_leaves(request, self.versions, self.moved)
        _check_gradients(request, self.stand_ins)
        check_generators(before, request.place)
        check_iterators(before, request.place)
        _sparse_jit.refuse_written(list(before.sparse.values()), request.place)

    def take_back(self) -> None:
        """Leaves everything as it was before."""
        _native.trace_abort()
        _sparse_jit.restore(self.before.sparse.values())
        undo(self.before)
        self.moved.put_back()
        self.versions.restore()
        _hosts.put_back(self.before, self._hosts)


def _stand_ins(before: Walk) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """What is another function while this trace runs."""
    yield from _batch_norm.places(before)
    yield from _clock.places(before)
    yield from _entropy.places()
    yield from _files.places()
    yield from _outside.places()
    yield from _ran.places()


def _stand_in(x: torch.Tensor) -> torch.Tensor:
    """A tensor of the middle of somebody's graph is traced as a leaf, so that the trace's graph ends there."""
    return x.detach().requires_grad_() if x.requires_grad and not x.is_leaf else x


def _check_hosts(request: Request, before: Walk) -> None:
    for t, seen, path in before.hosts:
        if _native.host_seen(t) != seen:
            raise refusal("host", f": {path}", request.place)


def _check_gradients(request: Request, stand_ins: list[Any]) -> None:
    """Beyond an argument that stands for a tensor of the middle of a graph there is more to be differentiated."""
    for x, s, name in zip(request.leaves, stand_ins, request.names, strict=True):
        if isinstance(x, torch.Tensor) and s is not x and s.grad is not None:
            raise refusal("backward", f": {name}", request.place)
