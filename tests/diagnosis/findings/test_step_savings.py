"""What a finding's step alone saves, where that was measured, is what its finding could save."""

from decimal import Decimal

import pytest
from django.core.cache import cache

from fleetwatch.diagnosis import selectors, services
from fleetwatch.diagnosis.findings import inbox, noted_facts, recurrence
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job, rate
from tests.ledger.fleet import BUSY, QUIET, T0, Sender, a_job, held, post

pytestmark = pytest.mark.django_db
WEEK = Interval(NOW - 7 * DAY, NOW)


@pytest.fixture
def several() -> list[Finding]:
    """At $2 an hour: one of $2 to $4, one of $3 to $6 whose step saves a quarter of what was idle,
    and one of $0.50 to $1.
    """
    rate()
    made = []
    for number, (hours, step) in enumerate(
        ((2, {}), (3, {"step_saved_ms": 3 * HOUR_MS, "step_of_ms": 12 * HOUR_MS}), (0.5, {}))
    ):
        of = job(f"slurm/della/{number}", name=f"run-{number}")
        cause(of=of, on=gpu(number), start=NOW - DAY, hours=hours)
        made.append(finding(of, **step))
    return made


def test_it_is_counted_and_ranked_as_what_its_step_saves(several):
    every = inbox.inbox(WEEK, now=NOW)

    lines = every.of_jobs[:]
    assert [line.finding.pk for line in lines] == [several[0].pk, several[1].pk, several[2].pk]
    ranges = [(line.caused.saving.low_usd, line.caused.saving.high_usd) for line in lines]
    assert ranges == [(2, 4), (Decimal("1.5"), Decimal("1.5")), (Decimal("0.5"), 1)]
    whole = every.saving("open")
    assert (whole.low_usd, whole.high_usd) == (4, Decimal("6.5"))
    # what was wasted stays what it is
    assert every.wasted_usd("open") == 11


def test_of_one_finding_and_of_its_job_it_is_the_same(several):
    line = selectors.line_of(several[1], WEEK, now=NOW)

    _, of_job = selectors.primary_causes(WEEK)[several[1].its_job.pk]

    assert line.caused.saving == of_job
    assert (of_job.low_usd, of_job.high_usd) == (Decimal("1.5"), Decimal("1.5"))
    assert (line.at_most.low_usd, line.at_most.high_usd) == (3, 6)
    assert selectors.line_of(several[0], WEEK, now=NOW).at_most is None


def test_of_a_part_of_the_idle_time_a_step_saves_as_large_a_part():
    """A quarter of four idle hours, of which the last day has one."""
    rate()
    for days_ago in (1, 3, 4, 5):
        cause(start=NOW - days_ago * DAY, on=gpu(days_ago))
    own = finding(step_saved_ms=HOUR_MS, step_of_ms=4 * HOUR_MS)

    line = selectors.line_of(own, Interval(NOW - DAY, NOW), now=NOW)

    assert line.caused.saving.high_usd == Decimal("0.5")


def test_a_step_never_saves_more_than_the_finding_could(several):
    Finding.objects.filter(pk=several[1].pk).update(
        step_saved_ms=30 * HOUR_MS, step_of_ms=30 * HOUR_MS
    )

    line = selectors.line_of(Finding.objects.get(pk=several[1].pk), WEEK, now=NOW)

    assert (line.caused.saving.low_usd, line.caused.saving.high_usd) == (6, 6)


def test_what_recurs_is_ahead_by_the_steps_of_its_runs():
    """Three runs of $2 each in a day, of which one's step saves half an hour."""
    rate()
    for number in range(3):
        of = job(f"slurm/della/{number}")
        cause(of=of, on=gpu(number), start=NOW - DAY, low=1)
        step = {"step_saved_ms": HOUR_MS // 2, "step_of_ms": HOUR_MS} if number == 0 else {}
        finding(of, **step)

    ahead = recurrence.projection(job("slurm/della/1").pk, "idle_held", now=NOW)

    # 2.5 of the 3 hours, in two weeks; 30 days have 30 / 14 of that
    assert round(ahead.saving.high_usd, 6) == round(Decimal(5) * 30 / 14, 6)


def test_noting_keeps_it_in_the_findings_row():
    """An hour of work, then two hours in which a session rests."""
    cache.clear()
    session = a_job(kind="interactive")
    says = [BUSY] * 60 + [QUIET] * 120
    sender = Sender("n0")
    post(sender.batch(T0, *says, jobs=[session], allocations=[held(end=T0 + 3 * HOUR_MS)]))
    services.diagnose(from_ms(T0 + 4 * HOUR_MS), 1000)

    noted_facts.note(10)

    idle = Finding.objects.get(cause="idle_held")
    assert 0 < idle.step_saved_ms < idle.step_of_ms <= 2 * HOUR_MS
