"""Random numbers of the host and the clock, however they are asked for: a program would repeat them."""

import contextlib
import copy
import datetime
import os
import random
import re
import secrets
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
from os import urandom
from pathlib import Path
from random import random as draw
from time import perf_counter_ns
from uuid import uuid1

import numpy as np
import pytest
import torch
import torch_pjrt as tp
from numpy.random import RandomState, default_rng, rand
from torch.utils.checkpoint import checkpoint

from tests.jit.support import beside, refusal
from tests.support import together

KEPT = random.Random(1)
SYSTEM = random.SystemRandom()
SOURCES = {
    "random": lambda: random.random(),
    "random imported": lambda: draw(),
    "choice": lambda: random.choice([0, 1]),
    "numpy": lambda: np.random.rand(),
    "numpy imported": lambda: rand(),
    "Random": lambda: random.Random().random(),
    "a generator that is kept": lambda: KEPT.random(),
    "seeding one that is kept": lambda: KEPT.seed(),
    "SystemRandom": lambda: random.SystemRandom().random(),
    "SystemRandom that is kept": lambda: SYSTEM.random(),
    "secrets": lambda: secrets.randbelow(9),
    "bytes of secrets": lambda: secrets.token_bytes(1)[0],
    "urandom": lambda: os.urandom(1)[0],
    "urandom imported": lambda: urandom(1)[0],
    "uuid1": lambda: uuid.uuid1().time_low,
    "uuid1 imported": lambda: uuid1().time_low,
    "uuid4": lambda: uuid.uuid4().time_low,
    "default_rng": lambda: default_rng().random(),
    "RandomState": lambda: np.random.RandomState().rand(),
    "RandomState imported": lambda: RandomState().rand(),
    "bits": lambda: np.random.PCG64().random_raw() % 7,
    "a sequence of seeds": lambda: np.random.SeedSequence().entropy % 7,
    "torch": lambda: float(torch.rand(())),
    "torch.seed": lambda: torch.seed(),
    "perf_counter_ns": lambda: perf_counter_ns(),
    "thread_time": lambda: time.thread_time(),
    "localtime": lambda: time.localtime().tm_sec,
    "strftime": lambda: int(time.strftime("%S")),
    "date": lambda: datetime.date.today().day,
}


@pytest.mark.parametrize("name", SOURCES)
def test_what_differs_from_call_to_call_is_refused(name):
    source = SOURCES[name]
    line = source.__code__.co_firstlineno
    message = refusal(lambda x: x * source(), torch.ones(3).to("pjrt"))
    found = re.search(r"test_host_random\.py:(\d+)", message)
    assert found
    if name not in ("a generator that is kept", "torch"):  # of these the end of the trace shows it
        assert int(found[1]) == line
    assert "Way out" in message


THE_SAME = {
    "Random": lambda: random.Random(3).random(),
    "default_rng": lambda: default_rng(3).random(),
    "RandomState": lambda: np.random.RandomState(3).rand() * isinstance(STATE, np.random.RandomState),
    "a copy": lambda: copy.deepcopy(KEPT).random() * copy.deepcopy(STATE).rand(),
    "uuid5": lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "a").time_low,
    "a time that is given": lambda: time.localtime(5).tm_sec + int(time.strftime("%S", time.gmtime(3))),
}
STATE = np.random.RandomState(1)


@pytest.mark.parametrize("name", THE_SAME)
def test_what_is_the_same_at_every_call_is_traced(name):
    source, x = THE_SAME[name], torch.ones(3)
    f = tp.jit(lambda x: x * source())
    for _ in range(2):
        torch.testing.assert_close(f(x.to("pjrt")).cpu(), x * source())


def test_a_state_that_is_put_back_is_no_draw():
    def f(x):
        state = random.getstate()
        random.seed(5)
        k = random.random()
        random.setstate(state)
        return x * k

    torch.testing.assert_close(tp.jit(f)(torch.ones(3).to("pjrt")).cpu(), torch.ones(3) * random.Random(5).random())


def test_libraries_may_ask_for_names_and_times():
    def f(x):
        with tempfile.TemporaryDirectory() as folder:
            assert folder
        return checkpoint(torch.sin, x, use_reentrant=False) if threading.current_thread() else x

    x = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(tp.jit(f)(x.to("pjrt")).cpu(), x.sin())


def _functions():
    owners = (time, os, random, random.Random, uuid, np.random)
    return [dict(vars(m)) for m in owners], urandom, draw, perf_counter_ns, uuid1, default_rng, rand, RandomState


SOME = {"good": lambda: 1, "refused": lambda: os.urandom(1)[0], "bad": lambda: 1 // 0}


@pytest.mark.parametrize("name", SOME)
def test_all_is_put_back(name):
    before, source = _functions(), SOME[name]
    with contextlib.suppress(tp.JitError, ZeroDivisionError):
        tp.jit(lambda x: x * source())(torch.ones(3).to("pjrt"))
    assert _functions() == before


LIBRARY = """
import os, uuid

def noise():
    return os.urandom(1)[0] + 1

def name():
    return 1 if noise() else 0
"""


def test_a_library_that_draws_for_itself():
    file, scope = Path(sysconfig.get_paths()["purelib"]) / "augment" / "noise.py", {"__name__": "augment.noise"}
    exec(compile(LIBRARY, str(file), "exec"), scope)
    x = torch.ones(3).to("pjrt")
    assert "test_host_random.py" in refusal(lambda x: x * scope["noise"](), x)
    assert tp.jit(lambda x: x * scope["name"]())(x).cpu().tolist() == [1, 1, 1]


def test_other_threads_draw_while_one_traces():
    def draws():
        for name, source in SOURCES.items():
            if name != "torch.seed":
                source()

    with beside(draws) as call:

        def f(x):
            state = random.getstate(), np.random.get_state(), torch.get_rng_state(), KEPT.getstate()
            call()
            random.setstate(state[0])
            np.random.set_state(state[1])
            KEPT.setstate(state[3])
            torch.default_generator.set_state(state[2])
            return x * 2

        tp.jit(f).lower(torch.ones(3).to("pjrt"))


def _others_draw():
    random.shuffle([1, 2, 3])
    random.seed(random.random())
    np.random.rand(3)
    np.random.permutation(4)


OWN = {
    "none": lambda: 2,
    "random": random.random,
    "numpy": np.random.rand,
    "imported": lambda: draw(),
    "a generator that is kept": lambda: KEPT.random(),
}


@pytest.mark.parametrize("name", OWN)
def test_draws_of_another_thread_are_not_the_functions(name):
    own, turn, done, failures = OWN[name], threading.Semaphore(0), threading.Semaphore(0), []

    def other():
        try:
            for _ in range(2):
                assert turn.acquire(timeout=60)
                _others_draw()
                done.release()
        except BaseException as error:
            failures.append(error)

    def f(x):
        turn.release()
        assert done.acquire(timeout=60)
        x = x * own()
        turn.release()
        assert done.acquire(timeout=60)
        return x

    x = torch.ones(3).to("pjrt")
    thread = threading.Thread(target=other)
    thread.start()
    if name == "none":
        assert tp.jit(f)(x).tolist() == [2, 2, 2]
    else:
        assert "random numbers" in refusal(f, x)
    thread.join()
    assert not failures


MODULE = """
import random
import numpy
K = int(random.random() < 2) + int(numpy.random.rand() < 2)
def draw(): return random.random()
"""


def test_draws_of_an_import_are_not_the_functions(tmp_path, monkeypatch):
    (tmp_path / "drawing_at_import.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "drawing_at_import", raising=False)

    def f(x):
        import drawing_at_import

        return x * drawing_at_import.K

    def g(x):
        import drawing_at_import

        return x * drawing_at_import.draw()

    def by_text(x):
        scope = {"__name__": "some"}
        exec(MODULE, scope)
        return x * scope["K"]

    x = torch.ones(3).to("pjrt")
    assert tp.jit(f)(x).tolist() == [2, 2, 2]
    del sys.modules["drawing_at_import"]
    for drawing in (g, by_text):
        assert "random numbers of random" in refusal(drawing, x)


def test_traces_at_once_put_back_what_was_there():
    before = _functions()
    x = torch.ones(3).to("pjrt")

    def work(i):
        for _ in range(5):
            assert "random" in refusal(lambda x: x * (os.urandom(1)[0] + urandom(1)[0] + draw()) * i, x)
            tp.jit(lambda x: x * i)(x)

    together(work)
    assert _functions() == before
