"""``torch.optim.LBFGS.step`` inside a trace: torch's algorithm, with its loops and branches in the program.

Conditions and their order are those of ``torch/optim/lbfgs.py``. What is a Python float there (the loss, the length of
a step) is a float64 here, which takes the dtype of the gradient where it meets a tensor, as Python's floats do.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.optim import Optimizer

from . import _native
from ._jit_errors import refusal
from ._lbfgs_state import hidden, tensors_of
from ._numbers import Followed
from ._regions import Carried, Region
from ._replaced import put
from ._wolfe import strong_wolfe


def scalar(x: Any, dtype: torch.dtype) -> torch.Tensor:
    """A number as a tensor of the device. One that is followed stays followed."""
    if isinstance(x, torch.Tensor):
        return x.detach().reshape(()).to("pjrt", dtype)
    return torch.full((), x, dtype=dtype, device="pjrt")


class Run:
    """One step."""

    def __init__(self, optimizer: torch.optim.LBFGS, closure: Any) -> None:
        group = optimizer.param_groups[0]
        self.optimizer, self._closure = optimizer, closure
        self.maximize = group.get("maximize", False)
        self.max_iter, self.max_eval, self.history = group["max_iter"], group["max_eval"], group["history_size"]
        if self.history < 1:
            raise refusal("lbfgs", f" (history_size={self.history} leaves no room for a step)")
        self.state = tensors_of(optimizer)
        self.lr = scalar(group["lr"], torch.float64)
        self.lends = isinstance(group["lr"], torch.Tensor)
        self.dtype = self.state.d.dtype
        self.tolerance_grad = scalar(group["tolerance_grad"], self.dtype)
        self.tolerance_change = scalar(group["tolerance_change"], torch.float64)
        self.search = group["line_search_fn"]
        if self.search not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        if self.search is not None and self.max_eval < 1 <= self.max_iter:
            raise refusal("lbfgs", f" (max_eval={self.max_eval} leaves none to the line search)")

    def step(self) -> Any:
        """Returns what the closure returned first."""
        first = self._closure()
        grad = self.flat_grad()
        if grad.dtype != self.dtype or grad.device.type != "pjrt":
            raise refusal("lbfgs", f" (the gradient is {grad.dtype} on {grad.device}, expected {self.dtype} on pjrt)")
        state = self.state
        state.func_evals.add_(1)
        if self.lends:
            state.t.copy_(torch.where(state.lent != 0, self.lr, state.t))
        self.call = Carried(self._closure, [(self._closure, "closure"), (self.optimizer, "optimizer")])
        self.now = SimpleNamespace(
            loss=self.loss(first).clone(),
            grad=grad.clone(),
            iterations=scalar(0, torch.int64),
            evaluations=scalar(1, torch.int64),
            go=~(grad.abs().max() <= self.tolerance_grad),
            q=torch.zeros_like(grad),
            i=scalar(0, torch.int64),
        )
        now = self.now
        self.region = Region([*vars(now).values(), *vars(state).values(), *self.optimizer._params], self.call.cells)
        if self.max_iter > 0:
            self.region.loop(lambda: now.go, self._iterate)
        return first

    # --- what the closure gives

    def loss(self, returned: Any) -> torch.Tensor:
        loss = scalar(returned, torch.float64)
        return -loss if self.maximize else loss

    def flat_grad(self) -> torch.Tensor:
        return self.optimizer._gather_flat_grad()

    def evaluate(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss and gradient at the parameters' values."""
        loss = self.loss(self.call())
        return loss, self.flat_grad()

    def move(self, t: torch.Tensor) -> None:
        """Adds ``t`` times the direction to the parameters."""
        self.optimizer._add_grad(Followed(_native.trace_read(t)), self.state.d)

    # --- the algorithm

    def _iterate(self) -> None:
        now, state = self.now, self.state
        now.iterations.add_(1)
        state.n_iter.add_(1)
        self._remember()
        self._direction()
        state.prev_flat_grad.copy_(now.grad)
        state.prev_loss.copy_(now.loss)
        least = 1.0 / now.grad.abs().sum()
        least = torch.where(least < 1.0, (least * self.lr.to(self.dtype)).double(), self.lr)
        state.t.copy_(torch.where(state.n_iter == 1, least, self.lr))
        self._lend()
        slope = now.grad.dot(state.d)
        now.go.copy_(~(slope > -self.tolerance_change.to(self.dtype)))
        self.region.choose(now.go, lambda: self._go_on(slope))

    def _row(self, i: torch.Tensor) -> torch.Tensor:
        """Where entry ``i`` of the history is, which begins anywhere and goes round."""
        at = self.state.start + i
        # A remainder would be checked for a division by zero.
        return torch.where(at >= self.history, at - self.history, at)

    def _remember(self) -> None:
        """Puts the last step into the history."""
        now, state = self.now, self.state
        y = now.grad - state.prev_flat_grad
        s = state.d * state.t.to(self.dtype)
        ys = y.dot(s)

        def keep() -> None:
            row = self._row(state.count)
            full = state.count == self.history
            for table, value in ((state.old_dirs, y), (state.old_stps, s), (state.ro, 1.0 / ys)):
                _native.trace_set_row(table, row, value)
            state.start.copy_(torch.where(full, self._row(full.long()), state.start))
            state.count.add_(~full)
            state.H_diag.copy_(ys / y.dot(y))

        self.region.choose((state.n_iter > 1) & (ys > 1e-10), keep)

    def _direction(self) -> None:
        """The gradient times the approximate inverse Hessian. Without a history that is the gradient itself."""
        now, state = self.now, self.state
        row = _native.trace_row

        def backward() -> None:
            at = self._row(now.i)
            al = row(state.old_stps, at).dot(now.q) * row(state.ro, at)
            _native.trace_set_row(state.al, now.i, al)
            now.q.sub_(row(state.old_dirs, at) * al)
            now.i.sub_(1)

        def forward() -> None:
            at = self._row(now.i)
            be = row(state.old_dirs, at).dot(state.d) * row(state.ro, at)
            state.d.add_(row(state.old_stps, at) * (row(state.al, now.i) - be))
            now.i.add_(1)

        now.q.copy_(-now.grad)
        now.i.copy_(state.count - 1)
        Region([now.q, now.i, state.al]).loop(lambda: now.i >= 0, backward)
        state.d.copy_(now.q * state.H_diag)
        now.i.zero_()
        Region([state.d, now.i]).loop(lambda: now.i < state.count, forward)

    def _lend(self) -> None:
        """Notes whether the step's length is the very tensor of the learning rate, whose changes it then follows."""
        if self.lends:
            self.state.lent.copy_((self.state.n_iter != 1) & (self.state.t == self.lr))

    def _go_on(self, slope: torch.Tensor) -> None:
        """Moves, evaluates, and decides whether to iterate."""
        now, state = self.now, self.state
        if self.search is not None:
            strong_wolfe(self, slope)
            self._lend()
            self.move(state.t)
        else:
            self.move(state.t)

            def again() -> None:
                loss, grad = self.evaluate()
                now.loss.copy_(loss)
                now.grad.copy_(grad)
                now.evaluations.add_(1)
                state.func_evals.add_(1)

            # After the last iteration nobody needs it.
            self.region.choose(now.iterations != self.max_iter, again)
        small = self.tolerance_change.to(self.dtype)
        stop = (now.iterations == self.max_iter) | (now.evaluations >= self.max_eval)
        stop |= now.grad.abs().max() <= self.tolerance_grad
        stop |= (state.d * state.t.to(self.dtype)).abs().max() <= small
        stop |= (now.loss - state.prev_loss).abs() < self.tolerance_change
        now.go.copy_(~stop)


@torch.no_grad()
def _step(optimizer: torch.optim.LBFGS, closure: Any) -> Any:
    closure = torch.enable_grad()(closure)
    if not optimizer._params:
        return closure()
    return Run(optimizer, closure).step()


def _counted(step: Any) -> Any:
    """What a scheduler's function does too: it tells that there was a step."""

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._opt_called = True
        return step(self, *args, **kwargs)

    return counted


_current = threading.local()
"""``reached``: the optimizers that the trace of this thread reaches, and those of them that it steps."""


@contextlib.contextmanager
def replaced(optimizers: list[Optimizer], stepped: list[Optimizer]) -> Iterator[None]:
    """Puts the step of this module in the place of torch's while a function is traced, which reaches ``optimizers``.
    Those that it steps are added to ``stepped``."""
    found = [o for o in optimizers if isinstance(o, torch.optim.LBFGS)]
    outer, _current.reached = getattr(_current, "reached", None), (found, stepped)
    put_back = put([(torch.optim.LBFGS, "step", _stepping)])
    step: Any = torch.optim.LBFGS.step
    # A scheduler puts a function around the step that it found.
    wrapped = [o for o in found if "step" in vars(o) and inspect.unwrap(type(o).step) is inspect.unwrap(step)]
    before = [vars(o)["step"] for o in wrapped]
    for o in wrapped:
        o.step = types.MethodType(_counted(step), o)  # type: ignore[method-assign]
    try:
        with hidden(found):
            yield
    finally:
        _current.reached = outer
        put_back()
        for o, was in zip(wrapped, before, strict=True):
            o.step = was  # type: ignore[method-assign]


@functools.lru_cache(maxsize=4)
def _stepping(theirs: Any) -> Any:
    """torch's ``step``, or, on a thread that traces, the one of this module."""

    def traced(self: torch.optim.LBFGS, closure: Any) -> Any:
        found, stepped = _current.reached
        if not any(self is o for o in found):
            raise refusal("lbfgs")
        if not any(self is o for o in stepped):
            stepped.append(self)
        return _step(self, closure)

    hooked = Optimizer.profile_hook_step(traced)

    @functools.wraps(theirs)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        traces = getattr(_current, "reached", None) is not None
        return (hooked if traces else theirs)(self, *args, **kwargs)

    return step
