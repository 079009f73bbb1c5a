"""The example GPT and its AdamW step written in plain JAX, as a JAX user would: what the benchmark's jit rows compare
with. Runs in the peers' environment; it imports nothing of this project."""

import json
from functools import partial

import jax
import jax.numpy as jnp

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 4, 128, 4, 256, 64, 8


def parameters(key):
    """Weights by name, of the shapes that the torch model has."""

    def linear(key, n, m):
        bound = n**-0.5
        w, b = jax.random.split(key)
        return {
            "w": jax.random.uniform(w, (n, m), minval=-bound, maxval=bound),
            "b": jax.random.uniform(b, (m,), minval=-bound, maxval=bound),
        }

    def norm():
        return {"g": jnp.ones(WIDTH), "b": jnp.zeros(WIDTH)}

    keys = iter(jax.random.split(key, 3 + 4 * LAYERS))
    return {
        "tokens": jax.random.normal(next(keys), (VOCABULARY, WIDTH)),
        "places": jax.random.normal(next(keys), (LENGTH, WIDTH)),
        "blocks": [
            {
                "norm1": norm(),
                "qkv": linear(next(keys), WIDTH, 3 * WIDTH),
                "out": linear(next(keys), WIDTH, WIDTH),
                "norm2": norm(),
                "up": linear(next(keys), WIDTH, 4 * WIDTH),
                "down": linear(next(keys), 4 * WIDTH, WIDTH),
            }
            for _ in range(LAYERS)
        ],
        "norm": norm(),
        "head": linear(next(keys), WIDTH, VOCABULARY)["w"],
    }


def normed(p, x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * p["g"] + p["b"]


def affine(p, x):
    return x @ p["w"] + p["b"]


def block(p, x):
    n, length, _ = x.shape
    qkv = affine(p["qkv"], normed(p["norm1"], x)).reshape(n, length, 3, HEADS, WIDTH // HEADS)
    y = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=True)
    x = x + affine(p["out"], y.reshape(n, length, WIDTH))
    return x + affine(p["down"], jax.nn.gelu(affine(p["up"], normed(p["norm2"], x)), approximate=False))


def loss(p, ids):
    x = p["tokens"][ids[:, :-1]] + p["places"]
    for b in p["blocks"]:
        x = block(b, x)
    logits = normed(p["norm"], x) @ p["head"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), ids[:, 1:, None], -1)
    return -chosen.mean()


@partial(jax.jit, donate_argnums=(0, 1))
def step(p, state, ids):
    """One AdamW step as torch does it: ``(parameters, (count, m, v), loss)``, the old ones donated."""
    value, grads = jax.value_and_grad(loss)(p, ids)
    count, m, v = state
    count = count + 1
    m = jax.tree.map(lambda m, g: m + 0.1 * (g - m), m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)

    def update(p, m, v):
        denominator = jnp.sqrt(v) / jnp.sqrt(1 - 0.999**count) + 1e-8
        return p * (1 - 1e-3 * 0.01) - 1e-3 / (1 - 0.9**count) * m / denominator

    return jax.tree.map(update, p, m, v), (count, m, v), value


def start():
    """Parameters, optimizer state and a batch."""
    p = parameters(jax.random.PRNGKey(0))

    def zeros():
        return jax.tree.map(jnp.zeros_like, p)

    ids = jax.random.randint(jax.random.PRNGKey(1), (BATCH, LENGTH + 1), 0, VOCABULARY)
    return p, (jnp.zeros(()), zeros(), zeros()), ids


def memory():
    """Bytes that the compiled step needs at once."""
    m = step.lower(*start()).compile().memory_analysis()
    return m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes


if __name__ == "__main__":
    print(json.dumps({"bytes": memory()}))
