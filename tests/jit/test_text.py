"""The text of two modules: an MLP's training step, and attention."""

import os
import re
import runpy
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_pjrt as tp
from torch import nn

FOLDER = Path(__file__).with_name("snapshots")


def _check(name: str, text: str) -> None:
    """Compares with the file, which is written only on demand."""
    file = FOLDER / f"{name}.mlir"
    if os.environ.get("TORCH_PJRT_TEST_WRITE_SNAPSHOTS") == "1":
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    assert file.exists(), f"no {file}; TORCH_PJRT_TEST_WRITE_SNAPSHOTS=1 writes it"
    assert text == file.read_text(), f"the module is not {file}'s; TORCH_PJRT_TEST_WRITE_SNAPSHOTS=1 accepts it"


def test_mlp_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to("pjrt")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    args = torch.zeros(5, 3).to("pjrt"), torch.zeros(5, 2).to("pjrt")
    _check("mlp_step", tp.jit(step).lower(*args).as_text(locations=False))


def test_attention():
    def attention(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    q = torch.empty(2, 4, 8, 16, device="meta")
    with torch.no_grad():
        _check("attention", tp.jit(attention).lower(q, q, q).as_text(locations=False))


def test_the_page_about_a_module_shows_it(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs" / "reading_a_module.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M)
    (tmp_path / "step.py").write_text(code)
    runpy.run_path(str(tmp_path / "step.py"))
    text = capsys.readouterr().out
    at, lines = (
        0,
        [line for block in re.findall(r"^```mlir\n(.*?)^```$", page, re.S | re.M) for line in block.splitlines()],
    )
    assert len(lines) > 25
    for line in lines:
        for part in re.split(r"\.\.\.", line.partition("  //")[0]):
            found = text.find(part.strip(), at)
            assert found >= 0, f"{part.strip()!r} does not come next in the module:\n{text[at : at + 1000]}"
            at = found + len(part.strip())


def test_parameters_have_names():
    lin = nn.Linear(3, 2).to("pjrt")
    text = tp.jit(lambda x: lin(x)).lower(torch.empty(1, 3, device="meta")).as_text()
    assert 'loc("lin.weight")' in text
    assert 'loc("x")' in text
