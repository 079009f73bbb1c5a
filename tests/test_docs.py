"""The Python blocks of README and docs run: those of a document in order, in one namespace, in a process of its own.

A block that is not meant to run has ``<!-- not run: the reason -->`` on the line above it.
"""

import re
from pathlib import Path

import pytest

from tests.support import DEVICE, python

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"(?:<!-- not run: (?P<reason>[^\n]*) -->\n)?```python\n(?P<code>.*?)^```$", re.S | re.M)


def program(path: Path) -> str:
    """The blocks of a document, each at its own line, so that an error names the line of the document."""
    text, out = path.read_text(), ""
    for block in FENCE.finditer(text):
        assert block["reason"] is None or block["reason"].strip(), f"{path}: a block is left out without a reason"
        if block["reason"] is None:
            out += "\n" * (text.count("\n", 0, block.start("code")) - out.count("\n")) + block["code"]
    return out


DOCUMENTS = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if program(path)]


@pytest.mark.skipif(DEVICE != "pjrt", reason="the blocks are for pjrt")
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_run(path):
    done = python(program(path))
    assert done.returncode == 0, f"{path}, by its lines:\n{done.stderr}"


def test_the_documents_with_code_are_found():
    assert {"README.md", "from_eager_to_jit.md"} <= {path.name for path in DOCUMENTS}
    code = program(ROOT / "docs" / "from_eager_to_jit.md")
    lines = (ROOT / "docs" / "from_eager_to_jit.md").read_text().splitlines()
    assert all(line == lines[i] for i, line in enumerate(code.splitlines()) if line)


def test_a_marked_block_is_left_out_and_needs_a_reason(tmp_path):
    document = tmp_path / "page.md"
    document.write_text("<!-- not run: shows an error -->\n```python\n1 / 0\n```\n\n```python\nx = 1\n```\n")
    assert program(document) == "\n" * 6 + "x = 1\n"
    document.write_text("<!-- not run:  -->\n```python\n1 / 0\n```\n")
    with pytest.raises(AssertionError, match="without a reason"):
        program(document)
