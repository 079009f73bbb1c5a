"""Printing: the values come to the CPU first, where cutting and formatting them compiles nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import _tensor_str

_plain: Any = _tensor_str._tensor_str


def _values(self: torch.Tensor, indent: int) -> str:
    return _plain(self.detach().cpu() if self.device.type == "pjrt" else self, indent)


def install() -> None:
    """Makes ``print(tensor)`` read a tensor once; the device that it prints is still the tensor's."""
    _tensor_str._tensor_str = _values
