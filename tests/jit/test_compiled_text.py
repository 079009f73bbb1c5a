"""The optimized program as text: HLO as XLA prints it, from this process's plugin and for TPUs that are not here."""

import re

import pytest
import torch
import torch.nn.functional as F
import torch_pjrt as tp
from torch import nn

TARGETS = (None, "tpu:v5e:2x2")

LINE = re.compile(r"^  (?:ROOT )?%([\w.-]+) = (\(.*?\)|\w+\[[^\]]*\](?:\{[^}]*\})?) ([\w-]+)\((.*)$")


def computations(text: str) -> dict[str, list[tuple[str, str, str, str]]]:
    """Name, type, opcode and rest of each instruction by computation; the entry's name is "ENTRY"."""
    out: dict[str, list[tuple[str, str, str, str]]] = {}
    for block in re.sub(r"/\*index=\d+\*/", "", text).split("\n\n")[1:]:
        head, *lines = block.strip().splitlines()
        assert re.match(r"(ENTRY )?%[\w.-]+ \(.*\) -> .* \{$", head), head
        assert lines.pop() == "}", block
        name = "ENTRY" if head.startswith("ENTRY ") else head.split()[0].lstrip("%")
        assert name not in out, f"two computations {name}"
        found = [LINE.match(line) for line in lines]
        assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
        assert sum(line.startswith("  ROOT ") for line in lines) == 1, block
        out[name] = [match.groups() for match in found if match]
    return out


def parameters(found: dict[str, list[tuple[str, str, str, str]]]) -> list[str]:
    """Types of the entry's parameters in their order, without layouts."""
    of = {int(rest.split(")")[0]): kind.split("{")[0] for _, kind, op, rest in found["ENTRY"] if op == "parameter"}
    assert sorted(of) == list(range(len(of)))
    return [of[i] for i in sorted(of)]


def opcodes(found: dict[str, list[tuple[str, str, str, str]]]) -> set[str]:
    return {op for lines in found.values() for _, _, op, _ in lines}


@pytest.mark.parametrize("target", TARGETS)
def test_a_training_step(target):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to("pjrt")
    opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    lowered = tp.jit(step).lower(torch.zeros(5, 3).to("pjrt"), torch.zeros(5, 2).to("pjrt"))
    text = lowered.compile(target).as_text()
    assert text.startswith("HloModule step, is_scheduled=true, input_output_alias={ {1}: (1, {}, ")
    found = computations(text)
    declared = re.findall(r"%arg\d+: tensor<([^>]*)>", lowered.as_text(locations=False).split(" -> ")[0])
    expected = [f"{t.split('x')[-1]}[{','.join(t.split('x')[:-1])}]" for t in declared]
    assert parameters(found) == expected
    assert expected[:2] == ["f32[5,3]", "f32[4,3]"]
    assert {"fusion", "add", "subtract", "reduce"} <= opcodes(found)
    assert opcodes(found) & {"dot", "convolution"}, "the products"
    for _, _, op, rest in (line for lines in found.values() for line in lines):
        if op == "fusion":
            kind, called = re.search(r"kind=k(\w+), calls=%([\w.-]+)", rest).groups()
            assert kind in ("Loop", "Input", "Output", "Custom")
            assert called in found
    assert "metadata={" in text


@pytest.mark.parametrize("target", TARGETS)
def test_every_operand_is_an_instruction_of_its_computation_with_its_type(target):
    def f(x, i):
        x = x.index_add(0, i, torch.ones(2, 6, device=x.device))
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))
        return torch.linalg.qr(y)[1], y.sort(1)[0], torch.fft.fft(y), torch.randn(3, device=y.device), y.argmax(0)

    lowered = tp.jit(f).lower(torch.randn(6, 6).to("pjrt"), torch.tensor([1, 3]).to("pjrt"))
    found = computations(lowered.compile(target).as_text())
    assert {"conditional", "sort", "while"} & opcodes(found)
    checked = 0
    for lines in found.values():
        types = {name: kind for name, kind, _, _ in lines}
        for _, _, op, rest in lines:
            for kind, name in re.findall(r"(?:^|, )([^%]+) %([\w.-]+)(?=[,)])", rest):
                assert types[name] == kind, f"{op}: {rest}"
                checked += 1
    assert checked > 100


def test_values_and_attributes():
    def f(x):
        kernel = torch.full((1, 1, 3, 3), 0.5, device=x.device)
        return F.conv2d(x, kernel, stride=2, padding=1), x.flip(3)[..., 1:4:2], F.pad(x, (1, 2), value=-1.5)

    text = tp.jit(f).lower(torch.empty(1, 1, 8, 8, device="meta")).compile("tpu:v5e:2x2").as_text()
    assert "window={size=3x3 stride=2x2 pad=1_" in text
    assert "dim_labels=" in text
    assert "constant(-1.5)" in text
    assert re.search(r"padding=\d+_\d+x", text)
    assert ":T(" in text, "a TPU's layouts have tiles"


def test_a_program_from_the_disk_cache_has_the_same_text():
    x = torch.ones(3, 5).to("pjrt")
    texts = []
    for _ in range(2):
        texts.append(tp.jit(lambda x: (x * 2).sum(0)).lower(x).compile().as_text())
        torch.pjrt.synchronize()
        tp.clear_cache()
    assert texts[0] == texts[1]
    assert parameters(computations(texts[0])) == ["f32[3,5]"]
