"""The network, other processes and threads, the terminal, the system's counts inside a trace: what they say then would
be the same at every call."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ._jit_errors import refusal
from ._replaced import asked_anyhow, asked_by_user

with contextlib.suppress(ImportError):  # not on every system; what is imported in a trace is not refused
    import resource as resource

# Of modules, or of classes in them: functions that are refused by whatever library they are called.
_ANYHOW = {
    "os": ("system", "fork", "forkpty", "posix_spawn", "posix_spawnp", "statvfs", "fstatvfs"),
    "subprocess.Popen": ("__init__", "communicate", "poll", "wait"),
    "socket": ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"),
    "socket.socket": (
        *("connect", "connect_ex", "accept", "recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg"),
        "recvmsg_into",
    ),
    "ssl.SSLSocket": ("read", "recv", "recv_into"),
    "concurrent.futures._base.Future": ("result", "exception"),
    "multiprocessing.connection._ConnectionBase": ("recv", "recv_bytes", "recv_bytes_into", "poll"),
}
# Those that libraries may ask for, for messages and names, and a debugger.
_DIRECTLY = {
    "builtins": ("input",),
    "os": ("getppid", "getloadavg", "times", "get_terminal_size"),
    "threading": ("get_ident", "get_native_id"),
    "threading.Thread": ("start", "join"),
    "threading.Event": ("wait",),
    "threading.Condition": ("wait", "wait_for"),
    "threading.Barrier": ("wait",),
    "socket": ("gethostname", "getfqdn"),
    "resource": ("getrusage",),
}
_READS = {"read", "readline", "readlines", "readinto", "buffer", "detach"}


def places() -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """What refuses them to the user's code."""
    for path in {**_ANYHOW, **_DIRECTLY}:
        # A class has the name of its module before its own.
        if (found := sys.modules.get(path) or sys.modules.get(path.rpartition(".")[0])) is not None:
            yield from _of(path, found)
    if sys.stdin is not None:
        yield sys, "stdin", _terminal


@functools.lru_cache(maxsize=64)
def _of(path: str, module: Any) -> list[tuple[Any, str, Callable[[Any], Any]]]:
    owner = module if module.__name__ == path else getattr(module, path.rpartition(".")[2], None)
    return [
        (owner, name, functools.partial(_refusing, f"{path}.{name}()", beyond))
        for table, beyond in ((_ANYHOW, True), (_DIRECTLY, False))
        for name in table.get(path, ())
        if hasattr(owner, name)
    ]


@functools.lru_cache(maxsize=256)
def _refusing(name: str, beyond: bool, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*args: Any, **kwargs: Any) -> Any:
        if asked_anyhow() if beyond else asked_by_user(("shutil",)):
            raise refusal("outside", f": {name}")
        return theirs(*args, **kwargs)

    return asked


@functools.lru_cache(maxsize=4)
def _terminal(theirs: Any) -> Any:
    class Terminal:
        """The standard input, which is not read inside a trace."""

        @property  # type: ignore[misc]
        def __class__(self) -> Any:
            return type(theirs)

        def __getattr__(self, name: str) -> Any:
            if name in _READS and asked_by_user():
                raise refusal("outside", f": sys.stdin.{name}")
            return getattr(theirs, name)

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            if asked_by_user():
                raise refusal("outside", ": sys.stdin")
            return next(theirs)

    return Terminal()
