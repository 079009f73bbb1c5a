"""The example GPT's training step traced and lowered by torchax, the peer of jit's trace row. Runs in an environment
of its own (torchax needs torch < 2.13, and optax); it imports the example model by path and nothing of this project."""

import json
import statistics
import sys
import time
from pathlib import Path

import jax
import optax
import torch
import torchax
from torchax import interop
from torchax.train import make_train_step


def start():
    """A function that makes the step anew, as JAX sees it, and its arguments: weights, buffers, state, ids, labels."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from models import GPT

    torch.manual_seed(0)
    with torchax.default_env():
        model = GPT(vocabulary=256).to("jax")
        weights, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        ids = torch.randint(256, (8, 65)).to("jax")
        inputs, labels = ids[:, :-1], ids[:, 1:].flatten()
        optimizer = optax.adamw(1e-3, weight_decay=0.01)
        state = interop.call_jax(optimizer.init, weights)

    def forward(weights, buffers, ids):
        return torch.func.functional_call(model, (weights, buffers), (ids,))

    def loss(logits, labels):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels)

    def fresh():
        return interop.jax_view(make_train_step(forward, loss, optimizer))

    return fresh, interop.jax_view((weights, buffers, state, inputs, labels))


def trace():
    """Milliseconds from the step to its StableHLO module, with no compiler: the first, and the median of the rest."""
    fresh, arguments = start()
    times = []
    for _ in range(4):
        step = fresh()
        began = time.perf_counter()
        jax.jit(step, donate_argnums=(0, 2)).lower(*arguments).as_text()
        times.append((time.perf_counter() - began) * 1e3)
    return {"first": times[0], "later": statistics.median(times[1:])}


if __name__ == "__main__":
    print(json.dumps(trace()))
