"""PyTorch on any chip with a PJRT plugin: importing this makes the device ``pjrt`` exist.

``import torch`` alone is enough where the package is installed (entry point ``torch.backends``); nothing here loads a
plugin or creates a client, which happens when the first tensor needs the device.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import debug
    from ._jit import eval_shape, explain, jit
    from ._layers import scan_layers


def _autoload() -> None:
    """Entry point of ``torch.backends``: torch calls it at the end of its import; the import above did the work."""


# Importing torch imports this package again, unfinished, when it was imported first: so the entry point stands above.
import torch  # noqa: E402, F401

from . import _native  # noqa: E402
from ._jit_errors import JitError  # noqa: E402
from ._modes import eager_mode  # noqa: E402
from ._setup import become_device  # noqa: E402

__all__ = [
    "JitError",
    "cache_info",
    "clear_cache",
    "debug",
    "eager_mode",
    "eval_shape",
    "explain",
    "fallbacks",
    "jit",
    "live_buffers",
    "metrics",
    "ops",
    "reset_fallbacks",
    "scan_layers",
    "set_cache_capacity",
    "synchronize",
]
__version__ = "0.1.0"

become_device()

# Found in these modules when first asked for: whoever runs eagerly does not pay for importing them.
_LATER = {
    "debug": "debug",
    "eval_shape": "_jit",
    "explain": "_jit",
    "jit": "_jit",
    "scan_layers": "_layers",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LATER[name]}", __name__)
    found = module if name == "debug" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def ops() -> list[str]:
    """Names of the ATen overloads that run on the device (``add.Tensor``, ``add_.Tensor``, ``relu``)."""
    from ._registry import registered

    return sorted(registered())


def fallbacks() -> dict[str, int]:
    """How often each ATen overload ran on the CPU for want of a kernel, by name. Empty when all ran on the device."""
    from ._fallback import counts

    return dict(counts)


def reset_fallbacks() -> None:
    """Starts the counts of :func:`fallbacks` anew."""
    from ._fallback import counts

    counts.clear()


def cache_info() -> dict[str, Any]:
    """Counts of the program caches of this process.

    ``entries``, ``capacity``, ``hits``, ``misses``, ``evictions`` of the cache in memory; ``executions`` of programs;
    ``compiles`` and ``compile_seconds`` of what the compiler saw; ``disk_hits``, ``disk_damaged`` and ``disk_folder``
    (``None`` when off) of the cache on disk.
    """
    return dict(_native.cache_info())


def clear_cache() -> None:
    """Forgets all compiled programs in memory; those on disk stay."""
    _native.clear_cache()


def set_cache_capacity(entries: int) -> None:
    """Sets how many compiled programs are kept in memory (default 8192). Raises ``ValueError`` for 0."""
    _native.set_cache_capacity(entries)


def live_buffers() -> int:
    """Number of device buffers that are alive in this process, those that only caches hold included."""
    return int(_native.live_buffers())


def synchronize() -> None:
    """Waits for everything launched; raises what went wrong meanwhile (an index out of range, a failed execution)."""
    _native.synchronize()


def metrics() -> dict[str, int | float]:
    """Counters of this process under the names that users of torch_xla know.

    Seconds: ``CompileTime``, ``ExecuteTime`` (of launching; in debug mode nothing runs on after it), which is sampled,
    ``TransferToDeviceTime``, ``TransferFromDeviceTime``. Bytes: ``OutboundData`` to the device, ``InboundData`` from
    it. Counts: ``ExecuteCount``, ``UncachedCompile``, ``CachedCompile``, and ``aten::op`` for each op that fell back.
    """
    info, meters = _native.cache_info(), _native.meters()
    found: dict[str, int | float] = {
        "CompileTime": info["compile_seconds"],
        "UncachedCompile": info["compiles"],
        "CachedCompile": info["disk_hits"] + info["hits"],
        "ExecuteCount": info["executions"],
        "ExecuteTime": meters["execute"][1],
        "TransferToDeviceTime": meters["to_device"][1],
        "OutboundData": meters["to_device"][2],
        "TransferFromDeviceTime": meters["from_device"][1],
        "InboundData": meters["from_device"][2],
    }
    found.update({f"aten::{name}": n for name, n in fallbacks().items()})
    return found
