"""torch's own op database on the device, against torch CPU: each claimed entry, dtype and sample.

``unclaimed.txt`` lists what does not pass, with the reason; an entry there that passes fails here, so the list stays
true. ``python -m tests.opinfo.update`` writes it anew.
"""

import pytest

from tests.opinfo.harness import Case, full_name, op_db, run_case, run_errors, selected_cases, unclaimed
from tests.support import DEVICE, SHARE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
UNCLAIMED = unclaimed() if DEVICE != "cpu" else {}


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
    if count and SHARE == 1:
        pytest.fail(f"{case.id} passes now: take it from unclaimed.txt ({reason})")


WITH_ERRORS = [op for op in op_db if op.error_inputs_func is not None]


@pytest.mark.parametrize("op", WITH_ERRORS, ids=full_name)
def test_bad_input(op):
    reason = UNCLAIMED.get(f"{full_name(op)}-errors")
    if reason is None:
        run_errors(op)
        return
    try:
        run_errors(op)
    except Exception:
        pytest.xfail(reason)
    if SHARE == 1:
        pytest.fail(f"errors of {full_name(op)} pass now: take them from unclaimed.txt ({reason})")
