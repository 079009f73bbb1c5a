"""Measurements that need a fresh process each: start of the demo, memory of tiny tensors.

python once.py start | memory DEVICE
"""

import itertools
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start() -> dict:
    """Three steps of each of the demo's models: seconds from an imported torch to the end, and what was compiled.

    torch imports ``torch._dynamo`` when the first optimizer is made, on any device and for about a second. That is part
    of importing torch here.
    """
    sys.path.insert(0, str(ROOT / "examples"))
    import demo
    import models
    import torch
    import torch._dynamo
    import torch_pjrt as tp

    torch.manual_seed(0)
    train_set, _ = demo.digits()
    text = demo.topics()
    jobs = [
        (models.ConvNet(), torch.optim.SGD, demo.digit_batches(train_set, 1)),
        (models.GPT(256), torch.optim.AdamW, demo.text_batches(text, 3)),
    ]
    began = time.perf_counter()
    for model, optimizer, batches in jobs:
        model = model.to("pjrt")
        demo.train(model, optimizer(model.parameters(), lr=1e-3), list(itertools.islice(batches, 3)), "pjrt", "eager")
    return {"seconds": time.perf_counter() - began, "compiles": tp.cache_info()["compiles"]}


def resident() -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def memory(device: str, count: int = 100_000) -> dict:
    """Host bytes of each of many live f32[4] results."""
    import torch

    x = torch.ones(4, device=device)
    warm = [x * 2 for _ in range(1000)]
    before = resident()
    live = [x * 2 for _ in range(count)]
    return {"bytes": (resident() - before) / len(live), "warm": len(warm)}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps({"start": start, "memory": memory}[what](*(int(a) if a.isdigit() else a for a in arguments))))
