"""Makes ``pjrt`` a device of torch: name, hooks, device module, kernels."""

from __future__ import annotations

import atexit
import os
import site
import sys

import torch

from . import _native

_done = False
_kept: list[object] = []  # libraries of kernels live as long as the process


def become_device() -> None:
    """Registers the device once; later calls do nothing."""
    global _done
    if _done:
        return
    _done = True
    from torch.utils import backend_registration

    lib = os.path.join(os.path.dirname(torch.__file__), "lib")
    names = ("libtorch_cpu.so", "libtorch_python.so", "libc10.so")
    registered = _native.init(torch, [os.path.join(lib, name) for name in names])
    _native.set_search_roots(_roots())
    from ._names import library_folders

    _native.set_library_folders(library_folders())
    from . import device_module

    guard = type("DeviceGuard", (torch._C._acc.DeviceGuard,), {"type_": _native.GuardType(_device_type())})
    backend_registration._setup_privateuseone_for_python_backend(
        "pjrt", backend_module=device_module, device_guard=guard()
    )
    device_module._serve_accelerator()
    from . import _exit, _hops, _modules, _pin, _printing, _registry, _storage, amp

    _registry.register_all(registered)
    _storage.install()
    _modules.install()
    _hops.install()
    _printing.install()
    _exit.install()
    _kept.extend([_pin.register(), amp.register()])
    atexit.register(_settle)


def _settle() -> None:
    """At the end of the process: lets what was launched end, and tells what went wrong if nobody has asked."""
    try:
        _native.settle()
    except Exception as error:
        print(f"torch_pjrt: an error that nobody read: {type(error).__name__}: {error}", file=sys.stderr)


def _device_type() -> object:
    return torch._C._autograd.DeviceType.PrivateUse1


def _roots() -> list[str]:
    """Folders in which Python finds packages: plugins are looked for there."""
    roots = [p for p in sys.path if p.rstrip("/").endswith(("site-packages", "dist-packages"))]
    for path in [*site.getsitepackages(), site.getusersitepackages()]:
        if path not in roots:
            roots.append(path)
    return roots
