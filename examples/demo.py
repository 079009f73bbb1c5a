"""Trains two real models on the ``pjrt`` device, eagerly and under ``jit``, beside torch CPU, from the same weights.

1. A ConvNet with BatchNorm and dropout on scikit-learn's 1,797 scans of handwritten digits.
2. A 4-layer GPT on the text of Python's own language reference (``pydoc_data.topics``), a byte a token.

Under ``jit`` the whole step (forward, loss, backward, optimizer) is one program. It stops with an error unless the
digits' test accuracy, the GPT's loss, and the distances of both loss curves from torch CPU's are within the bounds
below. The curves go to one PNG.
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
AGREEMENT = {"digits": 0.05, "gpt": 0.02}  # largest |loss on the device - loss on the CPU| of any step, either way
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


def train(model, optimizer, batches: list[Batch], device: str, way: str) -> tuple[list[float], dict[str, float]]:
    """The ordinary loop. Returns the loss of each step, and seconds: in all, of the first step, of the median one."""

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    if way == "jit":
        import torch_pjrt

        step = torch_pjrt.jit(step)
    model.train()
    losses, marks = [], [time.perf_counter()]
    for x, y in tqdm(batches, desc=f"{way:>6} on {device:4}", unit="step"):
        losses.append(step(x.to(device), y.to(device)).item())
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


def final(losses: list[float]) -> float:
    """Mean loss of the last steps."""
    return sum(losses[-TAIL:]) / TAIL


def compare(name: str, model, make_optimizer, batches: list[Batch], device: str):
    """Trains copies of ``model`` on the CPU and, each way, on ``device``. Returns the trained copies there by way, and
    the loss curves of all."""
    copies, curves = {}, {}
    print(f"{name}: {len(batches)} steps")
    for way, place in {"torch CPU": "cpu", "eager": device, "jit": device}.items():
        if way == "jit" and device != "pjrt":
            continue
        mine = copy.deepcopy(model).to(place)
        counters = Counters(place)
        losses, took = train(mine, make_optimizer(mine.parameters()), batches, place, way)
        counts = counters.since()
        curves[way] = losses
        line = f"  {way + ':':10} {1 / took['step']:5.1f} steps/s, loss {losses[0]:.3f} -> {final(losses):.3f}"
        if way == "torch CPU":
            print(line)
            continue
        if way == "eager":
            line = line.replace("steps/s", f"steps/s = {counts['executions'] / len(batches) / took['step']:,.0f} ops/s")
        copies[way] = mine
        apart = max(abs(a - e) for a, e in zip(losses, curves["torch CPU"], strict=True))
        print(
            f"{line}, at most {apart:.1e} from torch CPU (bound {AGREEMENT[name]}); first step {took['first']:.2f} s, "
            f"{counts['executions'] / len(batches):.0f} programs a step, compiled {counts['compiles']}, "
            f"from disk {counts['disk_hits']}, fallbacks {counts['fallbacks']}"
        )
        assert counts["fallbacks"] == 0, "every op of the demo has a kernel"
        assert apart <= AGREEMENT[name], f"{name}, {way}: the loss curve is {apart} from torch CPU's"
    return copies, curves


def plot(models: dict[str, dict[str, list[float]]], path: Path) -> None:
    """All curves of each model in one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(models), figsize=(11, 4), layout="constrained")
    for axis, (name, curves) in zip(axes, models.items(), strict=True):
        for (way, curve), width in zip(curves.items(), (5, 2.5, 0.8), strict=False):
            axis.plot(curve, linewidth=width, alpha=0.4 if width > 1 else 1, label=way)
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
    convnets, digit_curves = compare(
        "digits",
        ConvNet(),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4),
        list(digit_batches(train_set, options.epochs)),
        device,
    )
    for way, convnet in convnets.items():
        share = accuracy(convnet, test_set, device)
        print(f"  {way + ':':10} test accuracy {share:.1%} (bound {ACCURACY_BOUND:.0%})")
        assert share >= ACCURACY_BOUND, f"digits, {way}: test accuracy {share} is below {ACCURACY_BOUND}"

    _, gpt_curves = compare(
        "gpt",
        GPT(vocabulary=256),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        list(text_batches(topics(), options.steps)),
        device,
    )
    for way, curve in gpt_curves.items():
        assert final(curve) < GPT_LOSS_BOUND, f"gpt, {way}: final loss {final(curve)} is not below {GPT_LOSS_BOUND}"
    print(f"  final loss within its bound of {GPT_LOSS_BOUND} each way")

    plot({"digits": digit_curves, "gpt": gpt_curves}, options.png)
    print(f"wrote {options.png}; {time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
