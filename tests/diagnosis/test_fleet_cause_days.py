"""Days of causes that a process keeps for the whole fleet: they say what the rows say, and are not
read again while no node's day was summed anew.
"""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.costs.models import Rate
from fleetwatch.diagnosis import fleet_cause_days, selectors, sums
from fleetwatch.diagnosis.cause_time import CauseTime
from fleetwatch.diagnosis.models import CauseEntry, DiagnosedDay
from fleetwatch.figures import engine
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.costs.factories import an_entry
from tests.diagnosis.told import DAY, NOW, cause, diagnosed, finding, gpu, job, rate

pytestmark = pytest.mark.django_db

WEEK = Interval(NOW - 7 * DAY, NOW)
THEN = NOW - 2 * DAY
HOUR = timedelta(hours=1)


def told(interval: Interval = WEEK, **scope):
    """Of each job and cause how sure it is, the milliseconds, and the dollars."""
    lines = selectors.findings(interval, now=NOW, scope=Scope(**scope))[:]
    return {
        (line.finding.its_job.key, line.caused.cause): (
            line.caused.confidence,
            list(line.caused.ms),
            line.caused.held_usd,
        )
        for line in lines
    }


@pytest.fixture
def read(monkeypatch):
    """The days that were put together."""
    days = []

    def together(*asked):
        days.append(asked)
        return undisturbed(*asked)

    undisturbed = fleet_cause_days._together
    monkeypatch.setattr(fleet_cause_days, "_together", together)
    return days


@pytest.fixture
def fleet():
    """Two days of two nodes: jobs that hold GPUs of several nodes, of two prices, several causes."""
    rate()
    Rate.objects.create(
        gpu=gpu(3), price_per_gpu_hour=Decimal("7.5"), valid_from=NOW - 90 * DAY, created_at=NOW
    )
    for day in (THEN, THEN - DAY):
        for node in ("n1", "n2"):
            DiagnosedDay.objects.filter(day=day.date(), node__name=node).delete()
            diagnosed(day, node=node)
    for number, of in enumerate((job("slurm/della/1"), job("slurm/della/2"))):
        for index in range(4):
            for day in range(2):
                start = THEN - day * DAY - timedelta(hours=index)
                cause(of=of, on=gpu(index), start=start, hours=0.1 + number * 0.2, confidence=1)
                cause(of=of, on=gpu(index, node="n2"), start=start, hours=0.3)
        cause("hung", of=of, on=gpu(number), start=THEN, waste="stalled_probable_ms", hours=0.2)
        for each in ("idle_held", "hung"):
            finding(of, each)


def test_what_is_kept_of_days_says_what_their_hours_say(fleet):
    by_hours = told()
    assert sums.sum_days(NOW, 100) == 4

    assert told() == by_hours
    assert told(user="ann") == by_hours
    assert len(by_hours) == 4


def test_a_day_is_put_together_once_while_nobody_sums_it_anew(fleet, read):
    sums.sum_days(NOW, 100)

    before = told()
    assert (told(), len(read)) == (before, 2)

    CauseEntry.objects.filter(start=THEN, gpu=gpu(0)).update(held_ms=HOUR_MS)
    DiagnosedDay.objects.filter(day=THEN.date(), node__name="n1").update(is_summed=False)
    changed = told()
    assert (changed != before, len(read)) == (True, 3)  # the other node's sum alone

    sums.sum_days(NOW, 100)
    assert (told(), len(read)) == (changed, 4)


def test_a_day_whose_price_changes_within_it_is_read_from_its_hours(fleet, read):
    sums.sum_days(NOW, 100)
    before = told()

    rate("4.00", valid_from=THEN - timedelta(hours=1))

    assert told() != before
    assert len(read) == 2  # the other day stays as it is


def test_a_new_price_from_a_midnight_on_holds_for_the_days_after_it(fleet):
    sums.sum_days(NOW, 100)
    before = told()
    rate("4.00", valid_from=THEN.replace(hour=0))
    by_sums = told()

    DiagnosedDay.objects.update(is_summed=False)

    assert by_sums == told() != before


@pytest.mark.parametrize("since", [timedelta(hours=2), timedelta(hours=2, minutes=20)])
@pytest.mark.parametrize("until", [timedelta(0), timedelta(hours=1), timedelta(minutes=50)])
def test_a_period_that_begins_and_ends_within_days_has_its_parts_of_them(fleet, read, since, until):
    for hours_ago in range(4):
        for each in (*(gpu(index) for index in range(4)), *(gpu(i, node="n2") for i in range(4))):
            an_entry(
                each, "idle", job=job("slurm/della/1"), start=THEN - timedelta(hours=hours_ago)
            )
    period = Interval(THEN - DAY - since, THEN + until)
    by_hours = told(period)
    sums.sum_days(NOW, 100)

    assert told(period) == told(period) == by_hours != {}
    assert len(read) == 2


def test_a_part_of_a_day_says_what_was_summed_anew(fleet):
    sums.sum_days(NOW, 100)
    part = Interval(THEN - timedelta(hours=2), THEN + timedelta(hours=1))
    before = told(part)

    CauseEntry.objects.filter(start=THEN, gpu=gpu(0)).update(held_ms=HOUR_MS)
    DiagnosedDay.objects.filter(day=THEN.date(), node__name="n1").update(is_summed=False)
    changed = told(part)
    sums.sum_days(NOW, 100)

    assert told(part) == changed != before


def test_the_hour_in_which_a_period_begins_is_read_again_once_it_is_summed_anew(fleet, monkeypatch):
    for each in (gpu(0), gpu(0, node="n2")):
        an_entry(each, "idle", job=job("slurm/della/1"), start=THEN, tier="certain")
    sums.sum_days(NOW, 100)
    period, hour = Interval(THEN + timedelta(minutes=20), NOW), Interval(THEN, THEN + HOUR)
    read = []
    undisturbed = fleet_cause_days._rows
    monkeypatch.setattr(
        fleet_cause_days, "_rows", lambda *asked: read.append(asked[1]) or undisturbed(*asked)
    )

    before = told(period)
    assert (told(period), read.count(hour)) == (before, 1)

    CauseEntry.objects.filter(start=THEN).update(idle_certain_ms=0, low_ms=0, high_ms=1)
    DiagnosedDay.objects.filter(day=THEN.date()).update(is_summed=False)
    by_hours = told(period)
    assert read.count(hour) == 1
    sums.sum_days(NOW, 100)

    assert (told(period), read.count(hour)) == (by_hours, 2)
    assert by_hours != before


def test_time_of_one_gpu_is_that_of_its_own_node(fleet):
    one, other = (told(gpu=gpu(1, node=node).uuid) for node in ("n1", "n2"))
    sums.sum_days(NOW, 100)

    assert [ms[0] for _, ms, _ in other.values()] == [2 * round(0.3 * HOUR_MS)] * 2
    assert one != other
    assert (told(gpu=gpu(1).uuid), told(gpu=gpu(1, node="n2").uuid)) == (one, other)


def test_what_is_asked_of_a_node_or_gpu_is_not_read_from_days_of_the_fleet(fleet, read):
    sums.sum_days(NOW, 100)

    told(node="n1")
    engine.read(CauseTime(), WEEK, by=("gpu",))
    engine.read(CauseTime(is_current=True), WEEK)

    assert read == []


def test_time_of_a_gpu_that_was_deleted_since_stays_what_it_was(fleet):
    sums.sum_days(NOW, 100)
    held = {key: ms for key, (_, ms, _) in told().items()}

    gpu(2).delete()

    assert {key: ms for key, (_, ms, _) in told().items()} == held
