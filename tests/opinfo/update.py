"""Writes unclaimed.txt anew: runs every case, or those whose id starts with an argument, and keeps the rest.

    python -m tests.opinfo.update [PREFIX ...]

Each case runs in a worker process, so that a crash or a hang costs one case and is written down as its reason.
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ProcessPoolExecutor, TimeoutError
from multiprocessing import get_context

SECONDS = 240


def reason_of(error: BaseException) -> str:
    """One short line that stays the same from run to run."""
    text = " ".join(str(error).split())
    missing = re.search(r"no kernel for (.*)", text)
    if missing:
        return f"no kernel: {missing[1][:100]}"
    text = re.sub(r"^\S+ \(.*?\)(?: in place)?(?=[:\[])", "", text)
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    kind = "differs" if isinstance(error, AssertionError) else type(error).__name__
    return f"{kind}: {text[:120]}"


def attempt(case_id: str) -> str | None:
    """The reason why ``case_id`` fails, or None."""
    import torch

    import tests.conftest  # noqa: F401  (sets the cache directory before the device exists)
    from tests.opinfo import harness

    torch.set_num_threads(1)
    name, _, dtype = case_id.rpartition("-")
    try:
        if dtype == "errors":
            harness.run_errors(next(op for op in harness.op_db if harness.full_name(op) == name))
        else:
            harness.run_case(next(c for c in harness.cases() if c.id == case_id))
    except Exception as error:
        return reason_of(error)
    return None


def sweep(ids: list[str], workers: int = 2) -> dict[str, str]:
    """Reasons by id for the cases that fail; a worker that dies is replaced and its cases are tried once each alone."""
    reasons: dict[str, str] = {}
    todo, batch = list(ids), 40
    while todo:
        now, todo = todo[: batch * workers], todo[batch * workers :]
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            futures = {case: pool.submit(attempt, case) for case in now}
            for case, future in futures.items():
                try:
                    reason = future.result(timeout=SECONDS)
                except TimeoutError:
                    reason = f"hangs: more than {SECONDS} s"
                    for process in list(pool._processes.values()):
                        process.kill()
                except Exception:
                    reason = None
                    if len(now) == 1:
                        reason = "crashes the process"
                    else:
                        todo.append(case)
                        batch = 1 if len(todo) < 2 * workers * 40 else batch
                if reason:
                    reasons[case] = reason
        print(f"{len(ids) - len(todo)}/{len(ids)} run, {len(reasons)} unclaimed", file=sys.stderr, flush=True)
    return reasons


def main(prefixes: list[str]) -> None:
    from tests.opinfo import harness

    ids = harness.all_ids()
    chosen = [i for i in ids if not prefixes or i.startswith(tuple(prefixes))]
    kept = {k: v for k, v in harness.unclaimed().items() if k in set(ids) - set(chosen)}
    harness.UNCLAIMED_FILE.write_text(harness.unclaimed_text(kept | sweep(chosen)))


if __name__ == "__main__":
    main(sys.argv[1:])
