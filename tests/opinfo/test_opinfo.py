"""torch's own op database on the device, against torch CPU: each claimed entry and dtype, every sample in the principal
dtype and eight in the others.

``unclaimed.txt`` lists what does not pass, with the reason; an entry there that passes fails here, so the list stays
true. ``python -m tests.opinfo.update`` writes it anew.

The same under ``jit``, each sample one program: ``untraceable.txt`` lists what looks at values on the host, with the
reason. Such a sample raises ``JitError``; every other one is right.
"""

import pytest

from tests.opinfo.harness import (
    UNCLAIMED_FILE,
    WITH_ERRORS,
    Case,
    errors_id,
    full_name,
    op_db,
    run_case,
    run_errors,
    run_traced,
    selected_cases,
    traced_cases,
    unclaimed,
    unclaimed_text,
    untraceable,
)
from tests.support import DEVICE, SHARE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
UNCLAIMED = unclaimed() if DEVICE != "cpu" else {}
UNTRACEABLE = untraceable()


@pytest.mark.parametrize("case", selected_cases(), ids=lambda c: c.id)
def test_entry(case: Case):
    reason = UNCLAIMED.get(case.id)
    if reason is None:
        if run_case(case) == 0:
            pytest.skip("torch has no sample of it in this dtype")
        return
    try:
        count = run_case(case)
    except Exception:
        pytest.xfail(reason)
    if count and SHARE == 1 and case.principal:
        pytest.fail(f"{case.id} passes now: take it from unclaimed.txt ({reason})")


@pytest.mark.parametrize("mode", ["jit"], indirect=True)
@pytest.mark.parametrize("case", [c for c in traced_cases() if c.id not in UNCLAIMED], ids=lambda c: c.id)
def test_entry_under_jit(case: Case, mode):
    """Values, gradients and in-place results of one program are torch CPU's."""
    name = full_name(case.op)
    right, refusals = run_traced(case)
    if name not in UNTRACEABLE:
        assert not refusals, f"{case.id} cannot be traced, and untraceable.txt does not say why: {refusals[0]}"
        if not right:
            pytest.skip("torch has no sample of it in this dtype")
    elif SHARE == 1 and case.principal:
        assert refusals, f"{name} can be traced now: take it from untraceable.txt ({UNTRACEABLE[name]})"


@pytest.mark.parametrize("op", WITH_ERRORS, ids=full_name)
def test_bad_input(op):
    reason = UNCLAIMED.get(errors_id(op))
    if reason is None:
        run_errors(op)
        return
    try:
        run_errors(op)
    except Exception:
        pytest.xfail(reason)
    if SHARE == 1:
        pytest.fail(f"errors of {full_name(op)} pass now: take them from unclaimed.txt ({reason})")


def test_the_lists_are_of_this_op_db():
    """Their entries exist, and the count at the head of unclaimed.txt is right."""
    assert UNCLAIMED_FILE.read_text() == unclaimed_text(unclaimed())
    assert set(untraceable()) <= {full_name(op) for op in op_db}
