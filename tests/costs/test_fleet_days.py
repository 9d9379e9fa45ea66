"""A day of the fleet is one row: it answers what the entries answer, and only while they are as
new.
"""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from zstandard import compress, decompress

from fleetwatch.costs.day_sums import sum_days, wrong_sums
from fleetwatch.costs.models import FleetDay, Rate, SummedDay
from fleetwatch.figures.alike_gpus import AlikeGPUs, in_the_same
from fleetwatch.figures.narrow_columns import packed, unpacked
from fleetwatch.figures.selectors import Scope, over_time_by, totals, totals_by
from fleetwatch.figures.state_spans import CUT_RECORD, RECORD
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import HOUR_MS, a_gpu, a_job, a_rate
from tests.costs.test_day_sums import counted

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WEEK = Interval(MONDAY, MONDAY + 7 * DAY)
LATER = MONDAY + 9 * DAY


def is_read_of_the_fleet(scope=None):
    """Whether a figure comes from the row of the fleet: the sums of nodes are taken away behind its
    back, and the versions that it was made of are not.
    """
    before = totals(WEEK, scope=scope or Scope()).capacity_ms
    kept = list(SummedDay.objects.all())
    SummedDay.objects.update(total_spans=b"", alike_spans=b"", spans=b"")
    after = totals(WEEK, scope=scope or Scope()).capacity_ms
    SummedDay.objects.bulk_update(kept, ["total_spans", "alike_spans", "spans"])
    return after == before


def dearer_from(moment, gpu):
    """From then on the GPU's model costs 5 dollars."""
    Rate.objects.filter(gpu_model=gpu.model).update(valid_to=moment)
    a_rate("5.00", gpu=gpu, valid_from=moment)


def figures():
    return [
        totals(WEEK),
        totals(WEEK, scope=Scope(user="ana")),
        *(totals_by(WEEK, name) for name in ("team", "user", "job", "gpu_model", "node", "gpu")),
    ]


@pytest.fixture
def fleet(db):
    """Two nodes with a dear GPU each and one with two cheap ones: two hours of jobs, one of
    nobody.
    """
    dear = [a_gpu(node="n1"), a_gpu(node="n2")]
    gpus = [*dear, a_gpu(node="n3", model="L4"), a_gpu(node="n3", model="L4")]
    a_rate("3.00", gpu=gpus[0])
    a_rate("1.00", gpu=gpus[2])
    jobs = [a_job(user="ana"), a_job(user="bob", team=None)]
    for gpu in gpus:
        for hour, job in enumerate([*jobs, None]):
            state = "useful" if job else "free"
            counted(gpu, state, HOUR_MS, job=job, start=MONDAY + hour * HOUR, energy_j=10.0)
    return gpus


def test_a_day_of_the_fleet_is_one_row_that_says_what_its_entries_say(fleet):
    before = figures()

    assert sum_days(LATER, 100) == {"days": 3, "fleet_days": 8}

    assert figures() == before
    assert totals(WEEK).cost_usd == 3 * (3 + 3 + 1 + 1)
    assert is_read_of_the_fleet()
    assert is_read_of_the_fleet(Scope(user="ana"))
    assert is_read_of_the_fleet(Scope(gpu_model="L4"))
    assert not is_read_of_the_fleet(Scope(node="n1"))
    assert sum_days(LATER, 100) == {"days": 0, "fleet_days": 0}


def test_parts_of_its_days_and_hours_are_read_of_it_too(fleet):
    part = Interval(MONDAY + HOUR, MONDAY + 2 * DAY)
    groups = ("team", "job", "gpu_model", "node", "gpu")

    def asked():
        by_hour = over_time_by(Interval(MONDAY, MONDAY + DAY), "user", "hour")
        return [totals(part), *(totals_by(part, name) for name in groups), by_hour]

    before = asked()
    sum_days(LATER, 100)
    Entry.objects.all().delete()  # behind its back

    assert totals(part).capacity_ms == 4 * 2 * HOUR_MS
    assert asked() == before


@pytest.mark.parametrize("is_summed", [True, False])
def test_hours_of_a_period_that_ends_within_an_hour_before_or_after_midnight(fleet, is_summed):
    """The day beyond midnight is touched by the part of an hour alone."""
    before = Interval(MONDAY - timedelta(minutes=20), MONDAY + 3 * HOUR)
    after = Interval(MONDAY, MONDAY + DAY + timedelta(minutes=20))
    if is_summed:
        sum_days(LATER, 100)

    for period in (before, after):
        ana = next(each for each in over_time_by(period, "user", "hour") if each.key == "ana")
        assert sum(bucket.totals.capacity_ms for bucket in ana.buckets) == 4 * HOUR_MS


def test_gpus_of_one_price_and_model_are_one_in_it(fleet):
    sum_days(LATER, 100)

    day = FleetDay.objects.get(start=MONDAY)
    forms = (day.job_spans, day.total_spans, day.node_spans, day.gpu_spans)
    # of two models the time of two jobs and of nobody; of all holders what was useful and what was
    # free; the same of each of two nodes with one GPU and one with two; and of each GPU
    spans = [len(unpacked(decompress(bytes(form)), RECORD.names)["gpu"]) for form in forms]
    assert spans == [2 * 3, 2 * 2, 3 * 2, 4 * 2]


def test_what_is_posted_again_is_in_the_next_figure(fleet):
    sum_days(LATER, 100)
    counted(fleet[1], "idle", HOUR_MS, tier="certain", start=MONDAY + 5 * HOUR)

    assert totals(WEEK).states["idle"] == HOUR_MS
    assert not is_read_of_the_fleet()
    assert sum_days(LATER, 100) == {"days": 1, "fleet_days": 1}
    assert totals(WEEK).states["idle"] == HOUR_MS
    assert is_read_of_the_fleet()


def test_a_day_of_which_a_node_is_not_summed_waits(fleet):
    assert sum_days(LATER, 2)["days"] == 2
    assert not FleetDay.objects.filter(start=MONDAY).exists()
    assert sum_days(LATER, 100) == {"days": 1, "fleet_days": 1}


@pytest.mark.parametrize("change", ["a rate of its own", "another model"])
def test_where_gpus_are_no_longer_alike_no_sum_of_before_is_believed(fleet, change):
    sum_days(LATER, 100)

    if change == "another model":
        fleet[1].model = GPUModel.objects.get(name="L4")
        fleet[1].save(update_fields=["model"])
        cost = 3 * (3 + 1 + 1 + 1)
    else:
        a_rate("0.50", only=fleet[1])
        cost = 3 * (3 + 0.5 + 1 + 1)

    assert totals(WEEK).cost_usd == cost
    assert not is_read_of_the_fleet()
    sum_days(LATER, 100)
    assert totals(WEEK).cost_usd == cost
    assert is_read_of_the_fleet()


def test_a_new_rate_and_a_new_gpu_leave_what_was_summed_before(fleet):
    sum_days(LATER, 100)

    a_gpu(node="n4", model="B200")
    dearer_from(MONDAY + 3 * DAY, fleet[2])

    assert is_read_of_the_fleet()
    assert sum_days(LATER, 100) == {"days": 0, "fleet_days": 0}


def test_a_day_in_which_a_price_changes_is_priced_hour_by_hour(fleet):
    sum_days(LATER, 100)
    dearer_from(MONDAY + 2 * HOUR, fleet[0])

    assert totals(WEEK).cost_usd == 2 * (2 * 3 + 5) + 2 * 3 * 1


@pytest.mark.parametrize(
    ("form", "hours"),
    [
        ("job_spans", 2),
        ("total_spans", 4),
        ("node_spans", 4),
        ("gpu_spans", 2),
        ("hour_spans", 1),
    ],
)
def test_a_wrong_sum_of_the_fleet_is_found(fleet, form, hours):
    sum_days(LATER, 100)
    assert wrong_sums(WEEK) == []
    day = FleetDay.objects.get(start=MONDAY)
    names = (CUT_RECORD if form == "hour_spans" else RECORD).names
    spans = unpacked(decompress(bytes(getattr(day, form))), names)
    spans["gpu_ms"][np.flatnonzero(spans["gpu_ms"] == hours * HOUR_MS)[0]] -= 5
    setattr(day, form, compress(packed(spans)))
    day.save()

    assert wrong_sums(WEEK) == [("every node", MONDAY, 5)]


def test_a_day_is_read_from_the_database_once_while_it_is_of_one_version(fleet):
    sum_days(LATER, 100)
    by_job = Scope(user="ana")
    assert totals(WEEK, scope=by_job).capacity_ms == 4 * HOUR_MS
    FleetDay.objects.update(job_spans=b"not to be read")

    assert totals(WEEK, scope=by_job).capacity_ms == 4 * HOUR_MS

    counted(fleet[0], "idle", HOUR_MS, job=a_job(user="ana"), start=MONDAY + 5 * HOUR)
    assert totals(WEEK, scope=by_job).capacity_ms == 5 * HOUR_MS


def test_a_sum_that_is_packed_in_another_way_counts_as_none(fleet, monkeypatch):
    monkeypatch.setattr("fleetwatch.figures.alike_gpus._PACKED_AS", b"as an earlier version did")
    sum_days(LATER, 100)
    FleetDay.objects.update(job_spans=b"not to be read")
    monkeypatch.undo()

    assert totals(WEEK, scope=Scope(user="ana")).capacity_ms == 4 * HOUR_MS
    assert sum_days(LATER, 100) == {"days": 0, "fleet_days": 8}


def test_gpus_that_are_in_the_same_sets_are_alike_and_the_first_stands_for_them():
    gpus = np.array([2, 3, 5, 8, 9])

    of_no_set = in_the_same(gpus, [])
    of_two = in_the_same(gpus, [np.array([2, 5, 9]), np.array([9, 8])])

    assert of_no_set.tolist() == [2, 2, 2, 2, 2]
    # 2 and 5 are in the first, 8 in the second, 9 in both, 3 in none
    assert of_two.tolist() == [2, 3, 2, 8, 9]
    assert AlikeGPUs(gpus, gpus, of_two).first_of(np.array([5, 9, 2])).tolist() == [2, 9, 2]


def of_one_node(gpus, stands_for):
    return AlikeGPUs(np.array(gpus), np.ones(len(gpus), dtype=int), np.array(stands_for))


def test_a_digest_is_of_the_gpus_that_there_were():
    before = of_one_node([2, 3], [2, 2])
    after = of_one_node([2, 3, 4], [2, 2, 2])
    split = of_one_node([2, 3, 4], [2, 3, 3])

    assert before.digest(before.last_id) == after.digest(before.last_id)
    assert after.digest(4) != after.digest(3)
    assert split.digest(3) != before.digest(3)
