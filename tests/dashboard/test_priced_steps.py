"""What a step alone would have saved, and since when a job is stuck: worked out by hand."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from fleetwatch.dashboard.priced_steps import with_savings
from fleetwatch.dashboard.stuck_jobs import Stuck, stuck
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.lib.intervals import HOUR_MS


def test_the_step_that_was_measured_is_told_with_what_the_finding_could_save_by_it():
    steps = [Step("Ask."), Step("End it.", saved_gpu_ms=HOUR_MS), Step("Or end that.")]

    priced = with_savings(steps, Saving(HOUR_MS, HOUR_MS, Decimal("58.39"), Decimal("58.39")))

    assert [step.detail for step in priced] == ["", "With this step about $58.39.", ""]


@pytest.mark.parametrize("worth", [None, Saving(HOUR_MS, HOUR_MS, Decimal(0), Decimal(0))])
def test_what_has_no_rate_or_was_not_measured_has_no_dollars(worth):
    assert with_savings([Step("End it.", saved_gpu_ms=HOUR_MS)], worth)[0].detail == ""


def line(cause: str = "hung", *, held_ms: int = 8 * HOUR_MS):
    finding = SimpleNamespace(cause=cause, first_ms=10 * HOUR_MS, last_ms=14 * HOUR_MS)
    return SimpleNamespace(finding=finding, gpus=2, caused=SimpleNamespace(held_ms=held_ms))


def test_a_job_is_stuck_since_its_first_moment_if_it_never_went_on():
    assert stuck([line("idle_held"), line()], None) == Stuck(10 * HOUR_MS, 4 * HOUR_MS)
    assert stuck([line()], 13 * HOUR_MS) == Stuck(10 * HOUR_MS, 3 * HOUR_MS)
    assert stuck([line(held_ms=7 * HOUR_MS)], None) is None
    assert stuck([line("idle_held")], None) is None
