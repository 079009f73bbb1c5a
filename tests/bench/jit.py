"""What jit costs in a fresh process: trace, memory, first step. The GPT step is that of worker.py.

python jit.py trace | memory | first
"""

import json
import sys
import time

BEGAN = time.perf_counter()


def trace() -> dict:
    """Milliseconds from a step to its StableHLO text, with no compiler: in a new process, and later ones' median."""
    import torch_pjrt
    from worker import make_gpt_step

    step, ids = make_gpt_step("pjrt")
    times = []
    for _ in range(8):
        start = time.perf_counter()
        torch_pjrt.jit(step).lower(ids).as_text(locations=False)
        times.append((time.perf_counter() - start) * 1e3)
    return {"first": times[0], "later": sorted(times[1:])[len(times) // 2]}


def memory() -> dict:
    """Bytes of the compiled step: all that it needs at once, parameters, state, gradients and temporaries."""
    import torch_pjrt
    from worker import make_gpt_step

    step, ids = make_gpt_step("pjrt")
    compiled = torch_pjrt.jit(step)
    for _ in range(2):  # the first one makes the optimizer's state
        compiled(ids)
    m = compiled.lower(ids).compile().memory_analysis()
    return {"bytes": m["arguments"] + m["outputs"] + m["temporaries"] - m["aliased"]}


def first() -> dict:
    """Milliseconds from the start of the process to the end of the first step, and what was compiled.

    What torch imports when the first optimizer is made, on any device, counts as import.
    """
    import torch._dynamo  # noqa: F401  (it is loaded here so that it counts)
    import torch_pjrt
    from worker import make_gpt_step

    imported = time.perf_counter() - BEGAN
    step, ids = make_gpt_step("pjrt")
    torch_pjrt.jit(step)(ids).item()
    done = time.perf_counter() - BEGAN
    info = torch_pjrt.cache_info()
    return {"imported": imported * 1e3, "done": done * 1e3, "compiles": info["compiles"]}


if __name__ == "__main__":
    print(json.dumps({"trace": trace, "memory": memory, "first": first}[sys.argv[1]]()))
