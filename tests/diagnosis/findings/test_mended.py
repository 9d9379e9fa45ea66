"""What a later change of the same job settled is saved since, and no longer to be saved."""

from datetime import timedelta

import pytest

from fleetwatch.diagnosis.findings.inbox import explained, inbox
from fleetwatch.diagnosis.findings.mended import mended
from fleetwatch.diagnosis.models import Fix
from fleetwatch.jobs.models import Allocation, Job
from fleetwatch.lib.intervals import Interval, to_ms
from tests.diagnosis import told
from tests.diagnosis.told import DAY, NOW

pytestmark = pytest.mark.django_db
AT = NOW - DAY
AT_MS = to_ms(AT)


def a_change(**facts) -> None:
    defaults = {
        **{"user": "ann", "job_name": "train", "gpus": 1, "cause": "idle_held", "at": AT},
        **{"was_noticed": False, "outcome": "improved", "runs_before": 5, "runs_after": 4},
        **{"saved_low_ms": 0, "saved_high_ms": 0},
    }
    Fix.objects.create(**defaults | facts)


def a_run(**facts) -> Job:
    """On one GPU."""
    job = told.job(**{"end_ms": AT_MS} | facts)
    Allocation.objects.create(gpu=told.gpu(), job=job, source="slurm")
    return job


def settled(**facts) -> bool:
    """Whether the job's finding is, whose job ended just when the change came."""
    job = a_run(**facts)
    return bool(mended([(job.pk, "idle_held")]))


@pytest.mark.parametrize(
    ("end_ms", "is_settled"), [(AT_MS - 1, True), (AT_MS, True), (AT_MS + 1, False), (None, False)]
)
def test_runs_that_ended_before_the_change_are_settled(end_ms, is_settled):
    a_change()

    assert settled(end_ms=end_ms) == is_settled


@pytest.mark.parametrize(
    "other",
    [
        {"user": "bo"},
        {"job_name": "train-2"},
        {"cause": "idle_empty"},
        {"gpus": 2},
        {"gpus": None},  # of a service
        {"outcome": "unproven"},
        {"outcome": "regressed"},
        {"outcome": "waiting"},
    ],
)
def test_another_change_or_one_that_proved_nothing_settles_none(other):
    a_change(**other)

    assert not settled()


def test_without_a_change_or_findings_nothing_is_settled():
    assert not settled()
    a_change()
    assert mended([]) == set()


def test_it_stands_as_fixed_in_the_inbox_and_on_its_page_and_in_no_sum():
    job = a_run()
    told.rate()
    told.cause(of=job)
    finding = told.finding(job)
    period = Interval(NOW - timedelta(days=2), NOW)
    assert inbox(period, now=NOW).counts()["open"] == 1

    a_change()

    counts = inbox(period, now=NOW).counts()
    assert (counts["open"], counts["fixed"]) == (0, 1)
    assert explained(finding, period, now=NOW).line.status == "fixed"
    assert inbox(period, now=NOW).of_jobs.of_status("open").lines.whole().saving.high_usd == 0
