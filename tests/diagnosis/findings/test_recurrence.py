"""What a finding costs if nothing changes: one rate, of the last two weeks."""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings.recurrence import Projection, ahead, projections
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import HOUR_MS, Interval, to_ms
from tests.costs.factories import an_entry
from tests.diagnosis.told import DAY, NOW, cause, finding, gpu, job, rate


def a_run(number: int, days_ago: int, cause_of_it: str = "idle_held", **facts: str) -> Job:
    """An hour on one GPU, all of it wasted, half to all of which could be saved."""
    start = NOW - days_ago * DAY
    run = job(f"slurm/della/{number}", end_ms=to_ms(start) + HOUR_MS, **facts)
    cause(cause_of_it, of=run, on=gpu(number), start=start)
    return run


def projected(run: Job) -> Projection | None:
    key = (run.pk, "idle_held")
    return projections([key], now=NOW).get(key)


@pytest.mark.django_db
def test_two_weeks_of_a_job_that_recurs_are_told_for_thirty_days():
    rate("2.00")
    for number, days_ago in ((1, 1), (2, 7), (3, 13)):
        run = a_run(number, days_ago)
    a_run(4, 15)

    told = projected(run)

    # three hours at $2 in two weeks, half to all of them: x 30 / 14
    assert told is not None
    assert told.runs == 3
    assert (told.saving.low_ms, told.saving.high_ms) == (
        HOUR_MS * 3 // 2 * 30 // 14,
        3 * HOUR_MS * 30 // 14,
    )
    assert round(told.saving.low_usd, 6) == Decimal("6.428571")
    assert round(told.saving.high_usd, 6) == Decimal("12.857143")


@pytest.mark.django_db
def test_of_the_runs_those_that_somebody_accepted_are_counted_apart():
    rate("2.00")
    runs = [a_run(number, number) for number in (1, 2, 3)]
    finding(runs[1], "idle_held", status="accepted")
    finding(runs[2], "idle_held", status="fixed")

    projected_run = projected(runs[0])

    assert projected_run is not None
    assert (projected_run.runs, projected_run.accepted) == (3, 1)
    of_two, of_three = projected_run.of_others.high_usd, projected_run.saving.high_usd
    assert round(of_two * 3, 6) == round(of_three * 2, 6)


@pytest.mark.django_db
def test_what_is_divided_by_are_the_days_since_there_are_figures():
    rate("2.00")
    an_entry(gpu(), "useful", HOUR_MS, start=NOW - 4 * DAY)
    for number in (1, 2, 3):
        run = a_run(number, number)

    # $6 in four days: $45 in thirty
    assert projected(run).saving.high_usd == 45


@pytest.mark.django_db
@pytest.mark.parametrize(
    "third",
    [
        {"days_ago": 15},
        {"days_ago": 2, "user": "bob"},
        {"days_ago": 2, "name": "eval"},
        {"days_ago": 2, "cause_of_it": "data_starved"},
    ],
)
def test_what_does_not_recur_is_told_for_no_month(third):
    a_run(1, 1)
    run = a_run(2, 2)
    a_run(3, **third)

    assert projected(run) is None


@pytest.mark.django_db
def test_runs_without_a_name_are_no_runs_of_one_job():
    runs = [a_run(number, number, name="") for number in (1, 2, 3)]

    assert projected(runs[0]) is None


def test_less_than_a_day_counts_as_one():
    def days(count):
        return Interval(NOW - timedelta(days=count), NOW)

    past = Saving(1_000, 2_000, Decimal(1), Decimal(2))
    a_day = Saving(30_000, 60_000, Decimal(30), Decimal(60))
    assert ahead(past, days(1)) == ahead(past, days(0.5)) == a_day
    assert ahead(past, days(5)) == Saving(6_000, 12_000, Decimal(6), Decimal(12))
