"""``torch.pjrt``: what users expect of a device module, and the parts of ``torch.accelerator`` that need help.

Nothing here creates a PJRT client except what has to touch the device (``synchronize`` once something ran,
``memory_stats``, ``get_device_name``). The native module supplies:

==============================  ==============================================================================
``is_available() -> bool``       a plugin can be chosen; loads nothing, creates nothing
``device_count() -> int``        devices this process drives (0 without a plugin); creates no client
``is_initialized() -> bool``     the client exists in this process
``in_bad_fork() -> bool``        the client exists in a parent of this process
``synchronize() -> None``        waits for everything launched, raises what went wrong meanwhile
``device_name() -> str``         the plugin's platform name and version
``memory_stats() -> dict``       counters by name, at least ``bytes_in_use`` and ``peak_bytes_in_use``
``reset_peak_memory() -> None``  peak := in use
``empty_cache() -> None``        drops cached scalars and other buffers that nothing refers to
``manual_seed(int)``             restarts the counter-based generator
``initial_seed() -> int``        the seed it was started from
``get_rng_state() -> bytes``     seed and counter
``set_rng_state(bytes)``         puts them back
==============================  ==============================================================================
"""

from __future__ import annotations

import contextlib
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _native

__all__ = [
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

DeviceLike = torch.device | str | int | None


def _index(device: DeviceLike = None) -> int:
    """The index that ``device`` names; RuntimeError if it is another kind of device or out of range."""
    if device is None:
        return current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "pjrt":
            raise RuntimeError(f"torch.pjrt: device: got {device}, expected a pjrt device; use torch.device('pjrt')")
        device = 0 if device.index is None else device.index
    count = device_count()
    if not 0 <= device < max(count, 1):
        raise RuntimeError(f"torch.pjrt: device index: got {device}, expected 0 <= index < {count}")
    return device


# --- devices -----------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether a PJRT plugin is installed and chosen; creates no client."""
    return bool(_native.is_available())


def is_initialized() -> bool:
    """Whether this process has its PJRT client already."""
    return bool(_native.is_initialized())


def init() -> None:
    """Nothing to do: the client is made on first use."""


def device_count() -> int:
    """Number of devices that this process drives; 0 without a plugin. Creates no client."""
    return int(_native.device_count())


def current_device() -> int:
    """Index of the selected device."""
    return 0


def set_device(device: DeviceLike) -> None:
    """Selects the device of index ``device``; RuntimeError where there is none."""
    _index(device)


class device:
    """``with torch.pjrt.device(i):`` selects device ``i`` meanwhile; None or a negative index changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else _index(device)

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class device_of(device):
    """``with torch.pjrt.device_of(tensor):`` selects the tensor's device; other devices' tensors change nothing."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "pjrt" else None)


def get_device_name(device: DeviceLike = None) -> str:
    """The plugin's platform name and version. Creates the client."""
    _index(device)
    return str(_native.device_name())


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """``{"supported_dtypes": {...}}``: what tensors can be allocated in and converted between."""
    _index(device)
    names = (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    return {"supported_dtypes": {getattr(torch, name) for name in names.split()}}


def get_device_properties(device: DeviceLike = None) -> types.SimpleNamespace:
    """``name`` and ``total_memory`` (bytes; 0 where the plugin does not say). Creates the client."""
    name = get_device_name(device)
    return types.SimpleNamespace(name=name, total_memory=memory_stats(device).get("bytes_limit", 0))


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all work launched so far. An error of that work is raised here if no read raised it before."""
    _index(device)
    _native.synchronize()


# --- streams and events: one ordered stream a device ---------------------------------------------------------------


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
        _native.synchronize()
        self._time = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        return None

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        return None

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to ``end_event``; both made with ``enable_timing=True`` and recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("torch.pjrt.Event.elapsed_time: both events must be made with enable_timing=True")
        if self._time is None or end_event._time is None:
            raise ValueError("torch.pjrt.Event.elapsed_time: both events must be recorded before")
        return (end_event._time - self._time) * 1e3


class Stream:
    """The device's one stream. Making another gives the same order of work, so code written for streams is right."""

    stream_id = 0

    def __init__(self, device: DeviceLike = None, priority: int = 0) -> None:
        self.device_index = _index(device)
        self.device = torch.device("pjrt", self.device_index)
        self.priority = priority

    def synchronize(self) -> None:
        synchronize(self.device)

    def query(self) -> bool:
        """Whether all work is done; waits for it, since one stream has nothing to overlap with."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        return None

    def wait_event(self, event: Event) -> None:
        return None

    def record_event(self, event: Event | None = None) -> Event:
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


# --- memory --------------------------------------------------------------------------------------------------------


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Counters of the plugin (``bytes_in_use``, ``peak_bytes_in_use``, ...) and torch's names for them, in bytes."""
    _index(device)
    stats = dict(_native.memory_stats())
    stats["allocated_bytes.all.current"] = stats.get("bytes_in_use", 0)
    stats["allocated_bytes.all.peak"] = stats.get("peak_bytes_in_use", 0)
    stats["reserved_bytes.all.current"] = stats.get("bytes_reserved", stats.get("bytes_in_use", 0))
    stats["reserved_bytes.all.peak"] = stats.get("peak_bytes_reserved", stats.get("peak_bytes_in_use", 0))
    return stats


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that live tensors hold on the device."""
    return int(memory_stats(device)["allocated_bytes.all.current"])


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Most bytes held at once since the start or ``reset_peak_memory_stats``."""
    return int(memory_stats(device)["allocated_bytes.all.peak"])


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the plugin's allocator holds; what is in use where it does not say."""
    return int(memory_stats(device)["reserved_bytes.all.current"])


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Peak of ``memory_reserved``."""
    return int(memory_stats(device)["reserved_bytes.all.peak"])


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of the device; (0, 0) where the plugin does not say."""
    stats = memory_stats(device)
    total = int(stats.get("bytes_limit", 0))
    return max(total - int(stats.get("bytes_in_use", 0)), 0) if total else 0, total


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Starts ``max_memory_allocated`` again from what is in use."""
    _index(device)
    _native.reset_peak_memory()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Nothing is accumulated but the peak, which ``reset_peak_memory_stats`` resets."""
    _index(device)


def empty_cache() -> None:
    """Releases buffers that only caches hold."""
    _native.empty_cache()


# --- random numbers ------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Restarts the generator: one seed gives the same numbers in every mode and on every plugin."""
    _native.manual_seed(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)


manual_seed_all = manual_seed


def seed() -> int:
    """Seeds from the system's entropy and returns the seed."""
    value = int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=_entropy()).item())
    manual_seed(value)
    return value


seed_all = seed


def _entropy() -> torch.Generator:
    generator = torch.Generator()
    generator.seed()
    return generator


def initial_seed() -> int:
    """The seed that the generator was started from."""
    return int(_native.initial_seed())


def get_rng_state(device: DeviceLike = "pjrt") -> torch.Tensor:
    """The generator's state as a CPU tensor of bytes, for ``set_rng_state``."""
    _index(device)
    return torch.tensor(list(_native.get_rng_state()), dtype=torch.uint8, device="cpu")


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "pjrt") -> None:
    """Puts back a state that ``get_rng_state`` gave."""
    _index(device)
    if new_state.dtype != torch.uint8:
        raise TypeError(f"torch.pjrt.set_rng_state: new_state: got {new_state.dtype}, expected a uint8 tensor")
    _native.set_rng_state(bytes(new_state.cpu().tolist()))


def get_rng_state_all() -> list[torch.Tensor]:
    """One state for each device."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Puts back what ``get_rng_state_all`` gave."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


# --- mixed precision and forks -------------------------------------------------------------------------------------


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What ``torch.autocast("pjrt", dtype=...)`` takes."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: StableHLO has bfloat16 on every plugin."""
    return True


def _is_in_bad_fork() -> bool:
    """Whether a parent process owns the client: a forked child must not touch the device."""
    return bool(_native.in_bad_fork())


def _lazy_init() -> None:
    """torch calls this before it makes tensors on some paths; the client comes with the first use."""


class _Module(types.ModuleType):
    """Makes ``torch.pjrt._initialized`` a live answer instead of a copied one."""

    @property
    def _initialized(self) -> bool:
        return is_initialized()


sys.modules[__name__].__class__ = _Module


# --- torch.accelerator ---------------------------------------------------------------------------------------------


class _DefaultGenerator:
    """What ``torch.accelerator.random`` asks of a generator."""

    @property
    def device(self) -> torch.device:
        return torch.device("pjrt", 0)  # not at import: the name is known only once the device is registered

    get_state = staticmethod(get_rng_state)
    set_state = staticmethod(set_rng_state)
    initial_seed = staticmethod(initial_seed)
    manual_seed = staticmethod(manual_seed)
    seed = staticmethod(seed)


def _nested_stats(index: int) -> dict[str, Any]:
    """The stats in the nesting that torch.accelerator.memory flattens."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(index).items():
        *path, last = name.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return nested


def _serve_accelerator() -> None:
    """Routes the entry points of ``torch.accelerator`` that end in C++ hooks a Python device cannot give.

    Where pjrt is not the current accelerator they do what they did.
    """
    serve: dict[str, Callable[..., Any]] = {
        "_accelerator_synchronizeDevice": synchronize,
        "_accelerator_emptyCache": lambda: empty_cache(),
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_isAllocatorInitialized": is_initialized,
        "_accelerator_getDeviceStats": _nested_stats,
        "_accelerator_getMemoryInfo": mem_get_info,
        "_accelerator_resetAccumulatedStats": reset_accumulated_memory_stats,
        "_accelerator_resetPeakStats": reset_peak_memory_stats,
        "_accelerator_getDeviceCapability": get_device_capability,
        "_accelerator_getDefaultGenerator": lambda index=0: _DefaultGenerator(),
    }
    for name, ours in serve.items():
        theirs = getattr(torch._C, name, None)
        if theirs is None:  # an older torch that does not have this entry point yet
            continue

        def route(*args: Any, _ours: Callable = ours, _theirs: Callable = theirs, **kwargs: Any) -> Any:
            current = torch._C._accelerator_getAccelerator()
            return (_ours if current is not None and current.type == "pjrt" else _theirs)(*args, **kwargs)

        setattr(torch._C, name, route)
