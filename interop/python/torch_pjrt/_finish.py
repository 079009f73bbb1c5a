"""The end of a trace: the program, and what a call of it has to find, to change and to give back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

import torch

from . import _differentiable, _donation, _hosts, _native, _sparse_jit, debug
from ._afterwards import Afterwards
from ._changes import Place, changes, check_steady, settle_renewed, tensors_in, undo
from ._dressed import without_graph
from ._flatten import distinct_tensors, flatten
from ._floats import Result, result
from ._jit_errors import error
from ._moved import Moved
from ._opened import Same
from ._request import Request
from ._settled import settled
from ._specs import OF_KNOWN, Specs, bare
from ._state import Walk
from ._storage import slot_of
from ._traced import TENSOR, Again, Traced
from ._versions import Versions, written_leaves


def finish(
    request: Request,
    out: Any,
    before: Walk,
    gradients: _differentiable.Gradients | None,
    versions: Versions,
    moved: Moved,
) -> tuple[Traced, Any]:
    """Ends the trace of a function that returned ``out``. Returns its program and, once that has run, its result."""
    not_returned = [] if gradients is None else gradients.not_returned
    left, cells = _Left(request, out, not_returned, before, moved), _Cells(before, versions)
    left.effects += versions.marked()
    kept = [t.detach() for s, t in _native.trace_keep() if s not in cells.places and not _native.trace_is_born(s)]
    donated = _donation.given_away(before, request.donated_tensors, left.all_specs, left.kept, request.name)
    finished = _native.trace_finish(
        request.name,
        list(cells.places.items()),
        cells.names,
        [n.path for n in before.numbers],
        left.specs.new,
        (gradients.mark, gradients.slots) if gradients is not None else None,
        donated,
        _donation.renewed(before, left.effects, left.all_specs),
        request.options,
    )
    writes = written_leaves(request, versions, moved, cells.at(finished.written))
    if gradients is not None:
        gradients.alive.clear()
        gradients.not_returned = []
    sites = _sites(before, left, cells.at(finished.used))
    sites += [s.row(set()) for s in request.variables.sites(before)]
    written = sorted({*cells.tensors({s for s, _ in donated}), *versions.written()})
    if not request.run:
        undo(before)
        versions.restore()
    native = _native.Entry(
        finished.forward,
        cells.table,
        sites,
        before.objects,
        before.classes,
        len(cells.places),
        [n.path for n in before.numbers],
        left.result_specs,
        left.effects,
        written,
        len(left.specs.new),
        gradients is not None,
        kept,
    )
    forward, backward = finished.forward, finished.backward
    traced = Traced(request.name, native, forward, backward, left.structure, gradients, left.prints, left.afterwards)
    traced.writes, traced.not_returned, traced.shared = writes, left.not_returned, left.shared
    if not request.run:
        numbers = left.afterwards.numbers(request.floats)
        return traced, traced.result([_sparse_jit.meta(t) for t in left.results], numbers)
    _hosts.warn_if_much(before, request.place)
    residuals = native.first(list(cells.places), [n.value for n in before.numbers], left.specs.new)
    moved.again()
    left.trim()
    traced.lasting = ", ".join(sorted({*(c.path() for c in left.lasting), *left.files}))
    return traced, traced.complete(left.results, residuals, [t for t, _, _ in before.tensors], request.floats)


class _Left:
    """What a function left behind, each tensor with where it comes from."""

    def __init__(
        self, request: Request, out: Any, not_returned: list[torch.Tensor], before: Walk, moved: Moved
    ) -> None:
        leaves, spec = flatten(out)
        for x in leaves:
            if issubclass(type(x), Iterator | Coroutine | AsyncIterator):
                raise error(
                    f"it returned a {type(x).__name__}, whose code would run outside of the "
                    "program, once for all calls. Way out: return a list, or wrap the function that it calls.",
                    request.place,
                )
        first = {id(x): i for i, x in reversed([*enumerate(leaves)]) if isinstance(x, torch.Tensor)}
        static = [_static(x, before) if first.get(id(x), i) == i else Again(first[id(x)]) for i, x in enumerate(leaves)]
        self.structure = static, spec
        """The result with marks for its tensors: its leaves, and how they hang together."""
        self.afterwards = Afterwards(before)
        self.specs = Specs(before)
        self.prints = debug.take()
        returned = distinct_tensors(leaves)
        self.results = [without_graph(t) for t in returned]
        """Tensors of the result, after them others with a graph, and those to be printed."""
        self.results += [without_graph(t) for t in not_returned]
        self.not_returned = len(not_returned)
        self.results += [v for _, values in self.prints for v in values if isinstance(v, torch.Tensor)]
        self.result_specs = [self.specs.of(t) for t in self.results]
        self.effects: list[Any] = []
        """What a call puts where, as ``Entry`` takes it."""
        self.shared: list[tuple[Place, int | Place]] = []
        """Places that hold what is a result too, or what another place holds; with that."""
        self._holders: dict[int, int | Place] = {id(t): i for i, t in enumerate(returned)}
        self._assigned: list[tuple[Any, Any]] = []
        self._find_changes(before, moved)
        if request.run:
            self.files = before.files.changed()
            """Those that the function both read and changed."""
            check_steady(self.lasting, self.afterwards.unsteady, self.files, request.unsteady, request.place)
            for t in self.kept:
                self.specs.of(t)

    def _find_changes(self, before: Walk, moved: Moved) -> None:
        lasting = []
        settle_renewed(before)
        for c in changes(before):
            if c.assigns_tuple:
                specs = [self.specs.of(t) for t in c.after]
                if all(s[0] != "object" for s in specs):
                    self.effects.append((c.site.container, c.site.kind == "attr", c.key, ("pack", specs), None))
                    continue
            if not c.assigns_tensor:
                lasting.append(c)
                continue
            spec = self.specs.of(c.after) if isinstance(c.after, torch.Tensor) else ("object", None)
            new = bare(spec)[0] == "new"
            replaced = _donation.replaced(before, self.specs.shares, c.before, c.after) if new else None
            if spec[0] not in ("known", "object"):
                place = c.place
                if (holder := self._holders.setdefault(id(c.after), place)) is not place:
                    self.shared.append((place, holder))
                    replaced = None
            self.effects.append((c.site.container, c.site.kind == "attr", c.key, spec, replaced))
            self._assigned.append((c.after, spec))
        self.effects += [(t, True, "data", self.specs.of(new), None) for t, new in moved.now]
        for i, (t, path, _) in enumerate(before.tensors):
            if i not in before.with_attributes:
                self.effects += [(t, True, k, self._attribute(v, f"{path}.{k}"), None) for k, v in vars(t).items()]
        self.lasting = lasting
        """Changes that only Python can make."""
        self.kept, sparse = tensors_in(self.lasting)
        """Tensors that such changes keep."""
        self._sparse = [(t, _sparse_jit.spec(t, self.specs.of)) for t in sparse]

    def _attribute(self, value: Any, path: str) -> Any:
        """An attribute that a tensor gets."""
        if isinstance(value, torch.Tensor):
            return self.specs.of(value)
        if type(result(value)) is Result or any(isinstance(x, torch.Tensor) for x in flatten(value)[0]):
            raise error(
                f"`{path}` gets a value that is computed at each call. Way out: return it, or keep a tensor there.",
                "",
            )
        return ("object", value)

    @property
    def all_specs(self) -> list[Any]:
        """Where all tensors of results and effects come from."""
        return _sparse_jit.flat([*self.result_specs, *(e[3] for e in self.effects)])

    def trim(self) -> None:
        """Takes the padding out of the sparse tensors, once the program has run."""
        _sparse_jit.trim([*zip(self.results, self.result_specs, strict=True), *self._assigned, *self._sparse])


def _static(x: Any, before: Walk) -> Any:
    """A leaf of the result, as far as it is the same at each call."""
    return TENSOR if isinstance(x, torch.Tensor) else x.it if type(x) is Same else settled(result(x), before)


class _Cells:
    """The cells of the tensors that a function can reach, each with its place among the program's."""

    def __init__(self, before: Walk, versions: Versions) -> None:
        self.places: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.table: list[Any] = []
        """The tensors as ``Entry`` takes them."""
        self._slots = [slot_of(t) for t, _, _ in before.tensors]
        for i, (s, (t, path, leaf)) in enumerate(zip(self._slots, before.tensors, strict=True)):
            place = self.places.setdefault(s, len(self.places)) if s else None
            own = i in before.with_attributes, i in before.with_hooks, versions.required_grad(i)
            self.table.append((t, path, place, leaf, own))
            self.names.setdefault(s, path)

    def at(self, places: list[int]) -> set[int]:
        """The cells at these places."""
        wanted = set(places)
        return {s for s, place in self.places.items() if place in wanted}

    def tensors(self, slots: set[int]) -> list[int]:
        """The tensors over these cells, as indices."""
        return [i for i, s in enumerate(self._slots) if s in slots]


def _sites(before: Walk, left: _Left, used: set[int]) -> list[Any]:
    """The containers as ``Entry`` guards them. ``used`` are the cells that the program reads or writes."""
    used = used | {slot_of(before.tensors[s[1]][0]) for s in left.all_specs if s[0] in OF_KNOWN}
    drop = _idle_gradients(before, left.effects, used)
    # To ask for files lets other threads run: first, before tensors are found that these may drop.
    return [*before.files.rows(), *(s.row(used) for s in before.sites if s not in drop)]


def _idle_gradients(before: Walk, effects: list[Any], used: set[int]) -> set[Any]:
    """The ``grad`` of tensors, where the function neither reads nor writes one nor can tell whether there is one.
    ``used`` are the cells that the program reads."""
    gradients = {s for s in before.sites if s.kind == "attr" and s.keys == ["grad"]}
    touched = {id(e[0]) for e in effects}
    for s in gradients:
        g = s.values[0]
        if isinstance(g, torch.Tensor) and g.is_sparse and g.device.type == "pjrt":
            in_use = before.sparse[id(g)].in_use(used)
        else:
            in_use = isinstance(g, torch.Tensor) and g.device.type == "pjrt" and slot_of(g) in used
        if in_use or id(s.container) in touched:
            return set()
    return set() if before.names_gradients else gradients
