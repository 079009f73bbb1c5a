"""What a function reads of files and folders: a change of them is seen, and what cannot be seen is refused."""

# ruff: noqa: SIM115, UP020

import builtins
import bz2
import contextlib
import csv
import functools
import glob
import gzip
import io
import json
import linecache
import os
import pathlib
import shutil
import sys
import tarfile
import zipfile
from io import open as opened
from os.path import exists
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close
from tests.support import together


def _ones():
    return torch.ones(3, device="pjrt")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _text(k):
    Path("text").write_text(str(k))


def _array(k):
    np.save("array.npy", np.full(3, k, dtype=np.float32))


def _archive(k):
    with zipfile.ZipFile("archive.zip", "w") as z:
        z.writestr("text", str(k))


def _tar(k):
    _text(k)
    with tarfile.open("archive.tar", "w") as t:
        t.add("text")


def _compressed(module):
    def write(k):
        with module.open("compressed", "wt") as f:
            f.write(str(k))

    return write


def _tensor(k):
    torch.save(torch.full((3,), float(k)), "tensor.pt")


def _in_folder(k):
    os.makedirs("folder", exist_ok=True)
    for i in range(k):
        Path(f"folder/{i}.txt").touch()


def _named(k):
    for p in Path().glob("k*"):
        p.unlink()
    Path(f"k{k}").touch()


def _link(k):
    Path(f"k{k}").write_text(str(k))
    Path("link").unlink(missing_ok=True)
    Path("link").symlink_to(f"k{k}")


def _there(k):
    if k == 5:
        Path("there").touch()


def _saved(k):
    from safetensors.torch import save_file

    save_file({"a": torch.full((3,), float(k))}, "saved.safetensors")


def _loaded():
    from safetensors.torch import load_file

    return load_file("saved.safetensors")["a"].to("pjrt")


def _with(manager, read):
    def call():
        with manager() as f:
            return read(f)

    return call


def _raw():
    fd = os.open("text", os.O_RDONLY)
    try:
        return int(os.read(fd, 9))
    finally:
        os.close(fd)


def _tried():
    try:
        return open("there").read().count("x") + 5
    except FileNotFoundError:
        return 2


def _by_default(path, op=open, /, *, there=os.path.exists):
    return int(op(path).read()) * there(path)


class _Reader:
    op = open
    ask = staticmethod(os.path.getsize)

    def read(self):
        return int(self.op("text").read()) * self.ask("text")


_reader, _partial = _Reader(), functools.partial(open, "text", mode="r")
# How a 2 or a 5 is written, and how it is read.
READ = {
    "open": (_text, lambda: int(open("text").read())),
    "open, imported": (_text, lambda: int(opened("text").read())),
    "open, by default": (_text, lambda: _by_default("text")),
    "open, in a class": (_text, lambda: _reader.read()),
    "open, in a partial": (_text, lambda: int(_partial().read())),
    "io.open": (_text, lambda: int(io.open("text").read())),
    "a whole path": (_text, lambda: int(open(os.path.abspath("text")).read())),
    "bytes": (_text, lambda: int(open(b"text", "rb").read())),
    "read_text": (_text, lambda: int(Path("text").read_text())),
    "read_bytes": (_text, lambda: int(Path("text").read_bytes())),
    "resolve": (_text, lambda: int(Path("text").resolve().read_text())),
    "r+": (_text, lambda: int(open("text", "r+").read())),
    "FileIO": (_text, lambda: int(io.FileIO("text").read())),
    "os.open": (_text, _raw),
    "open_code": (_text, lambda: int(io.open_code(os.path.abspath("text")).read())),
    "fileno": (_text, _with(lambda: open("text"), lambda f: int(os.read(f.fileno(), 9)))),
    "json": (_text, lambda: json.load(open("text"))),
    "loadtxt": (_text, lambda: float(np.loadtxt("text"))),
    "genfromtxt": (_text, lambda: float(np.genfromtxt("text"))),
    "csv": (_text, lambda: int(next(csv.reader(open("text")))[0])),
    "load": (_array, lambda: torch.from_numpy(np.load("array.npy")).to("pjrt")),
    "load, mapped": (_array, lambda: float(np.load("array.npy", mmap_mode="r")[0])),
    "fromfile": (_array, lambda: float(np.fromfile("array.npy", dtype=np.float32)[-1])),
    "memmap": (_array, lambda: float(np.memmap("array.npy", dtype=np.float32, mode="r")[-1])),
    "torch.load": (_tensor, lambda: torch.load("tensor.pt").to("pjrt")),
    "torch.from_file": (_array, lambda: float(torch.from_file("array.npy", size=35)[-1])),
    "safetensors": (_saved, _loaded),
    "zip": (_archive, _with(lambda: zipfile.ZipFile("archive.zip"), lambda z: int(z.read("text")))),
    "tar": (_tar, _with(lambda: tarfile.open("archive.tar"), lambda t: int(t.extractfile("text").read()))),
    "gzip": (_compressed(gzip), _with(lambda: gzip.open("compressed", "rt"), lambda f: int(f.read()))),
    "bz2": (_compressed(bz2), _with(lambda: bz2.open("compressed", "rt"), lambda f: int(f.read()))),
    "listdir": (_in_folder, lambda: len(os.listdir("folder"))),
    "listdir of the current folder": (_named, lambda: int(os.listdir()[0][1:])),
    "scandir": (_in_folder, lambda: sum(e.is_file() for e in os.scandir("folder"))),
    "walk": (_in_folder, lambda: sum(len(files) for _, _, files in os.walk("."))),
    "glob": (_in_folder, lambda: len(glob.glob("folder/*.txt"))),
    "glob of folders": (_in_folder, lambda: len(glob.glob("**/*.txt", recursive=True))),
    "Path.glob": (_in_folder, lambda: len(list(Path().glob("*/*.txt")))),
    "iterdir": (_in_folder, lambda: len(list(Path("folder").iterdir()))),
    "readlink": (_link, lambda: int(os.readlink("link")[1:])),
    "realpath": (_link, lambda: int(os.path.realpath("link")[-1])),
    "through a link": (_link, lambda: int(Path("link").read_text())),
    "exists": (_there, lambda: 5 if os.path.exists("there") else 2),
    "exists, imported": (_there, lambda: 5 if exists("there") else 2),
    "Path.exists": (_there, lambda: 5 if Path("there").exists() else 2),
    "isfile": (_there, lambda: 5 if os.path.isfile("there") else 2),
    "is_file": (_there, lambda: 5 if Path("there").is_file() else 2),
    "lexists": (_there, lambda: 5 if os.path.lexists("there") else 2),
    "access": (_there, lambda: 5 if os.access("there", os.R_OK) else 2),
    "tried": (_there, _tried),
    "getsize": (lambda k: Path("text").write_text("x" * k), lambda: os.path.getsize("text")),
    "size of an entry": (
        lambda k: Path("text").write_text("x" * k),
        lambda: next(e.stat().st_size for e in os.scandir(".") if e.name == "text"),
    ),
    "getmtime": (lambda k: (_text(0), os.utime("text", (k, k))), lambda: os.path.getmtime("text")),
    "stat": (lambda k: Path("text").write_text("x" * k), lambda: os.stat("text").st_size),
    "Path.stat": (lambda k: Path("text").write_text("x" * k), lambda: Path("text").stat().st_size),
    "lstat": (_link, lambda: os.lstat("link").st_size + int(Path("link").read_text())),
    "fstat": (
        lambda k: Path("text").write_text("x" * k),
        _with(lambda: open("text"), lambda f: os.fstat(f.fileno()).st_size),
    ),
    "getcwd": (lambda k: (os.makedirs(f"{k}"), os.chdir(f"{k}")), lambda: int(Path(os.getcwd()).name)),
    "Path.cwd": (lambda k: (os.makedirs(f"{k}"), os.chdir(f"{k}")), lambda: int(Path.cwd().name)),
    "another current folder": (
        lambda k: (os.makedirs(f"{k}"), os.chdir(f"{k}"), _text(k)),
        lambda: int(open("text").read()),
    ),
    "expanduser": (lambda k: os.environ.__setitem__("HOME", f"/{k}"), lambda: int(Path.home().name)),
}


@pytest.mark.parametrize("name", READ)
def test_a_change_is_seen(name, monkeypatch):
    write, read = READ[name]
    monkeypatch.setenv("HOME", "/")
    traced, x = tp.jit(lambda x: x * read()), _ones()
    write(2)
    was = x * read()
    for _ in range(3):
        close(traced(x), was)
    assert traced.cache_info().misses == 1
    write(5)
    assert not torch.equal(was.cpu(), (x * read()).cpu())
    for _ in range(3):
        close(traced(x), x * read())
    info = traced.cache_info()
    assert (info.hits, info.misses) == (4, 2)
    assert info.reasons[1].startswith(("file /", "the current folder is ", "path "))


def test_the_reason_names_the_file(tmp_path):
    _text(2)
    f = tp.jit(lambda x: x * int(open("text").read()))
    f(_ones())
    _text(55)
    f(_ones())
    path = tmp_path / "text"
    assert f.cache_info().reasons[1].startswith(f"file {path} is a file of 2 bytes of 2")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        f(_ones())
    assert f.cache_info().reasons[2].startswith(f"file {path} is missing (errno 2), was a file of 2 bytes of 2")


def test_linecache_is_as_in_eager():
    _text(2)
    path = os.path.abspath("text")

    def f(x):
        linecache.checkcache(path)
        return x * int(linecache.getline(path, 1))

    traced = tp.jit(f)
    for k in (2, 2, 555, 555):
        _text(k) if k == 555 and int(Path("text").read_text()) != k else None
        close(traced(_ones()), f(_ones()))
    assert traced.cache_info().misses == 2


def test_what_only_stays_or_is_not_read_is_no_new_trace(tmp_path):
    os.makedirs("folder")
    _text(2)

    def f(x):
        os.makedirs("folder/out", exist_ok=True)
        Path("folder").mkdir(parents=True, exist_ok=True)
        assert Path("folder").is_dir()
        assert os.path.isdir(os.path.realpath("folder"))
        with open("folder/log", "a") as log:
            log.write("traced\n")
        return x * int((tmp_path / "text").resolve().read_text())

    traced = tp.jit(f)
    for k in range(4):
        Path(f"folder/{k}").touch()
        Path(f"{k}").touch()
        close(traced(_ones()), _ones() * 2)
    assert traced.cache_info().misses == 1
    assert Path("folder/log").read_text() == "traced\n"


def test_without_files_nothing_is_asked(monkeypatch):
    from torch_pjrt._questions import Files

    rows, theirs = [], Files.rows
    monkeypatch.setattr(Files, "rows", lambda self: rows.append(list(theirs(self))) or iter(rows[-1]))
    layer = torch.nn.Linear(3, 3).to("pjrt")
    optimizer = torch.optim.Adam(layer.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = tp.jit(step)
    for _ in range(3):
        step(_ones())
    assert rows == [[], []]
    _text(2)
    tp.jit(lambda x: x * len(open("text").read() + Path("text").read_text()) * os.path.exists("text"))(_ones())
    assert [row[-1].rpartition("/")[2] for row in rows[2]] == ["the current folder", "text"]


def test_a_trace_that_is_made_twice():
    def f(x, s):
        with open("log", "a") as log:
            log.write("traced\n")
        k = int(Path("text").read_text())
        if type(s) is not float:  # a number that is followed
            raise TypeError
        return x * k * s

    traced = tp.jit(f)
    for k in (2, 3):
        _text(k)
        for _ in range(2):
            close(traced(_ones(), 0.5), _ones() * k * 0.5)
    assert traced.cache_info().misses == 2
    assert Path("log").read_text() == "traced\n" * 4


def test_an_import_is_no_read(tmp_path, monkeypatch):
    (tmp_path / "read_by_test.py").write_text("K = int(open('text').read())\n")
    _text(2)
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x):
        import read_by_test

        return x * read_by_test.K

    f = tp.jit(f)
    try:
        for _ in range(3):
            close(f(_ones()), _ones() * 2)
            _text(5)
    finally:
        del sys.modules["read_by_test"]
    # The second trace looks at the module, which was not there before the first.
    assert f.cache_info().misses == 2


def _functions():
    owners = (builtins, io, os, os.path, glob, pathlib.Path, shutil, sys.modules["tokenize"], bz2, tarfile)
    held = _Reader.__dict__["op"], _Reader.__dict__["ask"], _by_default.__defaults__, _partial.func, _partial.args
    return [dict(vars(m)) for m in owners], opened, exists, held


@pytest.mark.parametrize("name", ["good", "refused", "bad"])
def test_all_is_put_back(name):
    before = _functions()
    source = {
        "good": lambda: len(os.listdir()) if _reader and _by_default and _partial else 0,
        "refused": lambda: open("/dev/zero").read(1),
        "bad": lambda: 1 // 0,
    }
    with contextlib.suppress(tp.JitError, ZeroDivisionError):
        tp.jit(lambda x: x * source[name]())(_ones())
    assert _functions() == before
    assert isinstance(open(os.devnull, "rb", 0), io.FileIO)


def test_traces_at_once():
    before = _functions()
    for i in range(4):
        Path(f"{i}").write_text("1")

    def work(i):
        read = functools.partial(lambda i: int(opened(f"{i}").read()) if exists(f"{i}") else 0, i)
        f = tp.jit(lambda x: x * read())
        for k in range(1, 6):
            Path(f"{i}").write_text("1" * k)
            for _ in range(2):
                assert f(_ones()).cpu().tolist() == [float("1" * k)] * 3
        info = f.cache_info()
        assert info.misses == 5
        assert all(f"{i} is " in r for r in info.reasons[1:])

    together(work)
    assert _functions() == before
