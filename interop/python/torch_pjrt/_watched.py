"""Containers that are neither dict, list nor tuple, and things that give something else each time they are asked."""

from __future__ import annotations

import array
import collections
import collections.abc
import contextvars
import io
import itertools
import logging
import operator
import queue
import random
import sys
import types
import warnings
import weakref
from typing import Any

import torch

from . import _questions as ask

_STANDARD = sys.stdlib_module_names
_FILES = {
    "tempfile._TemporaryFileWrapper": "file",
    "tempfile.SpooledTemporaryFile": "_file",
    "codecs.StreamReaderWriter": "stream",
    "zipfile.ZipFile": "fp",
    "tarfile.TarFile": "fileobj",
    "numpy.NpzFile": "zip",
}


class Watch:
    """A container as an object whose attributes are what is in it: ``keys`` are their names."""

    __slots__ = ("before", "keys", "target")

    def __init__(self, target: Any) -> None:
        parts = _parts(target)
        self.target, self.keys = target, list(parts)
        self.before: Any = list(target) if isinstance(target, collections.deque | set) else None

    def __getattr__(self, key: str) -> Any:
        if key in Watch.__slots__:
            raise AttributeError(key)
        if type(self.target) is collections.deque and key != "length":
            try:
                return self.target[int(key[1:-1])]
            except IndexError:
                raise AttributeError(key) from None
        parts = _parts(self.target)
        if key not in parts:
            raise AttributeError(key)
        return parts[key]

    def __setattr__(self, key: str, value: Any) -> None:
        if key in Watch.__slots__:
            object.__setattr__(self, key, value)
        else:
            self._put(key, value)

    def _put(self, key: str, value: Any) -> None:
        """Puts one part in its place, or back; what has no parts gets back all that it had."""
        target = self.target
        if isinstance(target, collections.deque) and key != "length" and len(target) == len(self.before):
            target[int(key[1:-1])] = value
        elif isinstance(target, collections.deque):
            target.clear()
            target.extend(self.before)
        elif isinstance(target, set):
            target.clear()
            target.update(self.before)
        elif isinstance(target, bytearray):
            target[:] = value
        elif isinstance(target, contextvars.ContextVar):
            target.set(value)
        elif isinstance(target, io.IOBase):
            _put_back(target, key, value)
        elif is_memory(target):
            memoryview(target).cast("B")[:] = value
        elif isinstance(target, torch.Generator):
            target.set_state(torch.frombuffer(bytearray(value), dtype=torch.uint8))
        elif isinstance(target, random.Random):
            target.setstate(value)
        elif is_array(target):
            import numpy

            kind, shape, data = value
            numpy.ndarray.__setitem__(target, ..., numpy.ndarray(shape, kind, data))


def is_memory(v: Any) -> bool:
    """Whether it is memory as Python sees it: a view, a mapped file, or a value of ``ctypes``."""
    if not _is_of(v, "_ctypes"):
        return isinstance(v, memoryview) or is_map(v)
    import ctypes

    return isinstance(v, ctypes.Array | ctypes.Structure | ctypes.Union | ctypes._SimpleCData)


def is_map(v: Any) -> bool:
    """Whether it is a file in memory, which is read from a position on too."""
    return type(v).__module__ == "mmap" and not v.closed


def _is_cut(v: Any) -> bool:
    """Whether it is a file in memory that is shorter now: to read beyond its end would end the process."""
    m = v if is_map(v) else getattr(v, "_mmap", None) if is_array(v) else None
    try:
        return m is not None and m.size() < len(m)
    except (OSError, ValueError):  # memory without a file
        return False


def is_array(v: Any) -> bool:
    """Whether it is an array of NumPy's, of whatever class."""
    return any(c.__module__ == "numpy" and c.__name__ == "ndarray" for c in type(v).__mro__)


def _is_of(v: Any, module: str) -> bool:
    return any(c.__module__ == module for c in type(v).__mro__)


def is_pointer(v: Any) -> bool:
    """Whether it holds an address in ``ctypes``: what is there, and how much, it does not say."""
    return _is_of(v, "_ctypes") and _points(type(v))


def _points(cls: Any) -> bool:
    import ctypes

    if issubclass(cls, ctypes.Array):
        return _points(cls._type_)
    if issubclass(cls, ctypes.Structure | ctypes.Union):
        return any(_points(f[1]) for c in cls.__mro__ for f in vars(c).get("_fields_", ()))
    return issubclass(cls, ctypes._Pointer | ctypes.c_char_p | ctypes.c_wchar_p)


def size_of(v: Any) -> int:
    """How many bytes it holds that are looked at."""
    return int(v.nbytes) if is_array(v) else memoryview(v).nbytes if is_readable(v) else 0


def is_readable(v: Any) -> bool:
    """Whether what it holds is bytes that can be read as one piece, with nothing behind them."""
    if _is_cut(v):
        return False
    if is_array(v):
        return not v.dtype.hasobject and v.dtype.kind not in "mM" and (v.flags.c_contiguous or v.flags.f_contiguous)
    return isinstance(v, bytearray | array.array) or (is_memory(v) and memoryview(v).contiguous)


def watch(v: Any) -> Watch | None:
    """How the content of ``v`` is watched; ``None`` for anything but the containers that this is for."""
    if isinstance(v, collections.deque | set | frozenset | bytearray | array.array | types.MappingProxyType):
        return Watch(v)
    if isinstance(v, contextvars.ContextVar | weakref.ref | logging.Logger) or is_file(v):
        return Watch(v)
    return Watch(v) if is_memory(v) or is_array(v) else None


def is_file(v: Any) -> bool:
    """Whether it is an open file, one in memory too, that can be read. The terminal's is not: reading it is refused."""
    # By the class that it has: what an object says of it may be no class.
    if not issubclass(type(v), io.IOBase) or v is sys.stdin or type(v).__module__.partition(".")[0] not in _STANDARD:
        return False
    return not v.closed and v.readable()


def file_behind(v: Any) -> Any:
    """The file that an object of a library reads."""
    name = _FILES.get(f"{type(v).__module__.partition('.')[0]}.{type(v).__name__}")
    return None if name is None else getattr(v, name, None)


def _of_file(v: Any) -> dict[str, Any]:
    """Where a file is, and what tells whether it is still the same."""
    if v.closed:
        return {"position": None}
    if isinstance(v, io.BytesIO | io.StringIO):
        return {"position": v.tell(), "contents": v.getvalue()}
    try:
        return {"position": v.tell(), "contents": ask.words(ask.contents(v.fileno()))}
    except OSError:  # a pipe, a text file in the middle of a loop over its lines, or one without a descriptor
        return {"position": _position(v)}


def _position(v: Any) -> Any:
    try:
        return v.tell()
    except OSError:
        return object()


def _put_back(v: Any, key: str, value: Any) -> None:
    if key == "position" and not v.closed:
        v.seek(value)
    elif isinstance(v, io.BytesIO | io.StringIO):
        at = v.tell()
        v.seek(0)
        v.truncate()
        v.write(value)
        v.seek(at)


def _parts(v: Any) -> dict[str, Any]:
    if isinstance(v, io.IOBase):
        return _of_file(v)
    if isinstance(v, collections.deque):
        return {"length": len(v), **{f"[{i}]": x for i, x in enumerate(v)}}
    if isinstance(v, set | frozenset):
        return {"contents": frozenset(v)}
    if isinstance(v, types.MappingProxyType):
        return {"contents": tuple(v), **{f"[{i}]": x for i, x in enumerate(v.values())}}
    if isinstance(v, contextvars.ContextVar):
        return {"value": v.get(None)}
    if isinstance(v, weakref.ref):
        return {"object": v()}
    if isinstance(v, logging.Logger):
        return {"level": (v.getEffectiveLevel(), v.disabled, v.manager.disable)}
    if isinstance(v, bytearray | array.array):
        return {"contents": bytes(v)}
    if _is_cut(v):
        return {"contents": None}
    if is_memory(v):
        return {"contents": memoryview(v).tobytes()}
    if (state := generator_state(v)) is not None:
        return {"state": state}
    if v.dtype.hasobject:
        return {"contents": tuple(v.ravel().tolist())}
    import numpy

    return {"contents": (v.dtype.str, v.shape, numpy.ndarray.tobytes(v))}


def generator_state(v: Any) -> Any:
    """The state of an object that draws random numbers on the host; ``None`` for anything else."""
    if isinstance(v, torch.Generator):
        return v.get_state().numpy().tobytes()
    if isinstance(v, random.Random):
        return None if isinstance(v, random.SystemRandom) else v.getstate()
    bits = getattr(v, "bit_generator", None) if type(v).__module__.startswith("numpy.random") else None
    return repr(bits.state) if bits is not None else None


def position(v: Any) -> Any:
    """Where an iterator is; ``None`` for what is no iterator of Python's or torch's. Where a file is that does not tell
    is never the same."""
    if is_file(v):
        at = _position(v)
        return at if type(at) is object else None
    if isinstance(v, queue.SimpleQueue):
        return (v.qsize(),)
    if is_map(v):
        return v.tell()
    if type(v).__module__ in ("_csv", "csv"):
        return (getattr(v, "line_num", None),)
    if isinstance(v, types.GeneratorType):
        f = v.gi_frame
        return ("ended",) if f is None else (f.f_lasti, tuple(map(id, f.f_locals.values())))
    if not issubclass(type(v), collections.abc.Iterator):
        return None
    if hasattr(v, "_num_yielded") and type(v).__module__.startswith("torch.utils.data"):
        return (v._num_yielded,)
    if type(v).__module__ not in ("builtins", "itertools", "collections", "_collections"):
        return None
    if isinstance(v, itertools.count):
        return (repr(v),)
    left = operator.length_hint(v, -1)
    if left >= 0:
        return (left,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _, *state = tuple(v.__reduce__())
        except Exception:  # not every one tells
            return None

    def place(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(place, x))
        return position(x) if issubclass(type(x), collections.abc.Iterator) else x if isinstance(x, int) else id(x)

    return place(tuple(state))
