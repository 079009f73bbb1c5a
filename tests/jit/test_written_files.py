"""Files that a function itself writes: what it put there is no question; what it both reads and changes is state."""

# ruff: noqa: SIM115

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_pjrt as tp

from tests.jit.support import close


def _ones():
    return torch.ones(3, device="pjrt")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_cache_that_the_function_fills():
    def f(x):
        if not Path("cache.npy").exists():
            np.save("cache.npy", np.full(3, 7.0, dtype=np.float32))
        return x * torch.from_numpy(np.load("cache.npy")).to("pjrt")

    f = tp.jit(f)
    for _ in range(4):
        close(f(_ones()), _ones() * 7)
    assert f.cache_info().misses == 2
    assert "the last call made or changed file" in f.cache_info().reasons[1]
    np.save("cache.npy", np.full(3, 9.0, dtype=np.float32))
    for _ in range(2):
        close(f(_ones()), _ones() * 9)
    assert f.cache_info().misses == 3


def test_what_the_function_wrote_itself_is_no_question():
    def f(x):
        Path("own").write_text("3")
        Path("new").write_text("4")
        os.replace("new", "moved")
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as file:
            (Path(folder) / "a").write_text("2")
            file.write("5")
            file.seek(0)
            inside = int((Path(folder) / "a").read_text()) * int(file.read()) * len(os.listdir(folder))
        return x * int(open("own").read()) * int(open("moved").read()) * inside

    f = tp.jit(f)
    for _ in range(3):
        close(f(_ones()), _ones() * 120)
    assert f.cache_info().misses == 1


def _counted():
    n = int(Path("count").read_text()) if os.path.exists("count") else 0
    Path("count").write_text(str(n + 1))
    return n


def _appended():
    with open("log", "a+") as log:
        log.write("x")
        log.seek(0)
        return len(log.read())


def _listed():
    Path(f"run{len(os.listdir())}").mkdir()
    return len(os.listdir())


def _removed():
    return sum((int(p.read_text()), p.unlink())[0] for p in sorted(Path().glob("item*"))[:1])


EVERY_TIME = {"counted": _counted, "appended": _appended, "listed": _listed, "removed": _removed}


@pytest.mark.parametrize("name", EVERY_TIME)
def test_what_the_function_changes_at_every_call_is_refused(name):
    f = EVERY_TIME[name]
    for folder in ("eager", "traced"):
        os.mkdir(folder)
        for k in range(4):
            Path(f"{folder}/item{k}").write_text(f"{k + 2}")
    os.chdir("eager")
    expected = [f() for _ in range(2)]
    os.chdir("../traced")
    traced = tp.jit(lambda x: x * f())
    for k in expected:
        close(traced(_ones()), _ones() * k)
    with pytest.raises(
        tp.JitError, match=r"test_written_files\.py:\d+: .*file /\S+ is read and changed.*every call.*Way"
    ):
        traced(_ones())


def test_a_change_of_the_current_folder():
    os.mkdir("inner")
    Path("inner/text").write_text("3")

    def f(x):
        with contextlib.chdir("inner"):
            return x * int(open("text").read())

    traced = tp.jit(f)
    for _ in range(3):
        close(traced(_ones()), f(_ones()))
    assert traced.cache_info().misses == 1
    Path("inner/text").write_text("44")
    close(traced(_ones()), f(_ones()))


def test_what_is_written_at_once_is_seen():
    """The times of files go on in steps."""
    f, x = tp.jit(lambda x: x * int(open("text").read())), _ones()
    for k in range(2, 9):
        Path("text").write_text(str(k))
        close(f(x), x * k)


def test_another_file_of_the_same_time_and_size():
    f, x = tp.jit(lambda x: x * int(open("text").read())), _ones()
    for k in (2, 5):
        Path("new").write_text(str(k))
        os.utime("new", ns=(10**18, 10**18))
        os.replace("new", "text")
        close(f(x), x * k)
    assert (
        f.cache_info()
        .reasons[1]
        .endswith("touched or replaced, was a file of 1 bytes of 2001-09-09 01:46:40.000000000")
    )
