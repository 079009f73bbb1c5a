"""``jit``: a whole function, or a whole training step, as one program."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import _native
from ._arguments import Arguments, Static, describe, leaf_difference, leaf_names, leaf_paths, static_parameters
from ._buckets import Buckets, powers_of_two
from ._donation import Donate
from ._edits import Edited, Given
from ._face import Face
from ._flatten import flatten
from ._jit_errors import place_of
from ._lbfgs_state import ready
from ._methods import Table, bound, check
from ._modes_key import NAMES, modes
from ._request import Request
from ._retraces import Retraces
from ._sparse_jit import refuse_argument
from ._trace import trace
from ._traced import Traced
from ._variables import Variables
from ._varying import Varying

_MISSED = object()


def _moved(t: torch.Tensor) -> torch.Tensor:
    return t.to("pjrt")


def _unmoved(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the device, without values, like the one that :func:`_moved` gives."""
    made = torch.empty_like(t, device="pjrt", requires_grad=t.requires_grad)
    return made.view_as(made) if t.requires_grad else made


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    """Counts of one jit function."""

    hits: int
    """Calls that a program served."""
    misses: int
    """Calls that traced."""
    entries: int
    """Programs kept."""
    reasons: tuple[str, ...]
    """Why each trace was made, in order; as many as there are misses."""


class JitFunction(Face):
    """What :func:`jit` returns. It is called as the function is, and returns what that returns, tensors on the device.

    A call raises what the function raises while it is traced, ``JitError`` for what cannot be traced, and afterwards
    what the device finds wrong; then every tensor and container is as it was before.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        static_argnums: Iterable[int] = (),
        static_argnames: Iterable[str] = (),
        options: dict[str, Any] | None = None,
        buckets: Callable[[Callable[..., Any]], Buckets] | None = None,
        donate: Any = (),
    ) -> None:
        check(fn)
        self._fn = fn
        self._static_nums, self._static_names = static_parameters(static_argnums, static_argnames, fn)
        self._options = list((options or {}).items())
        self._make_buckets = buckets
        self._buckets = buckets(fn) if buckets is not None and callable(fn) else None
        self._donate = Donate(fn, donate, (*self._static_nums, *self._static_names))
        self._entries: dict[Any, list[Traced]] = {}
        self._hits = 0
        self._fast = _native.Fast(modes, _MISSED, [n for n in self._static_nums if n >= 0], list(self._static_names))
        self._reasons: list[str] = []
        self._retraces = Retraces()
        self._last: Arguments | None = None
        self._made = ""
        self._unsteady: dict[str, int] = {}
        self._varying, self._variables = Varying(), Variables()
        self._stepped: list[Any] = []
        self.methods: Table = Table()
        """Those of objects that cannot keep theirs; see ``_methods.py``."""
        self.source: JitFunction | None = None
        """That of the class, for one that is bound to an object."""
        self.__wrapped__ = fn
        self._take_after(fn)
        self._complete = True

    def _given(self) -> tuple[Any, ...]:
        numbers, names = tuple(self._static_nums), tuple(self._static_names)
        return self._fn, numbers, names, dict(self._options), self._make_buckets, tuple(self._donate.items)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """In a class: what the function itself becomes there, with programs of its own for each object."""
        return bound(self, instance, owner)

    def of(self, target: Callable[..., Any], first: int) -> JitFunction:
        """What this is for ``target``, the function without its ``first`` parameters."""
        made = JitFunction(
            target,
            (n - first for n in self._static_nums if n >= first),
            self._static_names,
            dict(self._options),
            self._make_buckets,
            tuple(i - first if isinstance(i, int) else i for i in self._donate.items),
        )
        made.source = self
        return made

    # --- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _native.tracing():
            return self._fn(*args, **kwargs)
        if self._buckets is not None:
            args, kwargs, length, size = self._buckets.pad(args, kwargs)
            out = self._call(args, kwargs)
            return self._buckets.cut(out.given_to(args, kwargs) if type(out) is Edited else out, length, size)
        out = self._call(args, kwargs)
        return out if type(out) is not Edited else out.given_to(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for reference in self._stepped:
            if (optimizer := reference()) is not None:
                ready(optimizer)
        out = self._fast.call((args, kwargs))
        if out is not _MISSED:
            return out
        a = self._take_apart(args, kwargs)
        reason = None
        entries = self._entries.get(a.key)
        if entries:
            for i, entry in enumerate(entries):
                if not entry.writes.isdisjoint(a.hosts):
                    continue  # a trace says what is wrong
                out = entry.run(a.leaves, a.tensors, a.floats)
                if type(out) is not str:
                    self._hits += 1
                    if i:
                        entries.insert(0, entries.pop(i))
                    self._fast.add(args, kwargs, a.key[-1], entry.native, entry.template, entry)
                    return out
                reason = reason or out
        return self._miss(a, args, kwargs, reason)

    def _take_apart(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], move: Callable[[torch.Tensor], torch.Tensor] = _moved
    ) -> Arguments:
        """``move`` gives the tensor of the device for one of the CPU's."""
        if self._static_nums or self._static_names:
            args = tuple(self._static(v, i) if i in self._static_nums else v for i, v in enumerate(args))
            kwargs = {k: self._static(v, k) if k in self._static_names else v for k, v in kwargs.items()}
        given = args, kwargs
        leaves, spec = flatten(given)
        tensors: list[torch.Tensor] = []
        places: list[int] = []
        described = []
        hosts = set()
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                refuse_argument(leaf, self._fn, self.__name__)
                if leaf.device.type == "cpu":
                    leaves[i] = leaf = move(leaf)
                    hosts.add(i)
                places.append(i)
                tensors.append(leaf)
            described.append(describe(leaf))
        floats = [x for x in leaves if type(x) is float]
        return Arguments(leaves, spec, tensors, places, floats, hosts, (spec, tuple(described), modes()), given)

    def _static(self, value: Any, which: int | str) -> Static:
        return Static(value, f"{which!r} of {self.__name__}")

    def _miss(self, a: Arguments, args: Any, kwargs: Any, reason: str | None) -> Any:
        made, self._made = self._made, ""
        if made and self._last is not None and a.key == self._last.key:
            reason = f"the last call made or changed {made}"
        place = place_of(self._fn) + self.__name__
        if reason is None:
            reason = self._difference(a) + self._retraces.of_arguments(a, leaf_names(a, self._fn), place)
        elif not made:
            reason += self._retraces.of_state(reason, place)
        self._reasons.append(reason)
        self._last = a
        entry, out = self._trace(a)
        if entry is None:
            raise RuntimeError("jit: the trace made no program")
        known = [r() for r in self._stepped]
        self._stepped += [weakref.ref(o) for o in entry.stepped if not any(o is k for k in known)]
        if entry.lasting:
            self._made = entry.lasting
        else:
            self._keep(a.key, entry)
        return out

    def _keep(self, key: Any, entry: Traced) -> None:
        entries = self._entries.setdefault(key, [])
        entries.insert(0, entry)
        del entries[32:]
        if len(self._entries) > 64:
            self._entries.pop(next(iter(self._entries)))

    def _arguments(self, leaves: list[Any], spec: Any) -> tuple[Any, Any]:
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        if self._static_nums or self._static_names:
            args = tuple(v.value if isinstance(v, Static) else v for v in args)
            kwargs = {k: v.value if isinstance(v, Static) else v for k, v in kwargs.items()}
        return args, kwargs

    def _trace(self, a: Arguments, run: bool = True) -> tuple[Traced | None, Any]:
        def call(leaves: list[Any]) -> Any:
            args, kwargs = self._arguments(leaves, a.spec)
            given = Given(args, kwargs, {*self._static_nums, *self._static_names})
            return given.edited(self._fn(*args, **kwargs), *a.given, request.place)

        names = leaf_names(a, self._fn)
        hosts = set(a.hosts)
        if self._buckets is not None:
            pads = self._buckets.pads
            hosts |= {i for i in a.places if pads(names[i], a.leaves[i].dim())}
        request = Request(
            call,
            name=self.__name__,
            roots=[(self._fn, self.__name__)],
            leaves=a.leaves,
            names=names,
            donated=self._donated(a),
            hosts=hosts,
            options=self._options,
            unsteady=self._unsteady,
            varying=self._varying,
            variables=self._variables,
            run=run,
        )
        return trace(request)

    def _donated(self, a: Arguments) -> set[int]:
        """Leaves that are donated."""
        if not self._donate:
            return set()
        found = set()
        for i, path in enumerate(leaf_paths(a)):
            if len(path) > 1:
                k: Any = path[1]
                by_position = pytree.keystr(path[:1]) == "[0]"
                if self._donate.has(k.idx if by_position else None, None if by_position else k.key):
                    found.add(i)
        return found

    # --- what happened

    def _difference(self, a: Arguments) -> str:
        last = self._last
        if last is None:
            return "first call"
        (spec, leaves, mode), (spec0, leaves0, mode0) = a.key, last.key
        for name, now, was in zip(NAMES, mode, mode0, strict=True):
            if now != was:
                return f"{name}: {now}, was {was}"
        if spec != spec0:
            return "the structure of the arguments changed"
        names = leaf_names(a, self._fn)
        for i, (now, was) in enumerate(zip(leaves, leaves0, strict=True)):
            if now != was:
                return f"{names[i]}: {leaf_difference(now, was)}"
        return "the program was dropped"

    def cache_info(self) -> CacheInfo:
        """Hits, misses, entries, and why each trace was made."""
        entries = sum(map(len, self._entries.values()))
        return CacheInfo(self._hits + self._fast.hits, len(self._reasons), entries, tuple(self._reasons))

    def clear_cache(self) -> None:
        """Forgets the programs of this function."""
        self._entries.clear()
        self._fast.clear()
        self._last = None

    # --- without running

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Traces for these arguments and returns the program, uncompiled. Nothing is run and no state changes.

        Tensors on ``meta`` and on the CPU stand for tensors on ``pjrt`` of their shape, strides and dtype; no plugin is
        needed. Raises ``JitError`` as a call does.
        """
        from ._lowered import Lowered

        args, kwargs = pytree.tree_map_only(torch.Tensor, _concrete, (args, kwargs))
        a = self._take_apart(args, kwargs, _unmoved)
        entry, out = self._trace(a, run=False)
        return Lowered(entry, self, out.out if type(out) is Edited else out)


def _concrete(t: torch.Tensor) -> torch.Tensor:
    if t.device.type == "meta":
        made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="pjrt")
        return made.requires_grad_(t.requires_grad)
    return t


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate: int | str | Iterable[int | str] = (),
    compile_options: dict[str, Any] | None = None,
    pad_batch: int | Mapping[str, int] | None = None,
    bucket: Callable[[int], int] = powers_of_two,
) -> Any:
    """Compiles a function of tensors, a module, or a whole training step into one program.

    Everything that ``fn`` reaches (parameters, buffers, optimizer state, random state, tensors in closures) is read at
    each call, and what it changes is changed at each call: an ordinary training step needs no rewriting. A program is
    kept for each structure of the arguments, shape, dtype, static value and mode; it is traced anew when something that
    it took for granted has changed (see ``cache_info``).

    Arguments: tensors and floats in any pytree are inputs; ints, strings and other objects are static: another value is
    another program. Code that depends on the value of a float (``if x > 0``, ``math.sqrt(x)``) binds the program to
    what it saw. ``static_argnums`` and ``static_argnames`` make an argument static as a whole, compared by ``==``.
    ``donate`` lists arguments, by index or name, whose tensors the caller needs no longer: their memory may be used for
    results, and a later use of such a tensor raises ``RuntimeError``.
    ``compile_options`` are XLA's debug options, by name.

    ``pad_batch`` names the dim whose length varies, for all tensor arguments or by name. They are padded with zeros to
    ``bucket(length)``, by default the next power of two, so that few programs serve all lengths; results are cut back.
    If ``fn`` has a parameter ``valid`` it gets a bool mask of the bucket's size, true where data is: what mixes rows (a
    mean, attention) is exact when it uses the mask, what treats each row by itself is exact without.

    Raises ``JitError`` where ``fn`` does what cannot be traced, with the line and the way out. Usable as a decorator.
    """
    if fn is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate=donate,
            compile_options=compile_options,
            pad_batch=pad_batch,
            bucket=bucket,
        )
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    buckets = None if pad_batch is None else lambda f: Buckets(f, pad_batch, bucket)
    return JitFunction(fn, nums, names, compile_options, buckets, donate)


def explain(fn: JitFunction) -> None:
    """Prints why each trace of a jit function was made, and what its programs are."""
    info = fn.cache_info()
    print(f"{fn.__name__}: {info.hits} calls served, {info.misses} traces, {info.entries} programs kept")
    for i, reason in enumerate(info.reasons, 1):
        print(f"  trace {i}: {reason}")
    for entries in fn._entries.values():
        for e in entries:
            parameters, operations = e.program.size()
            print(f"  program {e.name}: {parameters} parameters, {operations} operations")


def eval_shape(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of ``fn(*args, **kwargs)`` as tensors on ``meta``; nothing is run and no state changes.

    ``fn`` is a function of tensors or what :func:`jit` gave. Raises ``JitError`` where it cannot be traced.
    """
    f = fn if isinstance(fn, JitFunction) else jit(fn)
    return f.lower(*args, **kwargs).out_info
