"""Memory of tensors that end with a call: donated arguments, and tensors that others take the place of."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ._arguments import parameters_of
from ._jit_errors import JitError, error
from ._lazy_bits import lazy
from ._specs import OF_KNOWN, bare
from ._state import Walk
from ._storage import slot_of

Spec = tuple[Any, ...]


class Donate:
    """Which arguments of a function are donated: by index and by name, as the caller of ``jit`` listed them."""

    def __init__(self, fn: Callable[..., Any], listed: Any, static: Iterable[Any]) -> None:
        items = (listed,) if isinstance(listed, int | str) else tuple(listed)
        for item in items:
            if type(item) not in (int, str):
                raise TypeError(
                    f"jit: argument `donate`: got {item!r}, expected the index or the name of a parameter, or a tuple "
                    "of them"
                )
        self.parameters, positional, keywords = _parameters(fn)
        self.items = {self._resolved(i, fn, positional, keywords) for i in items}
        both = self.items & {self._resolved(i, fn, True, True) for i in static}
        if both:
            raise ValueError(
                f"jit: argument `donate`: got {next(iter(both))!r}, which is a static argument too; expected an "
                "argument with tensors"
            )

    def _resolved(self, item: Any, fn: Any, positional: bool, keywords: bool) -> Any:
        known = self.parameters
        if isinstance(item, int):
            if item < 0 and known and not positional:
                item += len(known)
            if 0 <= item < len(known):
                return known[item]
            if item >= 0 and (positional or not known):
                return item
        elif item in known or keywords or not known:
            return item
        raise ValueError(
            f"jit: argument `donate`: got {item!r}, expected the index or the name of one of the parameters "
            f"({', '.join(known)}) of {getattr(fn, '__name__', type(fn).__name__)}"
        )

    def __bool__(self) -> bool:
        return bool(self.items)

    def has(self, position: int | None, name: str | None) -> bool:
        """Whether the argument at this position, or of this name, is donated."""
        if position is not None:
            name = self.parameters[position] if position < len(self.parameters) else None
        return (name if name is not None else position) in self.items


def _parameters(fn: Callable[..., Any]) -> tuple[list[str], bool, bool]:
    """Names of the parameters, and whether it takes more by position and by name."""
    found = parameters_of(fn)
    if found is None:
        return [], True, True
    kinds = {p.kind for p in found}
    names = [p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return names, inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds


def check(before: Walk, donated: set[int], place: str) -> None:
    """Refuses to take tensors that somebody needs afterwards. ``donated`` are indices of arguments."""
    slots: dict[int, str] = {}
    for i in donated:
        t, path, _ = before.tensors[i]
        if t.requires_grad:
            why = "requires grad, and its graph needs its value"
            raise _refused(place, path, why, f"donate `{path}.detach()`, or leave it out")
        if s := slot_of(t):
            slots[s] = path
    if not slots:
        return
    for i, (t, path, _) in enumerate(before.tensors):
        if i not in donated and slot_of(t) in slots:
            raise _shared(place, slots[slot_of(t)], path)
    for site in before.sites:
        for key, item in zip(site.keys, site.items, strict=True):
            for i in item[1] if type(item) is tuple and item[0] == "pack" else [item]:
                if type(i) is int and (s := slot_of(before.tensors[i][0])) in slots:
                    raise _shared(place, slots[s], site.name(key))


def _shared(place: str, path: str, other: str) -> JitError:
    return _refused(
        place,
        path,
        f"is `{other}` too, or shares its memory with it, which the function can reach and would find without a value",
        f"pass `{path}.clone()`, or leave `{path}` out (the memory of state that the function changes is used again by "
        "itself)",
    )


def _refused(place: str, path: str, why: str, way: str) -> JitError:
    return error(f"argument `{path}` is donated, but it {why}. Way out: {way} of `donate`.", place)


def given_away(before: Walk, donated: set[int], specs: Iterable[Spec], kept: list[torch.Tensor], name: str) -> Any:
    """Cells of the donated arguments that end with the call, with what a later use of them is told. One that the
    function hands back or keeps does not end."""
    if not donated:
        return []
    alive = {slot_of(t) for t in kept}
    alive |= {slot_of(before.tensors[spec[1]][0]) for spec in specs if spec[0] in OF_KNOWN}
    found: dict[int, str] = {}
    for i in donated:
        t, path, _ = before.tensors[i]
        if (s := slot_of(t)) and s not in alive:
            found[s] = (
                f"this tensor was argument `{path}` of the jit program {name}, to which it was donated: its memory "
                f"holds something else now. Way out: use what {name} returned, pass `{path}.clone()`, or leave "
                f"`{path}` out of `donate`"
            )
    return list(found.items())


def renewed(before: Walk, effects: list[Any], specs: Iterable[Spec]) -> list[tuple[int, int]]:
    """Tensors whose place a new one takes, as cell and number of the new one, where that goes nowhere else."""
    uses = Counter(spec[1] for spec in specs if spec[0] == "new")
    found = []
    for _, _, _, made, replaced in effects:
        spec = bare(made)
        if replaced is None or spec[0] != "new" or uses[spec[1]] > 1:
            continue
        if s := slot_of(before.tensors[replaced][0]):
            found.append((s, spec[1]))
    return found


def replaced(before: Walk, shares: Counter[int], old: Any, new: Any) -> int | None:
    """The known tensor ``old`` whose value may become that of ``new``, which takes its place: one of the same geometry
    whose memory no other known tensor shares. ``shares`` counts the known tensors of each cell. A leaf is its own
    tensor at each call: gradients of the last one are not its."""
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor) or old.device.type != "pjrt":
        return None
    if new.is_leaf and (new.requires_grad or new.grad is not None):
        return None
    i = before.index.get(id(old))
    kinds = [
        (t.dtype, t.shape, t.stride(), t.storage_offset(), t.requires_grad, type(t), lazy(t), {*vars(t)})
        for t in (old, new)
    ]
    if i is None or kinds[0] != kinds[1] or any(vars(new)[k] is not v for k, v in vars(old).items()):
        return None
    return i if shares[slot_of(old)] == 1 else None
