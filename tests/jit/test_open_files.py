"""Open files, and other things that are read on in: where they are is state, and what does not tell that is refused."""

# ruff: noqa: SIM115

import csv
import gzip
import io
import mmap
import os
import queue
import tempfile
from pathlib import Path

import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close, refusal


def _ones():
    return torch.ones(3, device="pjrt")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Files that are open before: how they are made, and what reads them.
OPEN = {
    "text": (lambda: open("lines"), lambda f: int(f.readline())),
    "bytes": (lambda: open("lines", "rb"), lambda f: int(f.read(2))),
    "raw": (lambda: open("lines", "rb", 0), lambda f: int(f.read(2))),
    "gzip": (lambda: gzip.open("lines.gz"), lambda f: int(f.readline())),
    "StringIO": (lambda: io.StringIO("1\n2\n3\n4\n"), lambda f: int(f.readline())),
    "BytesIO": (lambda: io.BytesIO(b"1\n2\n3\n4\n"), lambda f: int(f.readline())),
    "written": (lambda: io.StringIO(), lambda f: f.write("x")),
    "descriptor": (lambda: os.open("lines", os.O_RDONLY), lambda f: int(os.read(f, 2))),
}


def _lines():
    Path("lines").write_text("1\n2\n3\n4\n")
    with gzip.open("lines.gz", "wt") as f:
        f.write("1\n2\n3\n4\n")


@pytest.mark.parametrize("name", OPEN)
def test_reading_on_in_an_open_file_is_refused(name):
    make, read = OPEN[name]
    _lines()
    held, eager = make(), make()
    f = tp.jit(lambda x: x * read(held))
    for _ in range(2):
        close(f(_ones()), _ones() * read(eager))
    with pytest.raises(tp.JitError, match=r"changed by the function at every call.*Way out: "):
        f(_ones())


WHOLLY = {
    "text": lambda: open("lines"),
    "bytes": lambda: open("lines", "rb"),
    "temporary": lambda: _filled(tempfile.NamedTemporaryFile("w+")),
    "StringIO": lambda: io.StringIO("1\n2\n"),
}


def _filled(f):
    f.write("1\n2\n")
    f.seek(0)
    return f


@pytest.mark.parametrize("name", WHOLLY)
def test_an_open_file_that_is_read_to_its_end(name):
    _lines()
    held, eager = WHOLLY[name](), WHOLLY[name]()

    def again(f):
        f.seek(0)
        return len(f.read())

    f, g = tp.jit(lambda x: x * (1 + len(held.read()))), tp.jit(lambda x: x * again(held))
    for _ in range(4):
        close(f(_ones()), _ones() * (1 + len(eager.read())))
    assert f.cache_info().misses == 2
    for _ in range(3):
        close(g(_ones()), _ones() * again(eager))
    assert g.cache_info().misses == 1
    if name in ("text", "bytes"):
        Path("lines").write_text("1\n2\n3\n4\n5\n")
        close(g(_ones()), _ones() * 10)


def test_an_open_file_is_put_back_after_an_error():
    _lines()
    held = open("lines")

    def f(x):
        held.readline()
        raise KeyError

    with pytest.raises(KeyError):
        tp.jit(f)(_ones())
    assert held.readline() == "1\n"


def _pipe():
    r, w = os.pipe()
    os.write(w, b"abc")
    os.close(w)
    return os.fdopen(r, "rb", 0)


def _in_a_loop():
    _lines()
    f = open("lines")
    next(f)
    return f


def _queue():
    q = queue.SimpleQueue()
    q.put(1)
    return q


UNTOLD = {
    "pipe": (_pipe, lambda f: len(f.read(1)), "does not tell where it is"),
    "loop": (_in_a_loop, lambda f: int(next(f)), "does not tell where it is"),
    "queue": (_queue, lambda q: q.get(), "an item was taken from held"),
    "csv": (lambda: csv.reader(["1", "2"]), lambda r: int(next(r)[0]), "an item was taken from held"),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_what_does_not_tell_where_it_is_is_refused(name):
    make, read, words = UNTOLD[name]
    held = make()
    assert words in refusal(lambda x: x * read(held), _ones())


def test_a_pipe_by_its_descriptor():
    pipe = _pipe()
    fd = pipe.fileno()
    assert f"file descriptor {fd} was read" in refusal(lambda x: x * len(os.read(fd, 1)), _ones())
    assert pipe.read() == b"abc"


def test_mapped_memory_is_seen():
    held = mmap.mmap(-1, 16)
    f = tp.jit(lambda x: x * held[0])
    for k in (3, 4):
        held[0] = k
        close(f(_ones()), _ones() * k)


def test_files_that_are_only_written_to():
    with open("log", "w") as log:
        f = tp.jit(lambda x: (log.write("traced\n"), x * 2)[1])
        for _ in range(3):
            close(f(_ones()), _ones() * 2)
    assert f.cache_info().misses == 1
    assert Path("log").read_text() == "traced\n"


def test_special_files():
    x = _ones()
    assert tp.jit(lambda x: x * (1 + len(open(os.devnull).read())))(x).cpu().tolist() == [1, 1, 1]
    for path in ("/dev/zero", "/proc/self/stat"):
        message = refusal(lambda x, path=path: x * len(open(path).read(1)), x)
        assert f"{path} was read" in message
        assert "test_open_files.py" in message
    assert "/proc was read" in refusal(lambda x: x * len(os.listdir("/proc")), x)
