"""What a step alone would have saved, and since when a job is stuck: worked out by hand."""

from decimal import Decimal
from types import SimpleNamespace

import pytest

from fleetwatch.dashboard.step_savings import part_of, share_of, with_savings
from fleetwatch.dashboard.stuck_jobs import Stuck, stuck
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.lib.intervals import HOUR_MS

# 20 to 24 GPU-hours at $8
SAVING = Saving(20 * HOUR_MS, 24 * HOUR_MS, Decimal(160), Decimal(192))


@pytest.mark.parametrize(
    ("hours", "said"),
    [(0, ""), (7.3, "With this step about $58.40."), (30, "With this step about $192.")],
)
def test_a_step_is_priced_by_its_own_saving_and_never_above_the_findings(hours, said):
    [step] = with_savings([Step("End it.", saved_gpu_ms=int(hours * HOUR_MS))], SAVING)

    assert step.detail == said


def test_what_has_no_rate_has_no_dollars():
    unpriced = Saving(HOUR_MS, HOUR_MS, Decimal(0), Decimal(0))

    assert with_savings([Step("End it.", saved_gpu_ms=HOUR_MS)], unpriced)[0].detail == ""


def test_of_a_part_of_the_idle_time_a_step_saves_as_large_a_part():
    """12 of the job's 48 idle hours: a quarter, so 6 of the 24 hours that the period has of it."""
    step = Step("End it.", saved_gpu_ms=12 * HOUR_MS, idle_gpu_ms=48 * HOUR_MS)

    part = part_of(SAVING, share_of(step, SAVING))

    assert part == Saving(6 * HOUR_MS, 6 * HOUR_MS, Decimal(48), Decimal(48))


def test_where_a_step_was_not_measured_the_whole_range_stands():
    assert part_of(SAVING, share_of(Step("End it."), SAVING)) == SAVING


def line(cause: str = "hung", *, held_ms: int = 8 * HOUR_MS):
    finding = SimpleNamespace(cause=cause, first_ms=10 * HOUR_MS, last_ms=14 * HOUR_MS)
    return SimpleNamespace(finding=finding, gpus=2, caused=SimpleNamespace(held_ms=held_ms))


def test_a_job_is_stuck_since_its_first_moment_if_it_never_went_on():
    assert stuck([line("idle_held"), line()], None) == Stuck(10 * HOUR_MS, 4 * HOUR_MS)
    assert stuck([line()], 13 * HOUR_MS) == Stuck(10 * HOUR_MS, 3 * HOUR_MS)
    assert stuck([line(held_ms=7 * HOUR_MS)], None) is None
    assert stuck([line("idle_held")], None) is None
