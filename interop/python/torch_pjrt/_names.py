"""What code may look at: the names that it has, and which code, classes and modules are the user's.

An attribute of an object of the user's can only be read by code that names it, or by code that does not name what it
reads (``getattr``, ``vars``, another library). So a program need not watch what no reachable code names.
"""

from __future__ import annotations

import collections
import dis
import functools
import sys
import sysconfig
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from ._closures import inner

_LIBRARIES = [
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    sysconfig.get_paths()["stdlib"],
    *{p for k in ("purelib", "platlib") if (p := sysconfig.get_paths().get(k))},
]
# Libraries that read no attribute of a user's object but those of the protocols that they define.
_KNOWN = {"torch", "torch_pjrt", "numpy", "builtins", *sys.stdlib_module_names}
# Code with one of these names may read attributes that it does not name.
UNNAMED = {
    *("getattr", "hasattr", "setattr", "delattr", "vars", "dir", "locals", "globals", "eval", "exec", "__dict__"),
    *("__getattribute__", "getattr_static", "getmembers", "attrgetter", "methodcaller", "asdict", "astuple", "fields"),
    *("replace", "copy", "deepcopy", "pickle", "__getstate__", "__reduce__", "__reduce_ex__", "inspect"),
}
# What looks for an attribute by a text.
_ASKING = {"getattr", "hasattr", "setattr", "delattr", "attrgetter", "getattr_static", "vars", "__dict__"}
_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL"}
# Methods that run when an object is made or shown, which need not happen in the function although the class has them.
_SELDOM = {
    *("__init__", "__new__", "__post_init__", "__init_subclass__", "__class_getitem__", "__del__", "__repr__"),
    *("__str__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__", "__dir__"),
}
_OF_MODULES = frozenset(torch.nn.Module().__dict__)
# What Python itself puts into a class.
PLUMBING = {
    *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__slots__", "__hash__"),
    *("_abc_impl", "__abstractmethods__", "__parameters__", "__orig_bases__", "__match_args__", "__type_params__"),
    *("__static_attributes__", "__firstlineno__", "__dataclass_fields__", "__dataclass_params__", "__annotate__"),
    "__conditional_annotations__",
}
# Modules of the standard library whose objects are looked into.
_OPEN = {"argparse", "configparser", "queue", "multiprocessing.shared_memory", "multiprocessing.sharedctypes"}
# Names with "grad" in them that read no gradient.
_HARMLESS = {
    "no_grad",
    "enable_grad",
    "set_grad_enabled",
    "requires_grad",
    "requires_grad_",
    "autograd",
    "is_grad_enabled",
}


def library_folders() -> list[str]:
    """Folders whose code is not the user's."""
    return _LIBRARIES


def is_library(code: types.CodeType) -> bool:
    return _in_library(code.co_filename)


def _in_library(file: str) -> bool:
    return any(file.startswith(folder) for folder in _LIBRARIES)


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> tuple[str, ...]:
    """Names that code may look up as globals or attributes, those of functions inside it too."""
    found = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= set(names_of(const))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def globals_of(code: types.CodeType) -> frozenset[str]:
    """Names that code looks up or stores as globals, those of functions inside it too."""
    return frozenset(str(i.argval) for c in inner(code) for i in dis.get_instructions(c) if i.opname in _GLOBAL)


@functools.lru_cache(maxsize=4096)
def doubtful(code: types.CodeType) -> frozenset[str]:
    """Names of attributes that code can do without: those in code that handles errors, and texts that may be given to
    ``getattr``."""
    found = {n for c in inner(code) if c.co_exceptiontable for n in c.co_names}
    if not _ASKING.isdisjoint(names_of(code)):
        found.update(t for t in texts_of(code) if t.isidentifier())
    return frozenset(found)


def texts_of(code: types.CodeType) -> list[str]:
    """The strings that code has, those of functions inside it too."""
    consts = [c for code in inner(code) for c in code.co_consts]
    listed = [x for c in consts if isinstance(c, tuple | frozenset) for x in c]
    return [c for c in [*consts, *listed] if isinstance(c, str)]


def came(before: set[str], names: set[str]) -> list[str]:
    """Modules of the user's, and of libraries that code with these names imports, that were not there ``before``."""
    return [
        n
        for n in sys.modules.keys() - before
        if (root := n.partition(".")[0]) not in _KNOWN
        and (root in names or (getattr(sys.modules[n], "__file__", None) and is_users_module(sys.modules[n])))
    ]


def is_users_module(m: types.ModuleType) -> bool:
    file = getattr(m, "__file__", None)
    if file is None:
        # Made by hand, or where somebody works interactively.
        return getattr(m, "__spec__", None) is None and m.__name__ not in sys.stdlib_module_names
    return not _in_library(file)


def is_users_class(cls: type) -> bool:
    """Whether a class is defined in the user's own code."""
    name = str(cls.__module__)
    if name.partition(".")[0] in _KNOWN:
        return False
    m = sys.modules.get(name)
    return m is None or is_users_module(m)


def is_foreign(v: Any) -> bool:
    """Whether a module, class, function or object belongs to a library that may read any attribute of what it gets."""
    name = v.__name__ if isinstance(v, types.ModuleType) else getattr(v, "__module__", None) or type(v).__module__
    if not isinstance(name, str) or name.partition(".")[0] in _KNOWN:
        return False
    m = sys.modules.get(name)
    return m is not None and not is_users_module(m)


def read_by_name(v: Any) -> bool:
    """Whether attributes of an object are read by the code of its classes alone, which are the user's or modules of
    torch's."""
    return all(
        is_users_class(c) or c.__name__ in ("ABC", "Generic", "Protocol") or c.__module__.startswith("torch.nn.")
        for c in type(v).__mro__[:-1]
    )


@functools.lru_cache(maxsize=4096)
def _of_library(cls: type) -> frozenset[str]:
    """What the library classes that a class is made of define or name: their code may read it from any object of it."""
    found: set[str] = set()
    for c in cls.__mro__:
        if c is not object and not is_users_class(c):
            found.update(vars(c))
            for raw in vars(c).values():
                for f in functions_of(raw):
                    found.update(names_of(f.__code__))
    return frozenset(found)


def always_read(key: Any, cls: type) -> bool:
    """Whether an attribute of a class, or of its objects, may be read without being named."""
    if key in _SELDOM:
        return False
    if not isinstance(key, str) or key in _OF_MODULES or key in _of_library(cls):
        return True
    return key.startswith("__") and key.endswith("__")


def attributes_of(cls: type) -> list[tuple[str, Any, Any]]:
    """The attributes that a class of the user's defines: name, value, and what it gives when it is read from the class,
    or ``None`` where that is made anew each time."""
    found = []
    for key, raw in vars(cls).items():
        if key in PLUMBING:
            continue
        try:
            read = getattr(cls, key)
        except Exception:
            read = None
        if isinstance(raw, staticmethod):
            raw = raw.__func__
        found.append((key, raw, read if read is raw else None))
    return found


def functions_of(raw: Any) -> list[types.FunctionType]:
    """The functions behind an attribute of a class."""
    return [f for f in parts_of(raw) if isinstance(f, types.FunctionType)]


def parts_of(raw: Any) -> list[Any]:
    """What an attribute of a class consists of, as far as Python binds it: functions, or what wraps them, and what they
    are given; anything else is its own part."""
    if isinstance(raw, property):
        parts: list[Any] = [raw.fget, raw.fset, raw.fdel]
    elif isinstance(raw, functools.cached_property):
        parts = [raw.func]
    elif isinstance(raw, functools.partialmethod):
        parts = [raw.func, raw.args, raw.keywords]
    elif isinstance(raw, functools.singledispatchmethod):
        parts = [raw.func, raw.dispatcher]
    elif isinstance(raw, classmethod | staticmethod):
        parts = [raw.__func__]
    elif type(raw).__module__ == "torch_pjrt._jit":
        parts = [raw.__wrapped__]
    else:
        return [raw]
    return [p for part in parts if part is not None for p in parts_of(part)]


def slots_of(cls: type) -> Iterable[str]:
    """Names of the slots that a class itself has."""
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    if not any(s.startswith("__") for s in names):
        return names
    of = cls.__name__.lstrip("_")
    return [f"_{of}{s}" if s.startswith("__") and not s.endswith("__") and of else s for s in names]


def is_users(v: Any) -> bool:
    """Whether an object is worth looking into: of a class of the user's, or one of torch's that holds state."""
    if isinstance(v, torch.amp.GradScaler):
        return True
    module = type(v).__module__
    root = module.partition(".")[0]
    if root == "torch":
        return module.startswith(("torch.distributions", "torch.nn", "torch.optim", "torch.amp"))
    if root in ("torch_pjrt", "numpy", "builtins"):
        return False
    if root in sys.stdlib_module_names:
        plain = types.SimpleNamespace | collections.UserDict | collections.UserList | collections.ChainMap
        return isinstance(v, plain) or module in _OPEN
    return not callable(v) or hasattr(v, "__dict__")


def is_disguised(v: Any) -> bool:
    """Whether an object says of its class what is no class, or raises: one that answers whatever it is asked."""
    try:
        return not isinstance(v.__class__, type)
    except Exception:
        return True


class Bare:
    """A disguised object, with the attributes that it has as those of any object."""

    __slots__ = ("__it",)

    def __init__(self, it: Any) -> None:
        object.__setattr__(self, "_Bare__it", it)

    def __getattr__(self, name: str) -> Any:
        return object.__getattribute__(self.__it, name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self.__it, name, value)

    def slots(self) -> dict[str, Any]:
        names = [s for c in type(self.__it).__mro__ for s in slots_of(c)]
        return {s: getattr(self, s) for s in names if s not in ("__dict__", "__weakref__") and hasattr(self, s)}


def names_gradients(names: set[str]) -> bool:
    """Whether code with these names may look at somebody's ``grad``."""
    return "backward" in names or any("grad" in n and n not in _HARMLESS for n in names)
