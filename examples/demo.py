"""Trains two real models eagerly on the ``pjrt`` device beside torch CPU, from the same weights, and compares.

1. A ConvNet with BatchNorm and dropout on scikit-learn's 1,797 scans of handwritten digits.
2. A 4-layer GPT on the text of Python's own language reference (``pydoc_data.topics``), a byte a token.

It stops with an error unless the digits' test accuracy, the GPT's loss, and the distance between the two devices'
loss curves are within the bounds below. The curves go to one PNG.
"""

import argparse
import copy
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from models import GPT, ConvNet
from tqdm import tqdm

ACCURACY_BOUND = 0.97  # of the digits' test set, on the device
# Nats a byte, mean of the last steps; it starts near ln 256 = 5.5, and byte frequencies alone give 3.26.
GPT_LOSS_BOUND = 2.3
AGREEMENT = {"digits": 0.05, "gpt": 0.02}  # largest |loss on the device - loss on the CPU| of any step
TAIL = 20  # steps in a final mean

Batch = tuple[torch.Tensor, torch.Tensor]


def digits() -> tuple[Batch, Batch]:
    """Images scaled to [-1, 1] and labels, shuffled by a fixed seed: 1,437 to train on, 360 to test on."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    y = torch.tensor(data.target, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    train, test = order[360:], order[:360]
    return (x[train], y[train]), (x[test], y[test])


def digit_batches(train: Batch, epochs: int, size: int = 64) -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(epochs):
        for chosen in torch.randperm(len(train[0]), generator=generator).split(size):
            if len(chosen) == size:
                yield train[0][chosen], train[1][chosen]


def topics() -> torch.Tensor:
    """The text of Python's help topics, as bytes."""
    from pydoc_data.topics import topics as texts

    return torch.tensor(list("\n".join(texts[name] for name in sorted(texts)).encode()), dtype=torch.int64)


def text_batches(text: torch.Tensor, steps: int, size: int = 8, length: int = 64) -> Iterator[Batch]:
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        starts = torch.randint(len(text) - length - 1, (size, 1), generator=generator)
        ids = text[starts + torch.arange(length + 1)]
        yield ids[:, :-1], ids[:, 1:]


def train(model, optimizer, batches: list[Batch], device: str, label: str) -> tuple[list[float], dict[str, float]]:
    """The ordinary loop. Returns the loss of each step, and seconds: in all, of the first step, of the median one."""
    model.train()
    losses, marks = [], [time.perf_counter()]
    for x, y in tqdm(batches, desc=f"{label:>6} on {device:4}", unit="step"):
        optimizer.zero_grad()
        logits = model(x.to(device))
        loss = F.cross_entropy(logits.flatten(0, -2), y.to(device).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        marks.append(time.perf_counter())
    took = sorted(b - a for a, b in itertools.pairwise(marks))
    return losses, {"total": marks[-1] - marks[0], "first": marks[1] - marks[0], "step": took[len(took) // 2]}


@torch.no_grad()
def accuracy(model, test: Batch, device: str) -> float:
    """Share of ``test`` that ``model`` gets right."""
    model.eval()
    return (model(test[0].to(device)).argmax(1) == test[1].to(device)).float().mean().item()


class Counters:
    """What the device did since the last look; zeros for a device that does not count."""

    def __init__(self, device: str):
        self.module = None
        if device == "pjrt":
            import torch_pjrt

            self.module = torch_pjrt
        self.before = self.read()

    def read(self) -> dict[str, int]:
        if self.module is None:
            return dict.fromkeys(("executions", "compiles", "disk_hits", "fallbacks"), 0)
        info = self.module.cache_info()
        counts = {name: info[name] for name in ("executions", "compiles", "disk_hits")}
        return counts | {"fallbacks": sum(self.module.fallbacks().values())}

    def since(self) -> dict[str, int]:
        now = self.read()
        change = {name: count - self.before[name] for name, count in now.items()}
        self.before = now
        return change


def compare(name: str, model, make_optimizer, batches: list[Batch], device: str):
    """Trains copies of ``model`` on the CPU and on ``device``. Returns the trained copy there and both loss curves."""
    here, there = model, copy.deepcopy(model).to(device)
    expected, cpu = train(here, make_optimizer(here.parameters()), batches, "cpu", name)
    counters = Counters(device)
    actual, took = train(there, make_optimizer(there.parameters()), batches, device, name)
    counts = counters.since()
    apart = max(abs(a - e) for a, e in zip(actual, expected, strict=True))
    print(
        f"{name}: {len(batches)} steps; {1 / took['step']:.1f} steps/s on {device}, {1 / cpu['step']:.1f} on cpu; "
        f"{counts['executions'] / took['total']:.0f} ops/s; first step {took['first']:.2f} s; "
        f"programs compiled {counts['compiles']}, from disk {counts['disk_hits']}; fallbacks {counts['fallbacks']}\n"
        f"{name}: loss {actual[0]:.3f} -> {sum(actual[-TAIL:]) / TAIL:.3f}; "
        f"largest distance from cpu {apart:.1e} (bound {AGREEMENT[name]})"
    )
    assert counts["fallbacks"] == 0, "every op of the demo has a kernel"
    assert apart <= AGREEMENT[name], f"{name}: the loss curves are {apart} apart, more than {AGREEMENT[name]}"
    return there, actual, expected


def plot(curves: dict[str, tuple[list[float], list[float]]], device: str, path: Path) -> None:
    """Both curves of each model in one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(11, 4), layout="constrained")
    for axis, (name, (actual, expected)) in zip(axes, curves.items(), strict=True):
        axis.plot(expected, linewidth=3, alpha=0.4, label="torch CPU")
        axis.plot(actual, linewidth=1, label=device)
        axis.set(
            title=name, xlabel="step", ylabel="training loss (nats)", yscale="log" if name == "digits" else "linear"
        )
        axis.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="pjrt")
    parser.add_argument("--epochs", type=int, default=8, help="over the digits")
    parser.add_argument("--steps", type=int, default=400, help="of the GPT")
    parser.add_argument("--png", type=Path, default=Path("demo.png"))
    options = parser.parse_args()
    device, started = options.device, time.perf_counter()

    torch.manual_seed(0)
    train_set, test_set = digits()
    convnet, curve1, expected1 = compare(
        "digits",
        ConvNet(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4),
        list(digit_batches(train_set, options.epochs)),
        device,
    )
    share = accuracy(convnet, test_set, device)
    print(f"digits: test accuracy {share:.1%} (bound {ACCURACY_BOUND:.0%})")
    assert share >= ACCURACY_BOUND, f"digits: test accuracy {share} is below {ACCURACY_BOUND}"

    _, curve2, expected2 = compare(
        "gpt",
        GPT(vocabulary=256),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        list(text_batches(topics(), options.steps)),
        device,
    )
    final = sum(curve2[-TAIL:]) / TAIL
    print(f"gpt: final loss {final:.3f} (bound {GPT_LOSS_BOUND})")
    assert final < GPT_LOSS_BOUND, f"gpt: final loss {final} is not below {GPT_LOSS_BOUND}"

    plot({"digits": (curve1, expected1), "gpt": (curve2, expected2)}, device, options.png)
    print(f"wrote {options.png}; {time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
