"""The strong Wolfe line search of ``torch.optim.LBFGS`` inside a trace.

torch brackets a step length in one loop and narrows the bracket in another. Here one loop does both, so that the
closure is in the program once: each round evaluates at ``t``, does what the phase says, and chooses the next ``t``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

_C1, _C2 = 1e-4, 0.9


def _larger(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Python's ``max``, which prefers its first argument."""
    return torch.where(b > a, b, a)


def _smaller(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where(b < a, b, a)


def _cubic(x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None) -> torch.Tensor:
    """The minimum of the cubic through two points with slopes; positions and values are float64, slopes are not."""
    dtype = g1.dtype
    ordered = x1 <= x2
    least, most = bounds or (torch.where(ordered, x1, x2), torch.where(ordered, x2, x1))
    d1 = g1 + g2 - (3 * (f1 - f2) / (x1 - x2)).to(dtype)
    square = d1 * d1 - g1 * g2
    d2 = square.sqrt()
    up = x2.to(dtype) - (x2 - x1).to(dtype) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    down = x1.to(dtype) - (x1 - x2).to(dtype) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    found = _smaller(_larger(torch.where(ordered, up, down).double(), least), most)
    return torch.where(square >= 0, found, (least + most) / 2.0)


class _Search:
    """One search. Which point of a bracket is the low one is in ``second``: whether it is the second."""

    def __init__(self, run: Any, slope: torch.Tensor) -> None:
        self.run, self.slope = run, slope
        now, state = run.now, run.state
        self.loss, self.grad = now.loss.clone(), now.grad.clone()
        self.x = run.optimizer._clone_param()
        self.reach = state.d.abs().max()
        self.most = run.max_eval - now.evaluations
        zero = torch.zeros_like(self.loss)
        self.vars = SimpleNamespace(
            t=state.t.clone(),
            evaluations=torch.zeros_like(now.evaluations),
            going=torch.ones_like(now.go),
            zooming=torch.zeros_like(now.go),
            slow=torch.zeros_like(now.go),
            second=torch.zeros_like(now.go),
            t_prev=zero.clone(),
            f_prev=self.loss.clone(),
            g_prev=self.grad.clone(),
            s_prev=slope.clone(),
        )
        for side in "01":
            for name, like in (("t", zero), ("f", zero), ("g", self.grad), ("s", slope)):
                setattr(self.vars, name + side, torch.zeros_like(like))
        self.region = run.region.with_tensors(vars(self.vars).values())

    def find(self) -> None:
        v, now, state = self.vars, self.run.now, self.run.state
        self.region.loop(lambda: v.going, self._round)
        state.t.copy_(torch.where(v.second, v.t1, v.t0))
        now.loss.copy_(torch.where(v.second, v.f1, v.f0))
        now.grad.copy_(torch.where(v.second, v.g1, v.g0))
        now.evaluations.add_(v.evaluations)
        state.func_evals.add_(v.evaluations)

    def _put(self, side: str, point: tuple[Any, Any, Any, Any]) -> None:
        for name, value in zip("tfgs", point, strict=True):
            getattr(self.vars, name + side).copy_(value)

    def _point(self, side: str) -> tuple[Any, Any, Any, Any]:
        return tuple(getattr(self.vars, name + side).clone() for name in "tfgs")  # type: ignore[return-value]

    def _round(self) -> None:
        v, run = self.vars, self.run
        run.move(v.t)
        loss, grad = run.evaluate()
        run.optimizer._set_param(self.x)
        v.evaluations.add_(1)
        slope = grad.dot(run.state.d)
        limit = self.loss.to(run.dtype) + (_C1 * v.t).to(run.dtype) * self.slope
        high = loss.to(run.dtype) > limit
        flat = slope.abs() <= -_C2 * self.slope
        # torch counts from the second evaluation on.
        left = v.evaluations - 1 < self.most
        point = (v.t.clone(), loss, grad, slope)

        def bracket() -> None:
            self._bracket(point, high, flat, left)

        def zoom() -> None:
            self._zoom(point, high, flat)

        self.region.choose(v.zooming, zoom, bracket)
        self.region.choose(v.going & v.zooming, lambda: self._narrow(left))

    def _bracket(self, point: tuple[Any, Any, Any, Any], high: Any, flat: Any, left: Any) -> None:
        """Looks for two points with a good one between them. Ends with ``zooming``, or with a point to take."""
        v = self.vars
        t, loss, _, slope = point
        high = high | ((v.evaluations > 2) & (loss >= v.f_prev))
        between = left & (high | (~flat & (slope >= 0)))
        good = left & ~high & flat

        def end() -> None:
            before = (v.t_prev, v.f_prev, v.g_prev, v.s_prev)
            begin = (torch.zeros_like(t), self.loss, self.grad, self.slope)
            chosen = zip(before, point, begin, strict=True)
            self._put("0", tuple(torch.where(between, a, torch.where(good, b, c)) for a, b, c in chosen))  # type: ignore[arg-type]
            self._put("1", point)
            v.second.copy_(~(v.f0 <= v.f1))
            v.zooming.copy_(between)
            v.going.copy_(between)

        def further() -> None:
            bounds = (t + 0.01 * (t - v.t_prev), t * 10)
            v.t.copy_(_cubic(v.t_prev, v.f_prev, v.s_prev, t, loss, slope, bounds))
            for name, value in zip("tfgs", point, strict=True):
                getattr(v, name + "_prev").copy_(value)

        self.region.choose(~left | between | good, end, further)

    def _zoom(self, point: tuple[Any, Any, Any, Any], high: Any, flat: Any) -> None:
        """Puts the point into the bracket."""
        v = self.vars
        _, loss, _, slope = point
        high = high | (loss >= torch.where(v.second, v.f1, v.f0))

        def worse() -> None:
            self.region.choose(v.second, lambda: self._put("0", point), lambda: self._put("1", point))
            v.second.copy_(~(v.f0 <= v.f1))

        def better() -> None:
            span = torch.where(v.second, v.t0 - v.t1, v.t1 - v.t0).to(slope.dtype)
            across = ~flat & (slope * span >= 0)

            def instead(low: str, other: str) -> None:
                self.region.choose(across, lambda: self._put(other, self._point(low)))
                self._put(low, point)

            self.region.choose(v.second, lambda: instead("1", "0"), lambda: instead("0", "1"))
            v.going.copy_(~flat)

        self.region.choose(high, worse, better)

    def _narrow(self, left: Any) -> None:
        """The next length to try inside the bracket, unless that is small enough."""
        v, dtype = self.vars, self.slope.dtype
        v.going.copy_(left & ~((v.t1 - v.t0).abs().to(dtype) * self.reach < self.run.tolerance_change.to(dtype)))
        t = _cubic(v.t0, v.f0, v.s0, v.t1, v.f1, v.s1)
        most, least = _larger(v.t0, v.t1), _smaller(v.t0, v.t1)
        margin = 0.1 * (most - least)
        near = _smaller(most - t, t - least) < margin
        away = near & (v.slow | (t >= most) | (t <= least))
        inner = torch.where((t - most).abs() < (t - least).abs(), most - margin, least + margin)
        v.t.copy_(torch.where(away, inner, t))
        v.slow.copy_(near & ~away)


def strong_wolfe(run: Any, slope: torch.Tensor) -> None:
    """Finds how far to go along the direction: ``state.t``, with loss and gradient there."""
    _Search(run, slope).find()
