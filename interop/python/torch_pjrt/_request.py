"""What is to be traced: a function with the arguments of one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from ._arguments import Static
from ._jit_errors import place_of
from ._sites import Number
from ._state import Walk
from ._variables import Variables
from ._varying import Varying


@dataclasses.dataclass
class Request:
    """What is to be traced."""

    call: Callable[[list[Any]], Any]
    """The function, of the leaves of its arguments."""
    name: str
    roots: list[tuple[Any, str]]
    leaves: list[Any]
    names: list[str]
    """How the user calls each leaf."""
    donated: set[int]
    """Which leaves are donated."""
    hosts: set[int]
    """Which leaves are copies: of CPU tensors, or padded."""
    options: list[tuple[str, Any]]
    unsteady: dict[str, int]
    varying: Varying
    variables: Variables
    run: bool

    def walk(self) -> Walk:
        """What the function can reach now."""
        named = list(zip(self.leaves, self.names, strict=True))
        floats = [Number(None, i, x, n, False) for i, (x, n) in enumerate(named) if type(x) is float]
        w = Walk([(x, n) for x, n in named if isinstance(x, torch.Tensor)], floats, self.varying)
        for value, path in self.roots:
            w.root(value, path)
        for x, n in named:
            if isinstance(x, Static):
                for v in x.itself():
                    w.root(v, n)
            elif not isinstance(x, torch.Tensor | float):
                w.root(x, n)
        w.libraries.tensors(w.names)
        w.sites += w.libraries.sites
        w.classes += w.libraries.classes
        return w

    @property
    def place(self) -> str:
        """Where the function is, and its name."""
        return place_of(self.roots[0][0]) + self.name

    @property
    def floats(self) -> list[float]:
        return [x for x in self.leaves if type(x) is float]

    @property
    def donated_tensors(self) -> set[int]:
        """The donated leaves as indices among the tensors."""
        tensors = [i for i, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)]
        return {k for k, i in enumerate(tensors) if i in self.donated}
