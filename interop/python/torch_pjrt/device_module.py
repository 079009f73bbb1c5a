"""``torch.pjrt``: what users expect of a device module, and the parts of ``torch.accelerator`` that need help.

A ``device`` is None (the selected one), an index, a name or a ``torch.device``; another kind of device, or an index out
of range, raises ``RuntimeError``. Nothing here creates a PJRT client except what has to touch the device
(``synchronize`` once something ran, ``memory_stats``, ``get_device_name``). The native module supplies:

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

import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from . import _native
from ._devices import (
    DeviceLike,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    index_of,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from ._streams import Event, Stream, current_stream, default_stream, set_stream, stream

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


# --- memory --------------------------------------------------------------------------------------------------------


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Counters of the plugin (``bytes_in_use``, ``peak_bytes_in_use``, ...) and torch's names for them, in bytes."""
    index_of(device)
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
    index_of(device)
    _native.reset_peak_memory()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Nothing is accumulated but the peak, which ``reset_peak_memory_stats`` resets."""
    index_of(device)


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
    """The generator's state as a CPU tensor of bytes (uint8, one dim), for ``set_rng_state``."""
    index_of(device)
    return torch.tensor(list(_native.get_rng_state()), dtype=torch.uint8, device="cpu")


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "pjrt") -> None:
    """Puts back a state that ``get_rng_state`` gave. Raises ``TypeError`` for a tensor that is not of bytes, and
    ``ValueError`` for another number of bytes."""
    index_of(device)
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
