"""What the tests share: the device under test, running one function on both devices, comparing what comes out."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tests.tolerances import tolerance

DEVICE = os.environ.get("TORCH_PJRT_TEST_DEVICE", "pjrt")
# Share of the exhaustive sweeps to run, by a fixed rule; 1 runs everything.
SHARE = float(os.environ.get("TORCH_PJRT_TEST_SHARE", "1"))


def in_share(index: int, share: float = SHARE) -> bool:
    """Whether item ``index`` of a sweep is in the share: evenly spread, the first always, the same on every run."""
    return int(index * share) != int((index - 1) * share) if index else True


def python(program: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs ``program`` in a fresh interpreter, with ``environment`` added to this one's; ends it after four minutes."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )


def together(work: Callable[[int], Any], threads: int = 4) -> None:
    """Runs ``work(i)`` in each of ``threads`` threads at once and raises what the first that failed raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(threads)

    def body(i: int) -> None:
        try:
            start.wait()
            work(i)
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=body, args=(i,)) for i in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]


def to_cpu(value: Any) -> Any:
    """``value`` with every tensor in it detached and moved to the CPU."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, Mapping):
        return {k: to_cpu(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_cpu(v) for v in value]
    return value


def to_device(value: Any, device: str) -> Any:
    """``value`` with every CPU tensor in it on ``device``, as leaves of their own that require what they did."""
    if isinstance(value, torch.Tensor):
        moved = value.detach().to(device)
        return moved.requires_grad_(value.requires_grad) if value.requires_grad else moved
    if isinstance(value, Mapping):
        return {k: to_device(v, device) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_device(v, device) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(to_device(v, device) for v in value)
    if isinstance(value, torch.device) and value.type == "cpu":
        return torch.device(device)
    return value


def assert_same(actual: Any, expected: Any, what: str = "result", grown: bool = False) -> None:
    """Same structure, dtypes, shapes, and values within the table; NaN equals NaN."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor), f"{what}: got {type(actual).__name__}, expected a tensor"
        assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
        assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
        rtol, atol = tolerance(expected.dtype, grown)
        torch.testing.assert_close(
            actual.detach().cpu().resolve_conj().resolve_neg(),
            expected.detach().cpu().resolve_conj().resolve_neg(),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            check_stride=False,
            msg=lambda text: f"{what}: {text}",
        )
    elif isinstance(expected, Mapping):
        assert set(actual) == set(expected), f"{what}: keys {set(actual)}, expected {set(expected)}"
        for key in expected:
            assert_same(actual[key], expected[key], f"{what}[{key!r}]", grown)
    elif isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
        assert len(actual) == len(expected), f"{what}: {len(actual)} items, expected {len(expected)}"
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            assert_same(a, e, f"{what}[{i}]", grown)
    elif isinstance(expected, float):
        rtol, atol = tolerance(torch.float32, grown)  # the number may have been read from one
        torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    else:
        assert actual == expected, f"{what}: got {actual!r}, expected {expected!r}"


def outcome(function: Callable[[], Any]) -> Any:
    """What ``function`` returns, on the CPU; or the exception that it raises."""
    try:
        return to_cpu(function())
    except Exception as error:
        return error


def assert_same_outcome(on_device: Callable[[], Any], on_cpu: Callable[[], Any], what: str = "result") -> None:
    """Both give the same values, or both raise the same kind of exception."""
    expected = outcome(on_cpu)
    if isinstance(expected, Exception):
        actual = outcome(on_device)
        if type(actual).__name__ == "JitError":
            raise actual
        assert isinstance(actual, Exception), f"{what}: no error; torch CPU raises {expected!r}"
        assert isinstance(actual, type(expected)), f"{what}: raises {actual!r}; torch CPU raises {expected!r}"
    else:
        assert_same(to_cpu(on_device()), expected, what)


# Set by the fixture `mode`: the device's side of a comparison runs as one jit program; and what the mark
# `untraceable` of the test says: words of the JitError with which the trace of it is refused.
jitted = False
untraceable: str | None = None


def in_mode(function: Callable[..., Any], device: str = DEVICE) -> Callable[..., Any]:
    """``function`` as the mode under test runs it on ``device``."""
    if not jitted or device == "cpu":
        return function
    import torch_pjrt

    return torch_pjrt.jit(function)


def on_device(function: Callable[..., Any], device: str, *given: Any) -> Any:
    """``function(device, *given)`` in the mode under test; skips the test whose mark says that it cannot be traced,
    once the trace has been refused with the words of the mark."""
    call = in_mode(lambda: function(device, *given), device)
    if not jitted or device == "cpu" or untraceable is None:
        return call()
    import pytest
    import torch_pjrt

    try:
        call()
    except torch_pjrt.JitError as error:
        if untraceable not in str(error):
            pytest.fail(f"refused, but not because {untraceable}: {error}")
        pytest.skip(f"cannot be traced: {untraceable}")
    pytest.fail(f"is traced now; take away its mark untraceable({untraceable!r})")


def check(function: Callable[..., Any], prepare: Callable[[str], Any] | None = None) -> None:
    """``function(device)`` has the same outcome as ``function("cpu")``. ``prepare(device)`` makes what the function
    gets as its second argument: modules and seeds, which are made outside of a trace."""

    def given(device: str) -> tuple[Any, ...]:
        return () if prepare is None else (prepare(device),)

    assert_same_outcome(
        lambda: on_device(function, DEVICE, *given(DEVICE)), lambda: function("cpu", *given("cpu")), function.__name__
    )


def fallbacks() -> dict[str, int]:
    """Ops that ran on the CPU instead, with their counts; none on the CPU itself."""
    if DEVICE == "cpu":
        return {}
    import torch_pjrt

    return dict(torch_pjrt.fallbacks())


def assert_no_fallback(before: dict[str, int]) -> None:
    """Nothing ran on the CPU since ``fallbacks()`` gave ``before``."""
    missing = sorted(name for name, n in fallbacks().items() if n != before.get(name, 0))
    assert not missing, f"no kernel for {', '.join(missing)}"
