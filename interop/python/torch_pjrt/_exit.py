"""Lets autograd's threads come to rest before the interpreter goes.

Backward returns to its caller while the thread that ran it still holds Python objects of the task (the context that
torch keeps with it). A thread that asks for the interpreter's lock during finalization is ended by Python from within a
C++ destructor, which ends the process: a program whose last act is a backward would now and then exit with an abort.
"""

from __future__ import annotations

import atexit
import time
from pathlib import Path

_POLL = 0.001  # seconds; sleeping also gives the lock away
_LIMIT = 0.2


def _autograd_threads() -> list[Path]:
    """The folders of autograd's device threads; none where the system does not list threads so."""
    found = []
    for task in Path("/proc/self/task").glob("*"):
        try:
            if (task / "comm").read_text().startswith("pt_autograd"):
                found.append(task)
        except OSError:  # it ended meanwhile
            continue
    return found


def _sleeps(task: Path) -> bool:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return True


def _rest() -> None:
    threads = _autograd_threads()
    end, calm = time.monotonic() + _LIMIT, 0
    # Twice in a row: a thread that only waits for the lock gets it while we sleep.
    while threads and calm < 2 and time.monotonic() < end:
        time.sleep(_POLL)
        calm = calm + 1 if all(map(_sleeps, threads)) else 0


def install() -> None:
    atexit.register(_rest)
