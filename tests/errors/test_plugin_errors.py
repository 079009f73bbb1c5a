"""Choosing a plugin wrongly: each mistake with its exact error, raised at first use and not at import."""

import os
import subprocess
import sys

import pytest

from tests.support import DEVICE

pytestmark = pytest.mark.skipif(DEVICE != "pjrt", reason="about choosing a PJRT plugin")

USE = """
import torch
print("imported")
try:
    torch.ones(2, device="pjrt")
except Exception as error:
    print(type(error).__name__, "|", error)
"""


def first_use(code: str = USE, **env: str) -> str:
    """The error of the first use of the device in a fresh process, as ``type | message``."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PJRT_DEVICE", "TORCH_PJRT_PLUGIN")} | env
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    assert lines[:1] == ["imported"], done.stderr
    assert done.returncode == 0, done.stderr
    return "\n".join(lines[1:])


def test_a_path_that_does_not_exist():
    assert first_use(TORCH_PJRT_PLUGIN="/nowhere/plugin.so") == (
        "RuntimeError | no PJRT plugin at /nowhere/plugin.so: the file does not exist. "
        "Set TORCH_PJRT_PLUGIN to the plugin's .so file"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TORCH_PJRT_FALLBACK", "error, or no such variable"),
        ("TORCH_PJRT_LAUNCH", "inline, thread, or no such variable"),
        ("TORCH_PJRT_CACHE", "0, off, or no such variable"),
        ("TORCH_PJRT_CACHE_MAX_BYTES", "a number of bytes"),
    ],
)
def test_a_setting_that_is_none(name, expected):
    text = f"RuntimeError | {name}: argument `value`: got nonsense, expected {expected}"
    assert first_use(**{name: "nonsense"}) == text
    assert first_use(**{name: ""}) == ""


def test_a_file_that_is_no_library(tmp_path):
    path = tmp_path / "plugin.so"
    path.write_text("hello")
    assert first_use(TORCH_PJRT_PLUGIN=str(path)).startswith(f"RuntimeError | {path} is not a PJRT plugin: ")


def _library(tmp_path, source):
    """A shared library from Rust source; the toolchain that builds this package is there wherever its tests run."""
    path = tmp_path / "plugin.so"
    (tmp_path / "plugin.rs").write_text(source)
    command = ["rustc", "--edition", "2024", "--crate-type", "cdylib", "-o", str(path), str(tmp_path / "plugin.rs")]
    subprocess.run(command, check=True, capture_output=True)
    return path


def test_a_library_that_is_no_plugin(tmp_path):
    path = _library(tmp_path, '#[unsafe(no_mangle)] pub extern "C" fn other() {}')
    text = first_use(TORCH_PJRT_PLUGIN=str(path))
    assert text.startswith(f"RuntimeError | {path} is not a PJRT plugin: ")
    assert "GetPjrtApi" in text


def test_a_plugin_that_is_too_old(tmp_path):
    source = """
    #[repr(C)]
    struct Api { size: usize, extension: usize, version: [usize; 2], major: i32, minor: i32, rest: [usize; 3] }
    static API: Api = Api { size: 64, extension: 0, version: [24, 0], major: 0, minor: 7, rest: [0; 3] };
    #[unsafe(no_mangle)] pub extern "C" fn GetPjrtApi() -> *const core::ffi::c_void { (&raw const API).cast() }
    """
    path = _library(tmp_path, source)
    text = first_use(TORCH_PJRT_PLUGIN=str(path))
    assert text.startswith(f"RuntimeError | PJRT plugin {path} is too old: its C API 0.7 has no ")
    assert text.endswith(". Install a newer plugin")


def test_a_device_name_that_nothing_answers_to():
    text = first_use(PJRT_DEVICE="WARP")
    assert text.startswith(
        "RuntimeError | PJRT_DEVICE=WARP matches no installed PJRT plugin: got WARP, expected one of "
    )
    assert "CPU" in text
    assert text.endswith(". Set PJRT_DEVICE to one of those, unset it, or install the plugin")


def test_no_plugin_installed(tmp_path):
    """A copy of the package in an otherwise empty folder, with torch's own folders hidden from the search."""
    code = USE.replace("import torch\n", "import torch, torch_pjrt\ntorch_pjrt._native.set_search_roots([ROOT])\n", 1)
    text = first_use(code.replace("ROOT", repr(str(tmp_path))))
    assert text.startswith(f"RuntimeError | no PJRT plugin is installed (searched {tmp_path}). Install one: ")
    assert "pip install 'torch-pjrt[cpu]'" in text
    assert "pip install libtpu" in text


def test_a_tpu_plugin_without_a_tpu():
    text = first_use(PJRT_DEVICE="TPU")
    assert text.startswith("RuntimeError | PJRT plugin libtpu found no device on this machine: ")
    assert text.endswith("Run on a machine that has one, or set PJRT_DEVICE=CPU")


def test_a_wrong_choice_can_be_put_right_in_the_same_process():
    code = """
import os, torch
print("imported")
try:
    torch.ones(2, device="pjrt")
except RuntimeError as error:
    print("first", type(error).__name__)
os.environ["PJRT_DEVICE"] = "CPU"
print(torch.ones(2, device="pjrt").sum().item())
"""
    assert first_use(code, PJRT_DEVICE="WARP") == "first RuntimeError\n2.0"


def test_availability_says_no_without_raising():
    code = 'import torch\nprint("imported")\nprint(torch.pjrt.is_available(), torch.pjrt.device_count())'
    assert first_use(code, PJRT_DEVICE="WARP") == "False 0"
    assert first_use(code) == "True 1"
