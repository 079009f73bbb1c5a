"""Fixtures of the whole suite. TORCH_PJRT_TEST_DEVICE=cpu runs it on torch CPU, to test the tests."""

import os
from pathlib import Path

# Compiled programs outlive a run: the second one starts warm. Plugins' own logs would drown the report.
os.environ.setdefault("TORCH_PJRT_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest
import torch

from tests import support
from tests.support import DEVICE, fallbacks

MODES = ("strict", "debug", "jit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", help="i/n: only the i-th of n parts of the collected tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [i for i in items if _runs_under_jit(i) or not _asks_for_jit(i)]
    part, parts = map(int, config.getoption("--shard").split("/"))
    kept = [item for i, item in enumerate(items) if i % parts == part - 1]
    config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if i % parts != part - 1])
    items[:] = kept


def _asks_for_jit(item: pytest.Item) -> bool:
    return getattr(item, "callspec", None) is not None and item.callspec.params.get("mode") == "jit"


def _runs_under_jit(item: pytest.Item) -> bool:
    """Whether jit makes a difference: what the test gives to ``support.check`` becomes one program, or it says so."""
    chosen = any(mark.name == "parametrize" and mark.args[0] == "mode" for mark in item.iter_markers())
    return _asks_for_jit(item) and (chosen or "check" in item.function.__code__.co_names)


@pytest.fixture
def device() -> str:
    """The device under test."""
    return DEVICE


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest):
    """Runs the test in each mode."""
    if DEVICE == "cpu":
        yield request.param
        return
    import torch_pjrt as tp

    tp.eager_mode("strict" if request.param == "jit" else request.param)
    support.jitted = request.param == "jit"
    mark = request.node.get_closest_marker("untraceable")
    support.untraceable = mark.args[0] if mark else None
    yield request.param
    support.jitted, support.untraceable = False, None
    tp.eager_mode("strict")


@pytest.fixture
def no_fallback():
    """Fails the test if an op of it had no kernel on the device."""
    before = fallbacks()
    yield
    after = {name: count - before.get(name, 0) for name, count in fallbacks().items() if count != before.get(name, 0)}
    assert not after, f"ops that fell back to CPU: {after}"


@pytest.fixture(autouse=True)
def _same_random_numbers():
    torch.manual_seed(0)
