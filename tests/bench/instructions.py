"""Machine instructions of one eager op, by callgrind, split by whose code they are; independent of load and clock.

    python tests/bench/instructions.py [--json FILE]

One process runs all cases; between them it has callgrind write its counters and start over. What that costs by itself
is taken off.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

COUNT = 50
PARTS = ("torch", "Python", "ours", "plugin", "made code", "C library")


def owner_of(file: str) -> str:
    """Whose code an object file is. Code that XLA made has no file."""
    name = file.rpartition("/")[2]
    if file == "???":
        return "made code"
    if "/torch/" in file:
        return "torch"
    if name.startswith("_native"):
        return "ours"
    if "pjrt" in name or "plugin" in name:
        return "plugin"
    return "Python" if "python" in name else "C library"


def cases(device: str) -> dict[str, Callable[[], object]]:
    import torch

    x, many, linear = torch.ones(4), torch.ones(4, 6), torch.nn.Linear(64, 64)
    x, many, linear, rows = x.to(device), many.to(device), linear.to(device), torch.ones(8, 64).to(device)
    return {
        "nothing": lambda: None,
        "`mul` f32[4]": lambda: torch.mul(x, x),
        "`x*0.5+1` f32[4]": lambda: x * 0.5 + 1,
        "`x.t()`": many.t,
        "`x[1]`": lambda: many[1],
        "Linear(64,64) of 8 rows": lambda: linear(rows),
    }


def work() -> None:
    """What runs under callgrind: warm up, mark, case, mark; and so on."""
    import torch
    import torch_pjrt  # noqa: F401

    def mark() -> None:
        subprocess.run(["callgrind_control", "--dump", str(os.getpid())], check=True, stdout=subprocess.DEVNULL)

    with torch.no_grad():
        for body in cases("pjrt").values():
            for _ in range(5):
                body()
            torch.pjrt.synchronize()
            mark()
            for _ in range(COUNT):
                body()
            torch.pjrt.synchronize()
            mark()


def read(path: Path) -> Counter[str]:
    """Instructions by owner in one file of callgrind. A line after ``calls=`` is a callee's, which is listed itself."""
    names: dict[str, str] = {}
    owner, inclusive = "C library", False
    out: Counter[str] = Counter()
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            number, _, name = line[3:].partition(" ")
            if name:
                names[number] = name
            owner = owner_of(names.get(number, number))
        elif line.startswith("calls="):
            inclusive = True
        elif re.match(r"[+*-]?\d* ?\d", line) or line.startswith("* "):
            if not inclusive:
                out[owner] += int(line.split()[1])
            inclusive = False
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            if name:
                names[number] = name
    return out


def measure() -> dict[str, dict[str, float]]:
    """Instructions of one run of each case, by owner."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                f"--callgrind-out-file={folder}/out",
                sys.executable,
                __file__,
                "--work",
            ],
            check=True,
            stderr=subprocess.PIPE,
            # No programs from the disk: they may have instructions that valgrind does not know. It shows an older CPU.
            # Launched inline: a thread that spins while it waits would be counted.
            env={
                **os.environ,
                "TORCH_PJRT_CACHE": "0",
                "TORCH_PJRT_LAUNCH": "inline",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "OMP_NUM_THREADS": "1",
            },
        )
        # Files out.1, out.2, ...: what went before the first mark, a case, what lies between two, a case, ...
        parts = sorted(Path(folder).glob("out.*"), key=lambda p: int(p.suffix[1:]))
        names = list(cases("cpu"))
        if len(parts) != 2 * len(names):
            raise RuntimeError(f"callgrind wrote {len(parts)} files, expected {2 * len(names)}")
        counts = {name: read(parts[2 * i + 1]) for i, name in enumerate(names)}
    nothing = counts.pop("nothing")
    return {
        name: {part: (c[part] - nothing[part]) / COUNT for part in PARTS if c[part] > nothing[part]}
        for name, c in counts.items()
    }


def table(figures: dict[str, dict[str, float]]) -> str:
    lines = ["| op | instructions | " + " | ".join(PARTS) + " |", "|---" * (len(PARTS) + 2) + "|"]
    for name, parts in figures.items():
        cells = [f"{parts.get(p, 0):,.0f}" for p in PARTS]
        lines.append(f"| {name} | {sum(parts.values()):,.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    if shutil.which("valgrind") is None:
        print("left out: valgrind is not installed (Debian and Ubuntu: apt-get install valgrind)")
        return
    figures = measure()
    print(table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
