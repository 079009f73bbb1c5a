"""The network, other processes, the terminal and the system inside a function: a program would repeat what they say."""

import contextlib
import http.client
import io
import multiprocessing
import os
import pickle
import re
import resource
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from os import getppid
from pathlib import Path
from socket import create_connection
from subprocess import run

import pytest
import torch
import torch_pjrt as tp
from torch import Generator

from tests.jit.support import beside, close, refusal
from tests.support import together

NEAR, FAR = socket.socketpair()
CHILD = multiprocessing.Pipe()
HELD = torch.Generator()


def _ones():
    return torch.ones(3, device="pjrt")


def _request():
    connection = http.client.HTTPConnection("127.0.0.1", 9)
    connection.request("GET", "/")
    return connection.getresponse().status


def _thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(2.0))
    thread.start()
    thread.join()
    return found[0]


POOL = ThreadPoolExecutor(1)
EVENT = threading.Event()

ASKED = {
    "thread": _thread,
    "pool": lambda: POOL.submit(lambda: 2.0).result(),
    "map of a pool": lambda: next(POOL.map(abs, [2.0])),
    "event": lambda: float(EVENT.wait(0)),
    "run": lambda: subprocess.run(["true"]).returncode,
    "run, imported": lambda: run(["true"]).returncode,
    "check_output": lambda: len(subprocess.check_output("echo", shell=True)),
    "Popen": lambda: subprocess.Popen(["true"]).wait(),
    "popen": lambda: len(os.popen("echo").read()),
    "system": lambda: os.system("true"),
    "fork": lambda: os.fork(),
    "connect": lambda: socket.socket().connect_ex(("127.0.0.1", 9)),
    "create_connection": lambda: socket.create_connection(("127.0.0.1", 9)),
    "create_connection, imported": lambda: create_connection(("127.0.0.1", 9)),
    "urlopen": lambda: urllib.request.urlopen("http://127.0.0.1:9").status,
    "http": _request,
    "hub": lambda: torch.hub.download_url_to_file("http://127.0.0.1:9/a", "unwritten"),
    "a name": lambda: len(socket.getaddrinfo("localhost", 9)),
    "a host": lambda: len(socket.gethostbyname("localhost")),
    "own host": lambda: len(socket.gethostname()),
    "recv": lambda: len(NEAR.recv(1)),
    "makefile": lambda: len(NEAR.makefile("rb", 0).read(1)),
    "accept": lambda: NEAR.accept(),
    "a connection": lambda: CHILD[0].recv(),
    "input": lambda: len(input()),
    "stdin": lambda: len(sys.stdin.readline()),
    "stdin, a loop": lambda: next(len(line) for line in sys.stdin),
    "stdin, bytes": lambda: len(sys.stdin.buffer.read()),
    "getppid": lambda: os.getppid() % 7,
    "getppid, imported": lambda: getppid() % 7,
    "get_ident": lambda: threading.get_ident() % 7,
    "getloadavg": lambda: os.getloadavg()[0],
    "times": lambda: os.times().user,
    "getrusage": lambda: resource.getrusage(resource.RUSAGE_SELF).ru_utime,
    "disk_usage": lambda: shutil.disk_usage("/").free % 7,
    "terminal": lambda: shutil.get_terminal_size((80, 24)).columns,
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_outside_is_refused(name, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab\n")))
    source = ASKED[name]
    monkeypatch.delenv("COLUMNS", raising=False)
    message = refusal(lambda x: x * source(), _ones())
    line = source.__code__.co_firstlineno
    found = re.search(r"test_outside\.py:(\d+): outside: ", message)
    assert found
    assert line <= int(found[1]) <= line + 3
    assert "Way out: do it outside the function and pass the result as an argument" in message
    assert sys.stdin.read() == "ab\n"
    for end in (NEAR, CHILD[0]):
        assert not select.select([end], [], [], 0)[0]


LIBRARY = """
import os, subprocess, threading

def version():
    return subprocess.run(["true"]).returncode + 2

def deep():
    return (lambda: version())()

def debug():
    return len(input())

def name():
    return 1 + 0 * (os.getppid() + threading.get_ident())
"""


def test_a_library_that_asks(monkeypatch):
    file, scope = Path(sysconfig.get_paths()["purelib"]) / "outer" / "asks.py", {"__name__": "outer.asks"}
    exec(compile(LIBRARY, str(file), "exec"), scope)
    for name in ("version", "deep"):
        assert "subprocess.Popen.__init__()" in refusal(lambda x, name=name: x * scope[name](), _ones())
    close(tp.jit(lambda x: x * scope["name"]())(_ones()), _ones())
    monkeypatch.setattr(sys, "stdin", io.StringIO("ab\n"))
    close(tp.jit(lambda x: x * scope["debug"]())(_ones()), _ones() * 2)


def test_an_import_may_ask(tmp_path, monkeypatch):
    (tmp_path / "asked_by_test.py").write_text("import subprocess\nK = 3 + subprocess.run(['true']).returncode\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x):
        import asked_by_test

        return x * asked_by_test.K

    try:
        close(tp.jit(f)(_ones()), _ones() * 3)
    finally:
        sys.modules.pop("asked_by_test", None)


def test_the_environment_as_bytes(monkeypatch):
    monkeypatch.setenv("TEST_OUTSIDE", "2")
    f, g = (
        tp.jit(lambda x: x * int(os.environb[b"TEST_OUTSIDE"])),
        tp.jit(lambda x: x * int(os.getenvb(b"TEST_OUTSIDE"))),
    )
    for k in ("2", "5"):
        os.environ["TEST_OUTSIDE"] = k
        for traced in (f, g):
            close(traced(_ones()), _ones() * int(k))


DRAWN = {
    "seed": lambda: torch.Generator().seed() % 7,
    "imported": lambda: Generator().seed() % 7,
    "of a device": lambda: torch.Generator(device="cpu").seed() % 7,
    "kept": lambda: HELD.seed() % 7,
    "torch.seed": lambda: torch.seed() % 7,
    "torch.initial_seed": lambda: torch.initial_seed() % 7,
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_that_differs_is_refused(name):
    message = refusal(lambda x: x * DRAWN[name](), _ones())
    assert "test_outside.py" in message
    assert "random" in message


def test_a_generator_with_a_seed_is_one_of_torch():
    def f(x):
        g = torch.Generator("cpu").manual_seed(3)
        assert isinstance(g, torch.Generator)
        assert isinstance(HELD, Generator)
        assert issubclass(type(HELD), torch.Generator)
        assert isinstance(pickle.loads(pickle.dumps(g)), torch.Generator)
        assert torch.Generator().initial_seed() == 67280421310721
        return x * float(torch.rand((), generator=g)), g

    traced = tp.jit(f)
    theirs = torch.Generator
    with pytest.raises(tp.JitError, match="seed"):
        tp.jit(lambda x: x * torch.Generator().seed())(_ones())
    assert torch.Generator is torch._C.Generator is Generator is theirs
    for _ in range(2):
        out, g = traced(_ones())
        close(out, f(_ones())[0])
        assert isinstance(g, Generator)
        assert g.initial_seed() == 3
    assert g.seed() != 3


def test_an_error_of_the_process_that_ended_before():
    done = subprocess.run(["true"], capture_output=True)
    close(tp.jit(lambda x: x * (1 + done.returncode))(_ones()), _ones())


def _functions():
    owners = (os, socket, socket.socket, subprocess.Popen, threading, resource, sys, torch, torch._C)
    owners = (*owners, multiprocessing.connection._ConnectionBase)
    return [dict(vars(m)) for m in owners], create_connection, run, getppid, Generator, input


@pytest.mark.parametrize("name", ["good", "refused", "bad"])
def test_all_is_put_back(name):
    before = _functions()
    source = {"good": lambda: 2, "refused": lambda: socket.socket().connect(("127.0.0.1", 9)), "bad": lambda: 1 // 0}
    with contextlib.suppress(tp.JitError, ZeroDivisionError):
        tp.jit(lambda x: x * source[name]())(_ones())
    assert _functions() == before
    FAR.send(b"a")
    assert NEAR.recv(1) == b"a"


def test_other_threads_ask_while_one_traces():
    def asks():
        FAR.send(b"a")
        assert NEAR.recv(1) == b"a"
        assert run(["true"]).returncode == subprocess.Popen(["true"]).wait() == 0
        assert os.getppid() == getppid()
        torch.Generator().seed()

    with beside(asks) as call:

        def f(x):
            call()
            return x * 2

        tp.jit(f).lower(_ones())


def test_traces_at_once():
    before = _functions()

    def work(i):
        for _ in range(5):
            assert "getppid" in refusal(lambda x: x * getppid(), _ones())
            assert "Popen" in refusal(lambda x: x * (run(["true"]).returncode + os.getppid()), _ones())
            close(tp.jit(lambda x: x * i)(_ones()), _ones() * i)

    together(work)
    assert _functions() == before
