"""Files and folders inside a trace: what the function learns of them is asked again before each later call."""

from __future__ import annotations

import builtins
import contextlib
import functools
import glob
import io
import os
import pathlib
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _questions as ask
from ._jit_errors import refusal
from ._questions import Files
from ._replaced import asked_anyhow, likeness
from ._state import Walk

_current = threading.local()
_AT_A_LINK: dict[Callable[[Any], Any], Callable[[Any], Any]] = {ask.contents: ask.link, ask.kind: ask.kind_of_link}
_PATHS = ("path", "s", "filename", "file", "src", "name")
# What looks for sources and versions, and what prints: no result depends on it.
_QUIET = {"warnings", "logging", "inspect", "traceback", "pdb", "bdb", "pkg_resources", "torch_pjrt"}
_OURS = (__name__, likeness.__module__)
_PARTS = ("importlib.metadata", "torch._", "torch.fx")
# Whose content no time tells of.
_UNTOLD = ("/proc/", "/sys/")


@contextlib.contextmanager
def noted(before: Walk) -> Iterator[None]:
    """Notes what this thread asks, with the stand-ins at :func:`places`."""
    outer, _current.files = getattr(_current, "files", None), before.files
    try:
        yield
    finally:
        _current.files = outer


def _noting() -> Files | None:
    """Where to note what the caller's caller asks, if it is to be noted. Imports happen once."""
    files: Files | None = getattr(_current, "files", None)
    if files is None or files.busy:
        return None
    inner = True
    frame = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name == "torch_pjrt._trace":
            return files
        if frame.f_code.co_name == "<module>" or frame.f_code.co_filename.startswith("<frozen importlib"):
            return None
        if inner and name not in _OURS:
            root = name.partition(".")[0]
            inner = root in sys.stdlib_module_names
            if root in _QUIET or name.startswith(_PARTS):
                return None
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _untold(path: Any) -> bool:
    """Whether a change of what is there shows nowhere."""
    text = os.path.abspath(os.fsdecode(path))
    told = ask.contents(text)
    if text == os.devnull or not isinstance(told, tuple):
        return False
    return f"{text}/".startswith(_UNTOLD) or not (stat.S_ISREG(told[2]) or stat.S_ISDIR(told[2]))


def _note(files: Files, path: Any, *asks: Callable[[Any], Any]) -> None:
    """Notes that the function learns this of a path, if it is one."""
    if isinstance(path, str | bytes | os.PathLike):
        with contextlib.suppress(ValueError):
            files.read(path, *asks)


def _note_descriptor(files: Files, fd: int) -> None:
    if fd in files.descriptors:
        return
    told = ask.descriptor(fd)
    if isinstance(told, tuple) and stat.S_ISREG(told[2]):
        files.read_descriptor(fd)
    elif asked_anyhow():
        raise refusal("outside", f": file descriptor {fd} was read")


def _note_reading(files: Files, path: Any) -> bool:
    """The same of all that is in a file, or of the list of a folder. Whether that can be noted."""
    if isinstance(path, int):
        _note_descriptor(files, path)
        return True
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    if not _untold(path):
        _note(files, path, ask.contents)
    elif asked_anyhow():
        raise refusal("outside", f": {os.fsdecode(path)} was read")
    return True


def _changing(files: Files | None, path: Any, anew: bool = False) -> Callable[[], None]:
    if files is not None and isinstance(path, str | bytes | os.PathLike):
        with contextlib.suppress(ValueError):
            return files.writes(path, anew)
    return lambda: None


def _keep(files: Files, file: Any) -> None:
    """A file that was opened here is the function's own."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        files.descriptors.add(file if isinstance(file, int) else file.fileno())


def _opened(files: Files, path: Any, reads: bool, writes: bool, anew: bool, open: Callable[[], Any]) -> Any:
    """Opens a file of the function's own, and notes what it learns and changes; ``anew``, nothing is learnt of it."""
    if reads and not anew:
        _note_reading(files, path)
    done = _changing(files if writes else None, path, anew)
    opened = open()
    done()
    _keep(files, opened)
    return opened


@functools.lru_cache(maxsize=64)
def _opening(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        opener = kwargs.get("opener", args[-1] if len(args) == 6 else None)
        files = _noting() if opener is None and isinstance(mode, str) else None
        if files is None:
            return theirs(file, mode, *args, **kwargs)
        reads, writes, anew = (not set(mode).isdisjoint(kinds) for kinds in ("r+", "wax+", "wx"))
        return _opened(files, file, reads, writes, anew, lambda: theirs(file, mode, *args, **kwargs))

    return open


@functools.lru_cache(maxsize=4)
def _code(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def open_code(path: Any) -> Any:
        if (files := _noting()) is not None:
            _note_reading(files, path)
        return theirs(path)

    return open_code


@functools.lru_cache(maxsize=4)
def _raw(theirs: Any) -> Any:
    return likeness(theirs, _opening(theirs))


@functools.lru_cache(maxsize=4)
def _low(theirs: Callable[..., int]) -> Callable[..., int]:
    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        files = _noting() if dir_fd is None else None
        if files is None:
            return theirs(path, flags, mode, dir_fd=dir_fd)
        reads, writes = (flags & os.O_ACCMODE != only for only in (os.O_WRONLY, os.O_RDONLY))
        anew = bool(flags & (os.O_TRUNC | os.O_EXCL))
        fd: int = _opened(files, path, reads, writes, anew, lambda: theirs(path, flags, mode))
        return fd

    return open


@functools.lru_cache(maxsize=8)
def _reading(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def read(fd: int, *args: Any) -> Any:
        if (files := _noting()) is not None:
            _note_descriptor(files, fd)
        return theirs(fd, *args)

    return read


@functools.lru_cache(maxsize=64)
def _asking(asks: tuple[Callable[[Any], Any], ...], theirs: Any, wholly: bool = False) -> Any:
    """For a function that asks this of a path, or, ``wholly``, all that is there."""
    if isinstance(theirs, staticmethod):
        return staticmethod(_asking(asks, theirs.__func__))

    def asked(*args: Any, **kwargs: Any) -> Any:
        files = _noting() if kwargs.get("dir_fd") is None else None
        if files is None:
            return theirs(*args, **kwargs)
        path = args[0] if args else next((v for k, v in kwargs.items() if k in _PATHS), ".")
        if wholly:
            _note_reading(files, "." if path is None else path)
        elif kwargs.get("follow_symlinks", True):
            _note(files, path, *asks)
        else:
            _note(files, path, *(_AT_A_LINK.get(a, a) for a in asks))
        files.busy = True
        try:
            return theirs(*args, **kwargs)
        finally:
            files.busy = False

    return asked


@functools.lru_cache(maxsize=4)
def _listing(theirs: Any) -> Any:
    if isinstance(theirs, staticmethod):
        return staticmethod(_listing(theirs.__func__))

    def scandir(path: Any = None) -> Any:
        files = _noting()
        if files is None or not _note_reading(files, "." if path is None else path):
            return theirs(path)
        return theirs(path) if isinstance(path, int) else _Listing(theirs(path), files)

    return scandir


class _Listing:
    """What ``os.scandir`` gives, with entries that are watched too."""

    def __init__(self, theirs: Any, files: Files) -> None:
        self._theirs, self._files = theirs, files

    def __iter__(self) -> _Listing:
        return self

    def __next__(self) -> Any:
        return _Entry(next(self._theirs), self._files)

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        self._theirs.close()


class _Entry:
    """An entry of a folder."""

    __slots__ = ("_files", "_theirs")

    def __init__(self, theirs: os.DirEntry[Any], files: Files) -> None:
        self._theirs, self._files = theirs, files

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return os.DirEntry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def __repr__(self) -> str:
        return repr(self._theirs)

    def __fspath__(self) -> Any:
        return self._theirs.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        self._files.read(self._theirs.path, ask.contents if follow_symlinks else ask.link)
        return self._theirs.stat(follow_symlinks=follow_symlinks)


@functools.lru_cache(maxsize=4)
def _source(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """For NumPy's, which keeps the function that opens files."""

    def open(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        if (files := _noting()) is not None:
            _note_reading(files, path)
        return theirs(self, path, *args, **kwargs)

    return open


@functools.lru_cache(maxsize=4)
def _expanding(theirs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def expanded(path: Any) -> Any:
        if isinstance(path, str | bytes | os.PathLike) and (files := _noting()) is not None:
            files.read_text(theirs, os.fspath(path))
        return theirs(path)

    return expanded


@functools.lru_cache(maxsize=4)
def _folder(theirs: Callable[[], Any]) -> Callable[[], Any]:
    def getcwd() -> Any:
        if (files := _noting()) is not None:
            files.read_folder()
        return theirs()

    return getcwd


@functools.lru_cache(maxsize=64)
def _writing(roles: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """For a function that changes the paths marked ``c``, and puts something new at those marked ``n``."""

    def written(*args: Any, **kwargs: Any) -> Any:
        relative = any(k.endswith("dir_fd") and v is not None for k, v in kwargs.items())
        files = _noting() if not relative else None
        marked = [(role, path) for role, path in zip(roles, args, strict=False) if role != "-"]
        done = [_changing(files, path, role == "n") for role, path in marked]
        made = theirs(*args, **kwargs)
        for d in done:
            d()
        return made

    return written


@functools.lru_cache(maxsize=4)
def _leaving(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def chdir(path: Any) -> None:
        if (files := _noting()) is not None:
            files.leaves_folder()
        theirs(path)

    return chdir


def _table() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    questions: tuple[tuple[Any, ...], ...] = (
        *((os, "stat", ask.contents), (os, "lstat", ask.link), (os, "readlink", ask.link), (os, "access", ask.allowed)),
        *((os.path, name, ask.kind) for name in ("exists", "isfile", "isdir")),
        *((os.path, name, ask.kind_of_link) for name in ("lexists", "islink")),
        (os.path, "realpath", ask.whole),
        *((pathlib.Path, name, ask.kind) for name in ("exists", "is_file", "is_dir")),
        (pathlib.Path, "is_symlink", ask.kind_of_link),
        (pathlib.Path, "resolve", ask.whole, ask.kind),
        (torch, "from_file", ask.contents),
        # Python 3.13 has copies.
        (getattr(glob, "_StringGlobber", None), "lstat", ask.link),
    )
    for owner, name, *asks in questions:
        yield owner, name, functools.partial(_asking, tuple(asks))
    yield os, "listdir", functools.partial(_asking, (), wholly=True)
    yield os, "scandir", _listing
    yield getattr(glob, "_StringGlobber", None), "scandir", _listing
    yield from ((module, "open", _opening) for module in (builtins, io))
    yield io, "open_code", _code
    yield io, "FileIO", _raw
    yield os, "open", _low
    yield from ((os, name, _reading) for name in ("read", "pread", "readv", "preadv"))
    yield from ((os, name, _folder) for name in ("getcwd", "getcwdb"))
    yield from ((os.path, name, _expanding) for name in ("expanduser", "expandvars"))
    yield from ((os, name, _leaving) for name in ("chdir", "fchdir"))
    changed = "unlink remove rmdir truncate utime chmod chown lchown".split()
    roles = {**dict.fromkeys(changed, "c"), **dict.fromkeys(("mkdir", "mknod", "mkfifo"), "n")}
    roles |= {"rename": "cn", "replace": "cn", "link": "-n", "symlink": "-n"}
    yield from ((os, name, functools.partial(_writing, r)) for name, r in roles.items())


_PLACES = [place for place in _table() if place[0] is not None and hasattr(place[0], place[1])]
# Modules that have a name of their own for one of these, or a class with one, once they are there.
_COPIES: list[tuple[str, str, Callable[[Any], Any]]] = [
    *((module, name, _opening) for module, name in (("tokenize", "_builtin_open"), ("bz2", "_builtin_open"))),
    ("tarfile", "bltn_open", _opening),
    ("numpy.lib._datasource", "DataSource", _source),
    *((m, "safe_open", functools.partial(_asking, (ask.contents,))) for m in ("safetensors", "safetensors.torch")),
]


def places() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """The functions that others take the place of."""
    yield from _PLACES
    for module, name, make in _COPIES:
        if (found := sys.modules.get(module)) is not None and name in vars(found):
            yield (found, name, make) if make is not _source else (vars(found)[name], "open", make)
