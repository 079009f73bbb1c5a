"""The README's example prints what the README says, and the commands and variables that it names exist."""

import re
from pathlib import Path

import pytest

from tests.support import DEVICE, python

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


@pytest.mark.skipif(DEVICE != "pjrt", reason="the example is for pjrt")
def test_the_example_prints_what_the_readme_says():
    done = python(blocks("python")[0])
    assert done.stdout == blocks("text")[0], done.stderr


def test_the_example_is_short_and_the_commands_exist():
    assert len(blocks("python")[0].strip().splitlines()) <= 16
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`?make ([a-z-]+)", README)) <= targets


@pytest.mark.skipif(DEVICE != "pjrt", reason="about torch_pjrt's functions")
def test_the_functions_that_it_names_exist():
    import torch_pjrt as tp

    for name in re.findall(r"^tp\.(\w+)\(", blocks("python")[1], re.M):
        assert callable(getattr(tp, name))
