"""Containers that are neither dict, list nor tuple, and things that give something else each time they are asked."""

from __future__ import annotations

import array
import collections
import collections.abc
import contextvars
import io
import itertools
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

# Larger memory is taken to be data, which nobody changes piece by piece.
_LARGEST_MEMORY = 1 << 20
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
        elif _is_memory(target):
            memoryview(target).cast("B")[:] = value
        elif type(target).__name__ == "ndarray":
            kind, shape, data = value
            target[...] = type(target)(shape, kind, data)


def _is_memory(v: Any) -> bool:
    """Whether it is memory as Python sees it: a view, or a value of ``ctypes`` that is no pointer."""
    if isinstance(v, memoryview) or (type(v).__module__ == "mmap" and not v.closed):
        return True
    if not any(c.__module__ == "_ctypes" for c in type(v).__mro__):
        return False
    import ctypes

    return isinstance(v, ctypes.Array | ctypes.Structure | ctypes.Union | ctypes._SimpleCData)


def watch(v: Any) -> Watch | None:
    """How the content of ``v`` is watched; ``None`` for anything but the containers that this is for."""
    if isinstance(v, collections.deque | set | frozenset | bytearray | array.array | types.MappingProxyType):
        return Watch(v)
    if isinstance(v, contextvars.ContextVar | weakref.ref) or is_file(v):
        return Watch(v)
    if _is_memory(v):
        return Watch(v) if memoryview(v).nbytes <= _LARGEST_MEMORY else None
    if type(v).__module__ == "numpy" and type(v).__name__ == "ndarray":
        return Watch(v) if v.nbytes <= _LARGEST_MEMORY else None
    return None


def is_file(v: Any) -> bool:
    """Whether it is an open file, one in memory too, that can be read. The terminal's is not: reading it is refused."""
    if not isinstance(v, io.IOBase) or v is sys.stdin or type(v).__module__.partition(".")[0] not in _STANDARD:
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
        held = v.getvalue()
        return {"position": v.tell(), "contents": held if len(held) <= _LARGEST_MEMORY else len(held)}
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
    elif isinstance(v, io.BytesIO | io.StringIO) and not isinstance(value, int):
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
    if isinstance(v, bytearray | array.array):
        return {"contents": bytes(v)}
    if _is_memory(v):
        return {"contents": memoryview(v).tobytes()}
    if v.dtype.hasobject:
        return {"contents": tuple(v.ravel().tolist())}
    return {"contents": (v.dtype.str, v.shape, v.tobytes())}


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
    if type(v).__module__ in ("_csv", "csv"):
        return (getattr(v, "line_num", None),)
    if isinstance(v, types.GeneratorType):
        f = v.gi_frame
        return ("ended",) if f is None else (f.f_lasti, tuple(map(id, f.f_locals.values())))
    if not isinstance(v, collections.abc.Iterator):
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
        return position(x) if isinstance(x, collections.abc.Iterator) else x if isinstance(x, int) else id(x)

    return place(tuple(state))
