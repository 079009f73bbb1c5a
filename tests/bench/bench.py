"""Prints the speed table: this device beside torch CPU and JAX (and torch_xla), interleaved in the same run.

    python tests/bench/bench.py --peers .venv-peers/bin/python [--smoke] [--json FILE]

Each case runs in turn on every system, over and over; the table has medians and their ratio. A ratio is marked ``ok``
or ``MISS`` against its target; the exit status does not depend on it, because a busy machine says little.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
OURS = "torch:pjrt"


@dataclass
class Case:
    """A piece of work, and the most that our time may be as a multiple of a peer's."""

    name: str
    targets: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.15


CASES = [
    Case("mul f32[4]", {"jax": 0.6, "torch_xla": 0.5}),
    Case("x*0.5+1", {"jax": 0.6, "torch_xla": 0.5}),
    Case("matmul 64x64"),
    Case("softmax 64x64", {"jax": 0.5, "torch_xla": 0.5}),
    Case("Linear(64,64) forward", {"jax": 0.5, "torch_xla": 0.5}),
    Case("10 x*w, forward+backward", {"jax": 0.5, "torch_xla": 0.5}),
    Case("x.t()", {"torch:cpu": 2.0}),
    Case("x.view(24)", {"torch:cpu": 2.0}),
    Case("x[1:3, 2]", {"torch:cpu": 2.0}),
    Case("x[1]", {"torch:cpu": 2.0}),
    Case("GPT training step", {"torch:cpu": 2.0}, seconds=1.0),
    Case("GPT training step under jit", {"torch:cpu": 1.2}, seconds=1.0),
    Case("jit call, 150 tensors of state"),
    Case("its bare launch"),
]


class Worker:
    """A process that times cases on one system."""

    def __init__(self, python: str, system: str):
        self.system = system
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
        if not system.startswith("torch:"):
            environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        if not self.process.stdout.readline():
            error = self.process.stderr.read().strip().splitlines()
            raise RuntimeError(error[-1] if error else "no answer")

    def ask(self, case: Case, seconds: float) -> float | str:
        self.process.stdin.write(json.dumps({"case": case.name, "seconds": seconds}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            return "the process died"
        answer = json.loads(line)
        return answer.get("us", answer.get("skip"))


def once(*arguments: str, script: str = "once.py", python: str = sys.executable, **env: str) -> dict:
    """Runs a measurement of ``script`` in a fresh process."""
    command = [python, str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def verdict(ratio: float, target: float) -> str:
    return "ok" if ratio <= target else "MISS"


def show(us: float | str | None) -> str:
    if not isinstance(us, float):
        return "–"
    return f"{us / 1000:.1f} ms" if us >= 10_000 else f"{us:.2f} µs"


def race(workers: dict[str, Worker], repeats: int, scale: float) -> dict[str, dict[str, float]]:
    """Medians in microseconds by case and system; the systems take turns within every repeat."""
    times: dict[str, dict[str, list[float]]] = {case.name: {} for case in CASES}
    for case in CASES:
        for _ in range(repeats):
            for system, worker in workers.items():
                answer = worker.ask(case, case.seconds * scale)
                if isinstance(answer, float):
                    times[case.name].setdefault(system, []).append(answer)
                elif answer != "not measured there":
                    print(f"{case.name} on {system}: {answer}", file=sys.stderr)
    return {name: {s: statistics.median(t) for s, t in by.items()} for name, by in times.items()}


def table(results: dict[str, dict[str, float]], systems: list[str]) -> str:
    """The results as a Markdown table."""
    lines = ["| what | " + " | ".join(systems) + " | ratio (target) |", "|---" * (len(systems) + 2) + "|"]
    for case in CASES:
        row = results[case.name]
        ratios = []
        for peer, target in case.targets.items():
            if OURS in row and peer in row:
                ratio = row[OURS] / row[peer]
                ratios.append(f"{ratio:.2f} × {peer} (≤ {target}) {verdict(ratio, target)}")
        lines.append(f"| {case.name} | " + " | ".join(show(row.get(s)) for s in systems) + f" | {'; '.join(ratios)} |")
    return "\n".join(lines)


def import_cost(repeats: int) -> dict[str, float]:
    """Milliseconds that the device adds to ``import torch``: fresh processes, with and without, in turn."""
    code = "import time; t = time.perf_counter(); import torch; print(time.perf_counter() - t)"
    took: dict[str, list[float]] = {"0": [], "1": []}
    # An installed package has its bytecode beside it; the sources used in place get theirs from the first process.
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import torch"], env=inherited, check=True)
    for _ in range(repeats):
        for autoload, times in took.items():
            environment = {**inherited, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
            )
            times.append(float(done.stdout) * 1e3)
    without, with_it = (statistics.median(took[k]) for k in ("0", "1"))
    return {"import torch, ms": without, "with the device, ms": with_it, "added, ms": with_it - without}


def starts() -> dict[str, float]:
    """Start of the demo with an empty and with a full disk cache."""
    with tempfile.TemporaryDirectory() as folder:
        cold = once("start", TORCH_PJRT_CACHE_DIR=folder)
        warm = once("start", TORCH_PJRT_CACHE_DIR=folder)
    return {
        "cold, s": cold["seconds"],
        "cold compiles": cold["compiles"],
        "warm, s": warm["seconds"],
        "warm compiles": warm["compiles"],
        "cold / warm": cold["seconds"] / warm["seconds"],
    }


def call_overhead(results: dict[str, dict[str, float]]) -> str:
    """What a jit call with much state costs over the launch of its program, beside what JAX's costs."""
    call, bare = results.get("jit call, 150 tensors of state", {}), results.get("its bare launch", {}).get(OURS)
    if bare is None or OURS not in call:
        return ""
    ours = call[OURS] - bare
    line = f"jit call over its bare launch (aim: 30 µs): {ours:.1f} µs"
    if "jax" in call:
        ratio = ours / (call["jax"] - bare)
        line += f", JAX's over the same {call['jax'] - bare:.1f} µs: {ratio:.2f} × (≤ 1.0) {verdict(ratio, 1.0)}"
    return line


def jit_costs(peers: str | None, torchax: str | None, smoke: bool) -> Iterator[str]:
    """Trace, memory and first step of the GPT step, each from fresh processes."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"TORCH_PJRT_CACHE_DIR": folder}
        trace = once("trace", script="jit.py", **env)
        took, cold = trace["later"], trace["first"]
        line = f"trace and lowering of the GPT step: {took:.0f} ms (≤ 60) {verdict(took, 60)}; the first {cold:.0f} ms"
        if torchax:
            theirs = once(script="gpt_torchax.py", python=torchax, JAX_PLATFORMS="cpu", PYTHONPATH="")["later"]
            ratio = took / theirs
            line += f"; torchax's {theirs:.0f} ms: {ratio:.3f} × (≤ 0.25) {verdict(ratio, 0.25)}"
        yield line
        ours = once("memory", script="jit.py", **env)["bytes"]
        line = f"memory of the GPT step: {ours / 2**20:.1f} MiB"
        if peers:
            theirs = once(script="gpt_jax.py", python=peers, JAX_PLATFORMS="cpu", PYTHONPATH="")["bytes"]
            ratio = ours / theirs
            line += f", JAX's with donation {theirs / 2**20:.1f} MiB: {ratio:.2f} × (≤ 1.0) {verdict(ratio, 1.0)}"
        yield line
        runs = [once("first", script="jit.py", **env) for _ in range(1 if smoke else 3)]
        done = statistics.median(r["done"] for r in runs)
        least = statistics.median(r["imported"] for r in runs) + cold
        yield (
            f"second process, first jit step done after {done:.0f} ms, {runs[-1]['compiles']} compiles: "
            f"{done / least:.2f} × import and trace (≤ 1.5) {verdict(done / least, 1.5)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="Python of the environment that has JAX")
    parser.add_argument("--torch-xla", help="Python of an environment that has torch_xla")
    parser.add_argument("--torchax", help="Python of an environment that has torchax and optax")
    parser.add_argument("--smoke", action="store_true", help="only to see that it runs: one short repeat of each")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="a regular expression: only the cases whose names it matches")
    options = parser.parse_args()
    CASES[:] = [case for case in CASES if re.search(options.only, case.name)]
    repeats, scale = (1, 0.1) if options.smoke else (options.repeats, 1.0)

    places = {OURS: sys.executable, "torch:cpu": sys.executable}
    places |= {"jax": options.peers} if options.peers else {}
    places |= {"torch_xla": options.torch_xla} if options.torch_xla else {}
    workers = {}
    for system, python in places.items():
        try:
            workers[system] = Worker(python, system)
        except (RuntimeError, OSError) as error:
            print(f"{system} is left out: {error}", file=sys.stderr)
    results = race(workers, repeats, scale)
    for worker in workers.values():
        worker.process.stdin.close()
        worker.process.wait()
    print(table(results, list(workers)))
    lines = []
    if any("jit" in case.name for case in CASES):
        lines += [call_overhead(results)]
        lines += jit_costs(options.peers if "jax" in workers else None, options.torchax, options.smoke)
        print("", *lines, sep="\n")

    more: dict[str, dict[str, float]] = {}
    if not options.only:
        more["import (target: added <= 100 ms)"] = import_cost(1 if options.smoke else 5)
        more["host bytes of a live f32[4]"] = {device: once("memory", device)["bytes"] for device in ("pjrt", "cpu")}
        if not options.smoke:
            more["start of the demo (target: no warm compile, cold / warm >= 5)"] = starts()
    for name, figures in more.items():
        print(f"\n{name}: " + ", ".join(f"{key} {value:.1f}" for key, value in figures.items()))
    if options.json:
        options.json.write_text(json.dumps({"table": results, "jit": lines, "more": more}, indent=1) + "\n")


if __name__ == "__main__":
    main()
