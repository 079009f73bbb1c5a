"""Settings of torch that code can only ask a function for: those that the code which is traced asks for are asked again
before each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ._sites import Site

_DEVICES = ("pjrt", "cpu", "cuda")


def _enabled() -> tuple[bool, ...]:
    return tuple(map(torch.is_autocast_enabled, _DEVICES))


def _dtypes() -> tuple[torch.dtype, ...]:
    return tuple(map(torch.get_autocast_dtype, _DEVICES))


_cuda = torch.backends.cuda
_ASKED: dict[str, Callable[[], Any]] = {
    "get_num_threads": torch.get_num_threads,
    "is_warn_always_enabled": torch.is_warn_always_enabled,
    "is_autocast_enabled": _enabled,
    "is_autocast_cpu_enabled": _enabled,
    "get_autocast_dtype": _dtypes,
    "get_autocast_cpu_dtype": _dtypes,
    "get_autocast_gpu_dtype": _dtypes,
    "flash_sdp_enabled": _cuda.flash_sdp_enabled,
    "mem_efficient_sdp_enabled": _cuda.mem_efficient_sdp_enabled,
    "math_sdp_enabled": _cuda.math_sdp_enabled,
    "cudnn_sdp_enabled": _cuda.cudnn_sdp_enabled,
    "fp16_bf16_reduction_math_sdp_allowed": _cuda.fp16_bf16_reduction_math_sdp_allowed,
    "preferred_linalg_library": _cuda.preferred_linalg_library,
}


class _Settings:
    """Has the settings as attributes."""

    def __getattr__(self, name: str) -> Any:
        return _ASKED[name]()


_settings = _Settings()


def asked(names: Iterable[str]) -> list[Site]:
    """The settings that code with these names asks for."""
    found = sorted(_ASKED.keys() & set(names))
    if not found:
        return []
    site = Site("attr", _settings, found, [getattr(_settings, n) for n in found], "torch")
    site.items = [("const", v) for v in site.values]
    return [site]
