"""A program with all that a call of it needs."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from . import _differentiable, debug
from ._afterwards import Afterwards
from ._changes import Place
from ._flatten import template
from ._floats import Result

TENSOR = object()
"""Stands for a tensor in the structure that a function returns."""


class Again(NamedTuple):
    """Stands there for a tensor that was there before, as leaf number ``at``."""

    at: int


class Traced:
    """A program with all that a call of it needs."""

    def __init__(
        self,
        name: str,
        native: Any,
        program: Any,
        backward: Any,
        structure: tuple[list[Any], Any],
        gradients: Any,
        prints: list[Any],
        afterwards: Afterwards,
    ) -> None:
        self.name, self.native, self.program, self.backward = name, native, program, backward
        self.gradients, self._prints, self.afterwards = gradients, prints, afterwards
        self.stepped: list[torch.optim.Optimizer] = []
        """Optimizers whose state has a form of its own for programs: ``_lbfgs_state.ready`` before each run."""
        self.writes: set[int] = set()
        """Leaves that it writes to."""
        self.shared: list[tuple[Place, int | Place]] = []
        """Places of tensors that are a result of this number too, or that this other place has."""
        self.not_returned = 0
        """How many results are stored, but not returned."""
        self.lasting = ""
        """What the function changed in Python; such a program cannot serve another call."""
        self._out_static, self._out_spec = structure

    def run(self, leaves: list[Any], tensors: list[torch.Tensor], floats: list[float]) -> Any:
        """The function's result, or in a string why this program does not fit."""
        out = self.native.call(tensors, floats)
        if type(out) is str:
            return out
        results, residuals, known = out
        return self.complete(results, residuals, known, floats)

    def complete(self, results: list[Any], residuals: Any, known: list[Any], floats: list[float]) -> Any:
        """The function's result, from what a run gave."""
        if self.backward is not None:
            results = _differentiable.attach(self, known, results, residuals)
            for place, i in self.gradients.stored:
                place.put(results[i])
        for place, of in self.shared:
            place.put(of.get() if isinstance(of, Place) else results[of])
        numbers = self.afterwards.numbers(floats)
        out = self.result(results, numbers)
        self.afterwards.happen(numbers)
        return out

    @functools.cached_property
    def template(self) -> Any:
        """The structure of the result, where nothing but the tensors differs from call to call."""
        varies = (
            self.backward is not None
            or self._prints
            or self.afterwards
            or self.shared
            or any(type(x) in (Result, Again) for x in self._out_static)
        )
        return None if varies else template(self._out_static, self._out_spec, TENSOR)

    def result(self, tensors: list[Any], floats: list[float]) -> Any:
        """Puts result tensors into the structure that the function returned."""
        it = iter(tensors)
        leaves: list[Any] = []
        for x in self._out_static:
            if type(x) is Again:
                x = leaves[x.at]
            leaves.append(next(it) if x is TENSOR else x.at(floats) if type(x) is Result else x)
        if self._prints and tensors and tensors[0].device.type != "meta":
            debug.show(self._prints, list(it)[self.not_returned :])
        return pytree.tree_unflatten(leaves, self._out_spec)
