"""What a list says of why a job wastes."""

from decimal import Decimal
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
        ("undetermined", 0.05, "No known cause"),
        ("idle_held", 0.001, "Idle: still held"),  # a finding says more
    ],
)
def test_of_equal_jobs_a_list_says_the_same(cause, wasted, said):
    totals = SimpleNamespace(wasted_share_of_observed=wasted, coverage=1.0)
    primary = SimpleNamespace(cause=cause) if cause else None

    line = JobLine(SimpleNamespace(totals=totals), None, primary, None, Signals(), None)

    assert line.why == said


@pytest.mark.parametrize(
    ("minutes", "end_ms", "cause", "wasted", "said"),
    [
        (29, None, None, 0.0, "Too young to tell"),
        (29, None, "undetermined", 0.5, "Too young to tell"),
        (30, None, None, 0.0, "Nothing to change"),
        (30, None, None, 0.5, "Not diagnosed yet"),
        (29, None, "hung", 0.5, "Stuck"),  # ten minutes are enough to know
        (29, 1, None, 0.5, "Too short to tell"),
        (29, 1, None, 0.0, "Nothing to change"),
    ],
)
def test_of_a_job_of_less_than_half_an_hour_it_is_said_that_nobody_can_know(
    minutes, end_ms, cause, wasted, said
):
    totals = SimpleNamespace(wasted_share_of_observed=wasted, coverage=1.0)
    primary = SimpleNamespace(cause=cause) if cause else None
    job = SimpleNamespace(end_ms=end_ms, kind="batch")
    lasted_ms = minutes * 60_000

    line = JobLine(SimpleNamespace(totals=totals), job, primary, None, Signals(), lasted_ms)

    assert (line.why, line.is_well) == (said, said == "Nothing to change")


@pytest.mark.parametrize(
    ("underused", "wasted", "is_underused"),
    [("11.09", "0.01", True), ("5.00", "0", False), ("5.01", "0", True), ("11.09", "12", False)],
)
def test_a_job_is_underused_where_that_is_more_than_it_wasted_and_5_percent_of_its_cost(
    underused, wasted, is_underused
):
    totals = SimpleNamespace(
        cost_usd=Decimal(100),
        wasted_usd=Decimal(wasted),
        cost_by_state={"underused": Decimal(underused)},
    )

    line = JobLine(SimpleNamespace(totals=totals), None, None, None, Signals(), None)

    assert (line.underused_usd is not None) == is_underused
