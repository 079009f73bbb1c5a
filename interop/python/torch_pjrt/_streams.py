"""Streams and events of ``torch.pjrt``: one ordered stream a device."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch

from . import _native
from ._devices import DeviceLike, index_of, synchronize


class Event:
    """A point in the device's one stream of work.

    ``record`` waits for the work before it, so a recorded event has always happened: ``query`` is True, ``wait`` and
    ``synchronize`` return at once, and ``elapsed_time`` gives the milliseconds between two recorded ones.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise RuntimeError("torch.pjrt.Event: interprocess: got True, expected False: events stay in one process")
        self.enable_timing = enable_timing
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Waits for the work launched so far; raises what went wrong in it."""
        _native.synchronize()
        self._time = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""
        return None

    def query(self) -> bool:
        """True: what was recorded has happened."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to ``end_event``; ``ValueError`` unless both were made with
        ``enable_timing=True`` and recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("torch.pjrt.Event.elapsed_time: both events must be made with enable_timing=True")
        if self._time is None or end_event._time is None:
            raise ValueError("torch.pjrt.Event.elapsed_time: both events must be recorded before")
        return (end_event._time - self._time) * 1e3


class Stream:
    """The device's one stream. Making another gives the same order of work, so code written for streams is right."""

    stream_id = 0

    def __init__(self, device: DeviceLike = None, priority: int = 0) -> None:
        self.device_index = index_of(device)
        self.device = torch.device("pjrt", self.device_index)
        self.priority = priority

    def synchronize(self) -> None:
        """Waits for all work launched so far; raises what went wrong in it."""
        synchronize(self.device)

    def query(self) -> bool:
        """Whether all work is done; waits for it, since one stream has nothing to overlap with."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for: work is in one order."""

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for: work is in one order."""

    def record_event(self, event: Event | None = None) -> Event:
        """``event``, or a new one, recorded."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.device_index == self.device_index

    def __hash__(self) -> int:
        return hash(("pjrt stream", self.device_index))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def current_stream(device: DeviceLike = None) -> Stream:
    """The device's one stream."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Stream) -> None:
    """Nothing to choose: a device has one stream."""


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[Stream | None]:
    """``with torch.pjrt.stream(s):`` for code written for several streams; there is one."""
    yield stream
