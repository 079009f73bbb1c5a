"""Jit functions in classes: each binds as what it wraps does, and has programs of its own for whatever it binds to."""

from __future__ import annotations

import collections
import functools
import types
from typing import TYPE_CHECKING, Any

from . import _native

if TYPE_CHECKING:
    from ._jit import JitFunction

# What binds to the same object in the same way each time.
_STEADY = (
    types.FunctionType,
    classmethod,
    staticmethod,
    functools.partialmethod,
    functools.singledispatchmethod,
)
Table = collections.OrderedDict[int, tuple[Any, Any]]
_KEY = "_jit_methods"
# Objects without a `__dict__`, classes among them, are kept alive by the functions that are bound to them.
_MOST = 64


class Methods:
    """The jit functions that are bound to one object, in whose ``__dict__`` it is, under one key for all of them.

    A copy of the object may have got the original's.
    """

    __slots__ = ("made", "of")

    def __init__(self, of: Any = None) -> None:
        self.of = of
        self.made: dict[JitFunction, JitFunction] = {}

    def __reduce__(self) -> Any:
        return Methods, ()


def check(fn: Any) -> None:
    """Refuses what can neither be called nor becomes a function in a class."""
    if callable(fn) or isinstance(fn, _STEADY) or (hasattr(type(fn), "__get__") and not _gives_a_value(fn)):
        return
    way = f"put `@{type(fn).__name__}` above `@jit`" if _gives_a_value(fn) else "pass the function itself"
    raise TypeError(
        f"jit: argument `fn`: got a {type(fn).__name__}, expected a function, a module or a method. Way out: {way}"
    )


def _gives_a_value(fn: Any) -> bool:
    return isinstance(
        fn, property | functools.cached_property | types.GetSetDescriptorType | types.MemberDescriptorType
    )


def underlying(fn: Any) -> Any:
    """What has the name and the parameters of ``fn``."""
    if isinstance(fn, classmethod | staticmethod):
        return fn.__func__
    if isinstance(fn, functools.singledispatchmethod | functools.partialmethod):
        return fn.func
    return fn


def bound(f: JitFunction, instance: Any, owner: Any) -> Any:
    """``f`` as it is read from ``instance``, or from the class ``owner``."""
    fn = f.__wrapped__
    steady = isinstance(fn, _STEADY)
    if instance is None and isinstance(fn, types.FunctionType):
        return f
    get = getattr(type(fn), "__get__", None)
    if get is None:
        return f
    holder = owner if isinstance(fn, classmethod) else f if isinstance(fn, staticmethod) else instance
    if steady and (known := _known(f, holder)) is not None:
        return known
    target = get(fn, instance, owner)
    if target is fn or not callable(target):
        return f if target is fn else target
    if _native.tracing():
        # The trace goes through it, and should leave nothing in the object.
        return target
    if isinstance(holder, tuple):
        # An argument like others, whose items count: such objects are made anew each time.
        return types.MethodType(f, instance)
    if not steady and (known := _known(f, holder)) is not None and _same(known.__wrapped__, target):
        return known
    made = f.of(target, 1 if isinstance(target, types.MethodType) else 0)
    _keep(f, holder, made)
    return made


def _known(f: JitFunction, holder: Any) -> JitFunction | None:
    own = getattr(holder, "__dict__", None)
    if type(own) is dict and holder is not f:
        methods = own.get(_KEY)
        return methods.made.get(f) if methods is not None and methods.of is holder else None
    entry = f.methods.get(id(holder))
    return None if entry is None else entry[1]


def _keep(f: JitFunction, holder: Any, made: JitFunction) -> None:
    own = getattr(holder, "__dict__", None)
    if type(own) is dict and holder is not f:
        methods = own.get(_KEY)
        if methods is None or methods.of is not holder:
            methods = own[_KEY] = Methods(holder)
        methods.made[f] = made
        return
    f.methods[id(holder)] = holder, made
    if len(f.methods) > _MOST:
        f.methods.popitem(last=False)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, functools.partial) and isinstance(b, functools.partial):
        return a.func == b.func and a.args == b.args and a.keywords == b.keywords
    return bool(a == b)


def name_in(holder: Any, f: JitFunction) -> str | None:
    """The attribute of ``holder`` that is ``f``, bound."""
    for c in (*(holder.__mro__ if isinstance(holder, type) else ()), *type(holder).__mro__):
        for name, raw in vars(c).items():
            if raw is f or (isinstance(raw, classmethod | staticmethod) and raw.__func__ is f):
                return str(name)
    return None
