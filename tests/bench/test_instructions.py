"""The reader of callgrind's files, and what the script does where valgrind is missing."""

import os
import subprocess
import sys

from tests.bench import instructions

PROFILE = """\
version: 1
positions: line
events: Ir

ob=(1) /usr/lib/libc.so.6
fl=(1) x.c
fn=(1) memcpy
10 7
+2 3

ob=(2) /env/torch/lib/libtorch_cpu.so
fn=(2) add
5 100
cob=(3) /env/torch_pjrt/_native.abi3.so
cfn=(3) call
calls=2 8
* 5000
* 11

ob=(3)
fn=(3)
8 40
ob=(4) /env/plugin/pjrt_c_api_cpu_plugin.so
fn=(4) run
-1 900
ob=(5) ???
fn=(5) 0x1
0 6
ob=(6) /usr/bin/python3.11
fn=(6) eval
1 20
"""


def test_self_cost_by_owner(tmp_path):
    path = tmp_path / "out.1"
    path.write_text(PROFILE)
    assert instructions.read(path) == {
        "C library": 10, "torch": 111, "ours": 40, "plugin": 900, "made code": 6, "Python": 20,
    }  # fmt: skip


def test_without_valgrind_it_says_so_and_ends_well():
    done = subprocess.run(
        [sys.executable, instructions.__file__],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    assert "valgrind is not installed" in done.stdout
