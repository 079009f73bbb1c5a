"""Times pieces of work in one process on one system, when asked: lines of JSON in, lines of JSON out.

    python worker.py torch:pjrt | torch:cpu | jax | torch_xla

Runs in the peer's own environment, so it imports nothing of this project but the device itself, and models by path.
A request is ``{"case": name, "seconds": budget}``; the answer ``{"us": microseconds a call}`` or ``{"skip": reason}``.
"""

import json
import sys
import time
from pathlib import Path


def torch_cases(device: str):
    """Cases by name as (function, calls in one go), and how to wait for the device."""
    import torch

    if device == "xla":
        import torch_xla

        torch_xla.experimental.eager_mode(True)  # left lazy, results that nobody reads would not be computed at all

    def wait():
        if device == "pjrt":
            torch.pjrt.synchronize()
        elif device == "xla":
            torch_xla.sync(wait=True)

    x4, w4 = torch.ones(4, device=device), torch.full((4,), 0.5, device=device)
    m64, v64 = torch.randn(64, 64).to(device), torch.randn(64, 64).to(device)
    small = torch.ones(4, 6, device=device)
    linear = torch.nn.Linear(64, 64).to(device)
    chained = torch.ones(4, device=device, requires_grad=True)

    def chain():
        y = chained
        for _ in range(10):
            y = y * w4
        chained.grad = None
        y.sum().backward()

    def forward_linear():
        with torch.no_grad():
            linear(m64)

    cases = {
        "mul f32[4]": lambda: x4 * w4,
        "x*0.5+1": lambda: x4 * 0.5 + 1,
        "matmul 64x64": lambda: m64 @ v64,
        "softmax 64x64": lambda: torch.softmax(m64, -1),
        "Linear(64,64) forward": forward_linear,
        "10 x*w, forward+backward": chain,
        "x.t()": lambda: small.t(),
        "x.view(24)": lambda: small.view(24),
        "x[1:3, 2]": lambda: small[1:3, 2],
        "x[1]": lambda: small[1],
    }
    cases["GPT training step"] = gpt_step(device)
    if device == "pjrt":
        import torch_pjrt

        cases["GPT training step under jit"] = gpt_step(device, torch_pjrt.jit)
        cases |= state_cases()
    elif device == "cpu":
        cases["GPT training step under jit"] = cases["GPT training step"]
    return cases, wait


def make_gpt_step(device: str):
    """A training step of the example GPT, and its argument."""
    import torch

    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from models import GPT

    torch.manual_seed(0)
    model = GPT(vocabulary=256).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(256, (8, 65), generator=torch.Generator().manual_seed(0)).to(device)

    def step(ids):
        opt.zero_grad()
        logits = model(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        return loss

    return step, ids


def gpt_step(device: str, compiled=lambda step: step):
    """The step through ``compiled``, made at its first call."""
    made = []

    def work():
        if not made:
            step, ids = make_gpt_step(device)
            made.extend((compiled(step), ids))
        made[0](made[1]).item()

    return work


STATE = 150  # tensors of state in the cases that time a call


def state_cases():
    """A jit function that changes 150 parameters of f32[4], and the bare launch of its program."""
    import torch
    import torch_pjrt

    model = torch.nn.ModuleList(torch.nn.LayerNorm(4) for _ in range(STATE // 2)).to("pjrt")
    x = torch.ones((), device="pjrt")

    @torch_pjrt.jit
    @torch.no_grad()
    def call(x):
        for p in model.parameters():
            p.add_(x)

    def launch(seconds):
        program = call.lower(x).compile()._program
        calls = max(1, int(seconds / max(program.time_launch(10), 1e-6)))
        return program.time_launch(calls) * 1e6

    launch.times_itself = True
    return {"jit call, 150 tensors of state": lambda: call(x), "its bare launch": launch}


def jax_cases():
    """The same pieces as JAX runs them: op by op, but for those under jit."""
    import jax
    import jax.numpy as jnp

    last = [jnp.zeros(())]

    def keep(value):
        last[0] = value

    x4, w4 = jnp.ones(4), jnp.full((4,), 0.5)
    key = jax.random.PRNGKey(0)
    m64, v64, bias = jax.random.normal(key, (64, 64)), jax.random.normal(key, (64, 64)), jnp.ones(64)
    small = jnp.ones((4, 6))

    def chain(x):
        for _ in range(10):
            x = x * w4
        return x.sum()

    gradient = jax.value_and_grad(chain)
    states = [[jnp.full((4,), float(i)) for i in range(STATE)], jnp.ones(())]
    change = jax.jit(lambda state, x: [s + x for s in state], donate_argnums=0)

    def call():
        states[0] = change(*states)
        keep(states[0][-1])

    gpt = []

    def gpt_step():
        import gpt_jax

        gpt[:] = gpt or gpt_jax.start()
        gpt[0], gpt[1], loss = gpt_jax.step(*gpt)
        float(loss)

    return {
        "mul f32[4]": lambda: keep(jnp.multiply(x4, w4)),
        "x*0.5+1": lambda: keep(x4 * 0.5 + 1),
        "matmul 64x64": lambda: keep(m64 @ v64),
        "softmax 64x64": lambda: keep(jax.nn.softmax(m64, -1)),
        "Linear(64,64) forward": lambda: keep(m64 @ v64.T + bias),
        "10 x*w, forward+backward": lambda: keep(gradient(x4)[1]),
        "x.t()": lambda: keep(small.T),
        "x.view(24)": lambda: keep(small.reshape(24)),
        "x[1:3, 2]": lambda: keep(small[1:3, 2]),
        "x[1]": lambda: keep(small[1]),
        "jit call, 150 tensors of state": call,
        "GPT training step under jit": gpt_step,
    }, lambda: jax.block_until_ready(last[0])


def microseconds(work, wait, seconds: float) -> float:
    """Mean time of a call over about ``seconds``, the wait for the device at the end included."""
    if getattr(work, "times_itself", False):
        return work(seconds)
    for _ in range(3):  # a training step under jit compiles twice: the optimizer makes its state in the first one
        work()
    wait()
    calls, took = 1, 0.0
    while took < seconds / 2:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait()
        took = time.perf_counter() - start
        if took < seconds / 2:
            calls = max(calls + 1, min(calls * 8, int(calls * seconds / max(took, 1e-6))))
    return took / calls * 1e6


def main(system: str) -> None:
    kind, _, device = system.partition(":")
    cases, wait = jax_cases() if kind == "jax" else torch_cases(device or "xla")
    print(json.dumps({"ready": system}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        work = cases.get(request["case"])
        if work is None:
            answer = {"skip": "not measured there"}
        else:
            try:
                answer = {"us": microseconds(work, wait, request["seconds"])}
            except Exception as error:
                answer = {"skip": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
