"""What a list says of why a job wastes."""

from types import SimpleNamespace

import pytest

from fleetwatch.dashboard.job_lines import JobLine
from fleetwatch.dashboard.job_orders import Signals


@pytest.mark.parametrize(
    ("cause", "wasted", "said"),
    [
        ("healthy", 0.001, "Nothing to change"),
        ("busy", 0.049, "Nothing to change"),
        ("undetermined", 0.049, "Nothing to change"),
        (None, 0.049, "Nothing to change"),
        (None, None, "Nothing to change"),  # nothing of it was observed yet
        (None, 0.05, "Not diagnosed yet"),
        ("undetermined", 0.05, "Cause not determined"),
        ("idle_held", 0.001, "Idle: still held"),  # a finding says more
    ],
)
def test_of_equal_jobs_a_list_says_the_same(cause, wasted, said):
    totals = SimpleNamespace(wasted_share_of_observed=wasted, coverage=1.0)
    primary = SimpleNamespace(cause=cause) if cause else None

    line = JobLine(SimpleNamespace(totals=totals), None, primary, None, Signals(), None)

    assert line.why == said
