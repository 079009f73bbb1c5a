"""Functions of other libraries that are others while a trace runs, and who it is that calls one."""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from . import _native
from ._names import is_library
from ._sites import STAND_INS, Site
from ._state import Walk

# Libraries that ask the system for what no user sees: names of files, salts of hashes.
_QUIET = {"torch", "torch_pjrt", "numpy", *sys.stdlib_module_names}
_LOCK = threading.Lock()
# Was at the place of a function that a class has from another, or a module from Python.
_INHERITED: Any = object()
_WITH_ITEMS = (dict, list)


def asked_by_user(through: Collection[object] = (), beyond: bool = False) -> bool:
    """Whether it is the function that this thread traces that called the caller's caller, by itself or by way of the
    modules ``through``; with ``beyond`` by a function of another library too that it calls. What a module does while it
    is imported happens once."""
    if not _native.tracing():
        return False
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in through:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name == "<module>":
        return False
    if _users(frame):
        return True
    root = str(frame.f_globals.get("__name__")).partition(".")[0]
    return beyond and root not in _QUIET and frame.f_back is not None and _users(frame.f_back)


def asked_anyhow() -> bool:
    """The same, by way of whatever libraries but torch's."""
    frame: types.FrameType | None = sys._getframe(1) if _native.tracing() else None
    while frame is not None and frame.f_code.co_name != "<module>":
        if _users(frame):
            return True
        name = str(frame.f_globals.get("__name__"))
        if (name.partition(".")[0] == "torch" and name != "torch.hub") or name == "torch_pjrt._trace":
            return False
        frame = frame.f_back
    return False


def likeness(theirs: Any, make: Callable[..., Any]) -> Any:
    """A class in the place of one that cannot be changed; ``make`` makes its objects, which are theirs."""

    class Likeness(type(theirs)):  # type: ignore[misc]
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return make(*args, **kwargs) if cls is ours else super().__call__(*args, **kwargs)

        def __instancecheck__(cls, x: Any) -> bool:
            return isinstance(x, theirs) if cls is ours else super().__instancecheck__(x)

        def __subclasscheck__(cls, c: type) -> bool:
            return issubclass(c, theirs) if cls is ours else super().__subclasscheck__(c)

    ours = Likeness(theirs.__name__, (theirs,), {"__module__": theirs.__module__})
    return ours


def _users(frame: types.FrameType) -> bool:
    return not frame.f_code.co_filename.startswith("<frozen ") and not is_library(frame.f_code)


class _Place:
    """Where something else is while ``traces`` hold it."""

    def __init__(self, owner: Any, key: Any, was: Any, now: Any) -> None:
        self.owner, self.key, self.was, self.now = owner, key, was, now
        self.traces = 0

    def put(self, value: Any) -> None:
        if value is _INHERITED and isinstance(self.owner, _WITH_ITEMS):
            del self.owner[self.key]
        elif value is _INHERITED:
            delattr(self.owner, self.key)
        elif isinstance(self.owner, _WITH_ITEMS):
            self.owner[self.key] = value
        elif isinstance(self.owner, functools.partial):
            state = value, self.owner.args, self.owner.keywords, vars(self.owner)
            self.owner.__setstate__(state)  # type: ignore[attr-defined]
        elif isinstance(self.owner, type):
            type.__setattr__(self.owner, self.key, value)
        else:
            setattr(self.owner, self.key, value)


_held: dict[tuple[int, Any], _Place] = {}
_known: dict[tuple[int, Any], _Place] = {}
"""Those in classes and modules, also between traces."""


@contextlib.contextmanager
def replaced(before: Walk, places: Iterable[tuple[Any, str, Callable[[Any], Any]]]) -> Iterator[None]:
    """Puts others at the places of functions in classes and modules, and wherever the walk met those. Each comes with
    what makes the other one of it, the same each time."""
    holds: list[_Place] = []
    try:
        with _LOCK:
            instead: dict[int, tuple[Any, Any]] = {}
            for of, name, make in places:
                place = _placed(of, name, make)
                instead[id(place.was)] = instead[id(place.now)] = place.was, place.now
                _hold(place, holds)
            for site in before.sites:
                # ``from time import perf_counter``
                if site.kind in ("names", "dict", "list") or isinstance(site.container, types.CellType):
                    for i, (key, v) in enumerate(zip(site.keys, site.values, strict=True)):
                        if id(v) in instead:
                            was, now = instead[id(v)]
                            if v is now:  # another thread was tracing during the walk
                                site.values[i], site.items[i] = was, ("const", was)
                            _hold(_at(site.container, key, was, now), holds)
                elif site.kind == "attr" and isinstance(site.container, types.FunctionType | type):
                    for place in _attributes(site, instead):
                        _hold(place, holds)
            for p in before.partials:
                if id(p.func) in instead:
                    _hold(_at(p, "func", *instead[id(p.func)]), holds)
        yield
    finally:
        _leave(holds)


def put(places: Iterable[tuple[Any, str, Callable[[Any], Any]]]) -> Callable[[], None]:
    """Puts others at these places alone, of which several threads may want the same. Gives what puts back what was
    there, once no thread wants another."""
    holds: list[_Place] = []
    with _LOCK:
        for of, name, make in places:
            _hold(_placed(of, name, make), holds)
    return functools.partial(_leave, holds)


def _leave(holds: list[_Place]) -> None:
    with _LOCK:
        for place in holds:
            place.traces -= 1
            if not place.traces:
                del _held[id(place.owner), place.key]
                place.put(place.was)


def _placed(of: Any, name: str, make: Callable[[Any], Any]) -> _Place:
    """The place of a name in a module, or of an attribute of a class, with what is to be there."""
    # The walk meets a module as the dict of its names.
    owner = vars(of) if isinstance(of, types.ModuleType) else of
    at = id(owner), name
    if (held := _held.get(at)) is not None:
        return held
    was = (owner if isinstance(owner, dict) else vars(of)).get(name, _INHERITED)
    place = _known.get(at)
    if place is None or place.was is not was:
        theirs = was
        if was is _INHERITED:
            theirs = getattr(builtins if isinstance(owner, dict) else of, name)
        place = _known[at] = _Place(owner, name, was, _named(make(theirs), theirs, of, name))
        STAND_INS[id(place.now)] = place.now, theirs
    return place


def _named(now: Any, theirs: Any, of: Any, name: str) -> Any:
    """A function that looks like the one that it stands for, and is found by its name: ``pickle`` asks for both."""
    f = now.__func__ if isinstance(now, staticmethod) else now
    if isinstance(f, types.FunctionType) and not hasattr(f, "__wrapped__") and not isinstance(of, dict):
        functools.update_wrapper(f, theirs, ("__name__", "__doc__"))
        f.__module__ = of.__module__ if isinstance(of, type) else of.__name__
        f.__qualname__ = f"{of.__qualname__}.{name}" if isinstance(of, type) else name
    return now


def _at(owner: Any, key: Any, was: Any, now: Any) -> _Place:
    return _held.get((id(owner), key)) or _Place(owner, key, was, now)


def _attributes(site: Site, instead: dict[int, tuple[Any, Any]]) -> Iterator[_Place]:
    """The places in the default arguments of a function, or in a class, which does not bind what it has from others."""
    owner = site.container
    for i, (key, v) in enumerate(zip(site.keys, site.values, strict=True)):
        if isinstance(v, tuple) and any(id(x) in instead for x in v):
            both = [instead.get(id(x), (x, x)) for x in v]
            if any(x is not w for x, (w, _) in zip(v, both, strict=True)):
                v = site.values[i] = tuple(w for w, _ in both)
                site.items[i] = ("const", v)
            yield _at(owner, key, v, tuple(n for _, n in both))
        elif id(v) in instead and isinstance(owner, type) and key in vars(owner):
            was, now = instead[id(v)]
            if v is now:
                site.values[i], site.items[i] = was, ("const", was)
            yield _at(owner, key, vars(owner)[key], staticmethod(now))


def _hold(place: _Place, holds: list[_Place]) -> None:
    holds.append(place)
    place.traces += 1
    if place.traces == 1:
        _held[id(place.owner), place.key] = place
        place.put(place.now)
