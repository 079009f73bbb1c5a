"""Devices of ``torch.pjrt``: how many there are, which one is meant, what it is called, waiting for it."""

from __future__ import annotations

import types
from typing import Any

import torch

from . import _native

DeviceLike = torch.device | str | int | None


def index_of(device: DeviceLike = None) -> int:
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
    index_of(device)


class device:
    """``with torch.pjrt.device(i):`` selects device ``i`` meanwhile; None or a negative index changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_of(device)

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
    index_of(device)
    return str(_native.device_name())


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """``{"supported_dtypes": {...}}``: what tensors can be allocated in and converted between."""
    index_of(device)
    names = (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    return {"supported_dtypes": {getattr(torch, name) for name in names.split()}}


def get_device_properties(device: DeviceLike = None) -> types.SimpleNamespace:
    """``name`` and ``total_memory`` (bytes; 0 where the plugin does not say). Creates the client."""
    name = get_device_name(device)
    return types.SimpleNamespace(name=name, total_memory=_native.memory_stats().get("bytes_limit", 0))


def synchronize(device: DeviceLike = None) -> None:
    """Waits for all work launched so far. An error of that work is raised here if no read raised it before."""
    index_of(device)
    _native.synchronize()
