"""What a trace asked the file system, with what it was told: each call of the program asks again."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import Any

# Those of the system, whoever traces.
_stat, _lstat, _getcwd, _access, _fstat, _lseek = os.stat, os.lstat, os.getcwd, os.access, os.fstat, os.lseek
_realpath, _now, _sleep = os.path.realpath, time.time_ns, time.sleep
# Clocks of file systems go on in steps: what is written twice within one has the same time.
_STEP = 20_000_000
_KINDS: dict[int | None, str] = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    None: "nothing",
}


class _Words(str):
    """How a message says what was told."""

    __slots__ = ()
    __repr__ = str.__str__


def contents(path: Any, ask: Callable[[Any], os.stat_result] = _stat) -> Any:
    """What tells whether a file, or the list of files in a folder, is still the same; a number if there is none."""
    try:
        s = ask(path)
    except OSError as error:
        return error.errno or 0
    except ValueError:
        return 0
    return s.st_mtime_ns, s.st_size, s.st_mode, s.st_ino, s.st_dev, s.st_ctime_ns


def link(path: Any) -> Any:
    """The same of what is at a path itself, be it a link."""
    return contents(path, _lstat)


def kind(path: Any) -> Any:
    """Whether something is there, and of which kind."""
    told = contents(path)
    return stat.S_IFMT(told[2]) if isinstance(told, tuple) else None


def kind_of_link(path: Any) -> Any:
    told = link(path)
    return stat.S_IFMT(told[2]) if isinstance(told, tuple) else None


def whole(path: Any) -> Any:
    """Where a path leads to."""
    try:
        return _realpath(path)
    except OSError as error:
        return error.errno


def folder(_: Any) -> Any:
    """The one that paths start from."""
    try:
        return _getcwd()
    except OSError as error:
        return error.errno


def allowed(path: Any) -> Any:
    return tuple(_access(path, mode) for mode in (os.R_OK, os.W_OK, os.X_OK))


def descriptor(fd: Any) -> Any:
    """What is read next from an open file, as the system knows it."""
    try:
        return (*contents(fd, _fstat), _lseek(fd, 0, os.SEEK_CUR))
    except (OSError, TypeError) as error:
        return repr(error)


class Question:
    """Something asked, and the answer."""

    __slots__ = ("_ask", "_subject", "name", "read", "told", "words")

    def __init__(self, ask: Callable[[Any], Any], subject: Any, name: str) -> None:
        self._ask, self._subject, self.name, self.told = ask, subject, name, ask(subject)
        self.words = words(self.told)
        self.read = False
        """Whether the function knows the answer."""

    def is_the_same(self) -> bool:
        return bool(self._ask(self._subject) == self.told)

    @property
    def cell_contents(self) -> str:
        """What a program finds; of an attribute with this name messages tell the place alone."""
        now = self._ask(self._subject)
        if now == self.told:
            return self.words
        found = words(now)
        return found if found != self.words else _Words(f"{found}, touched or replaced")


def words(told: Any) -> _Words:
    """An answer in words."""
    if isinstance(told, tuple) and len(told) >= 6:
        seconds, rest = divmod(told[0], 1_000_000_000)
        written = f"{time.strftime('%F %T', time.gmtime(seconds))}.{rest:09}"
        return _Words(f"{_KINDS.get(stat.S_IFMT(told[2]), 'something')} of {told[1]} bytes of {written}")
    if told is None or told in _KINDS:
        return _Words(_KINDS[told])
    if isinstance(told, int):
        return _Words(f"missing (errno {told})" if told < 4096 else f"of kind {told:o}")
    return _Words(told)


class Files:
    """What one trace asked, each thing once, in the order in which it asked; and what the function changed itself."""

    def __init__(self) -> None:
        self._questions: dict[Any, Question] = {}
        self._changed: set[Any] = set()
        self._own: set[str] = set()
        """Paths with nothing but what the function put there."""
        self.descriptors: set[int] = set()
        """Those that were opened in the trace."""
        self.busy = False
        """Whether what is asked now is part of a question that was noted."""

    def absolute(self, path: Any) -> str:
        """A path from the root; what a path starts from is a question too."""
        text = os.fsdecode(os.fspath(path))
        if not os.path.isabs(text):
            self._ask(folder, None, "the current folder").read = True
            text = os.path.join(str(folder(None)), text)
        # What is above a link is not what is above its target.
        return text if ".." in text else os.path.normpath(text)

    def read(self, path: Any, *asks: Callable[[Any], Any]) -> None:
        """The function learns something about a path."""
        subject = self.absolute(path)
        if self._is_own(subject):
            return
        for ask in asks:
            self._ask(ask, subject, f"file {subject}").read = True
            told = self._questions[ask, subject].told
            if ask is contents and isinstance(told, tuple) and 0 <= (age := _now() - told[0]) < _STEP:
                _sleep((_STEP - age) / 1e9)

    def read_descriptor(self, fd: int) -> None:
        self._ask(descriptor, fd, f"file descriptor {fd}").read = True
        self._changed.add(fd)

    def read_text(self, ask: Callable[[Any], Any], text: Any) -> None:
        """The function learns what the system makes of a text."""
        self._ask(ask, text, f"path {text!r}").read = True

    def read_folder(self) -> None:
        self._ask(folder, None, "the current folder").read = True

    def leaves_folder(self) -> None:
        self._ask(folder, None, "the current folder")
        self._changed.add(None)

    def _ask(self, ask: Callable[[Any], Any], subject: Any, name: str) -> Question:
        question = self._questions.get((ask, subject))
        if question is None:
            question = self._questions[ask, subject] = Question(ask, subject, name)
        return question

    def writes(self, path: Any, anew: bool = False) -> Callable[[], None]:
        """Before the function changes what is at a path, ``anew`` without keeping anything. Returns what to call once
        it has."""
        subject = self.absolute(path)
        above = os.path.dirname(subject)
        for at, ask in ((above, contents), *((subject, a) for a in (contents, link, kind, kind_of_link, allowed))):
            if not self._is_own(at):
                self._ask(ask, at, f"file {at}")
        self._changed |= {subject, above}

        def done() -> None:
            if anew:
                self._own.add(subject)

        return done

    def _is_own(self, path: str) -> bool:
        while self._own and path not in self._own:
            above = os.path.dirname(path)
            if above == path:
                return False
            path = above
        return bool(self._own)

    def changed(self) -> list[str]:
        """What the function both read and changed."""
        read = [(s, q) for (_, s), q in self._questions.items() if q.read and s in self._changed]
        return sorted({q.name for _, q in read if not q.is_the_same()})

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The questions as a program guards them: containers with one place, that of the answer."""
        known = {s for (a, s), q in self._questions.items() if q.read and a is contents}
        for (a, subject), q in self._questions.items():
            if q.read and not (a is kind and subject in known):
                yield "attr", q, ["cell_contents"], [("const", q.words)], q.name
