"""GPU time by kind and cut: from hours of summed days, from entries, or from both, it is the same,
and never old.
"""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.day_sums import refresh, sum_days, wrong_sums
from fleetwatch.costs.models import DayHours, NodePlace
from fleetwatch.costs.priced import priced
from fleetwatch.figures.totals import ALLOCATED_STATES
from fleetwatch.finance.coverage import Kind
from fleetwatch.finance.kinds import time_of_kinds
from fleetwatch.ledger.hour_rows import count_versions
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, from_ms, to_ms
from tests.costs.factories import (
    HOUR_MS,
    a_gpu,
    a_job,
    a_place,
    a_policy,
    a_rate,
    an_entry,
    counted_all,
    unsaved_entry,
)

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
WEEK = Interval(MONDAY, MONDAY + 7 * DAY)
LATER = MONDAY + 9 * DAY
H100 = Kind("H100 SXM")


def counted(gpu, *args, start, **fields):
    """An entry as posting leaves it: its hour has a new version."""
    entry = an_entry(gpu, *args, start=start, **fields)
    count_versions({gpu.node_id: [to_ms(start) // HOUR_MS * HOUR_MS]})
    return entry


def by_hand(interval):
    """The same from entries, one by one."""
    sums = {}
    entries = Entry.objects.filter(
        start__gte=interval.start, start__lt=interval.end
    ).select_related("gpu__model", "gpu__parent__model")
    for each in priced(entries):
        entry, gpu = each.row, each.row.gpu.parent or each.row.gpu
        held = NodePlace.objects.filter(node=entry.node, valid_from__lte=entry.start).exclude(
            valid_to__lte=entry.start
        )
        place = held.values_list("pool", "node_class", "region").first() or ("", "", "")
        kind = Kind(gpu.model.name if gpu.model else "(none)", *place)
        found = sums.setdefault(
            (entry.start, kind, each.rate and each.rate.usd_per_gpu_hour), Counter()
        )
        found["capacity"] += entry.gpu_ms
        # what only a held GPU can be was held, also where its job was deleted
        found["held"] += entry.gpu_ms if entry.job_id or entry.state in ALLOCATED_STATES else 0
        found["unobserved"] += entry.gpu_ms if entry.state == "unobserved" else 0
    return {
        (*key, found["capacity"], found["held"], found["unobserved"]) for key, found in sums.items()
    }


def told(interval, **wanted):
    """time_of_kinds() as rows: cut, kind, rate, all time, held, unobserved."""
    return {
        (from_ms(cut_ms), each.kind, each.usd_per_gpu_hour, *times)
        for each in time_of_kinds(interval, **wanted)
        for cut_ms, *times in zip(
            each.cuts_ms, each.capacity_ms, each.held_ms, each.unobserved_ms, strict=True
        )
    }


def test_time_is_told_by_cut_with_what_was_held_unobserved_and_without_a_rate():
    gpu, dark = a_gpu(), a_gpu(model=None)
    a_rate("2.50", gpu=gpu)
    counted(gpu, "useful", 1_000, job=a_job(), start=MONDAY)
    counted(gpu, "unobserved", 3_000, start=MONDAY)
    counted(dark, "free", 7_000, start=MONDAY + HOUR)

    expected = {
        (MONDAY, H100, Decimal("2.50"), 4_000, 1_000, 3_000),
        (MONDAY + HOUR, Kind("(none)"), None, 7_000, 0, 0),
    }
    assert told(WEEK) == expected
    sum_days(LATER, 100)
    assert told(WEEK) == expected
    assert {kind for _, kind, *_ in told(WEEK, gpu_model_ids=[gpu.model_id])} == {H100}


def test_hours_of_a_summed_day_are_read_instead_of_entries_even_for_a_part_of_it():
    gpu = a_gpu()
    for hour in range(24):
        counted(gpu, "useful", 1_000 + hour, start=MONDAY + hour * HOUR)
    sum_days(LATER, 100)
    Entry.objects.all().delete()  # behind the sums' back

    [found] = time_of_kinds(Interval(MONDAY + 5 * HOUR, MONDAY + 7 * HOUR))

    assert found.capacity_ms == [1_005, 1_006]


def test_an_hour_posted_again_is_read_from_entries():
    gpu = a_gpu()
    counted(gpu, "useful", 1_000, start=MONDAY)
    sum_days(LATER, 100)

    counted(gpu, "unobserved", 500, start=MONDAY + HOUR)

    assert [each.capacity_ms for each in time_of_kinds(WEEK)] == [[1_000, 500]]


def test_a_wrong_hour_is_found():
    counted(a_gpu(), "useful", HOUR_MS, job=a_job(), start=MONDAY)
    sum_days(LATER, 100)

    DayHours.objects.update(held_ms=[HOUR_MS - 5])

    assert wrong_sums(WEEK) == [("gpu-01", MONDAY, 5)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["UTC", "Asia/Kolkata", "Europe/Berlin", "Australia/Lord_Howe"])
def test_with_and_without_sums_it_is_what_entries_sum_to_by_hand(name, seed):
    home = organisation()
    home.time_zone = name
    home.save(update_fields=["time_zone"])
    dice = random.Random(f"{name} {seed}")
    first = datetime(2026, 10, 23, tzinfo=UTC)  # clocks are set back on the 25th
    span = Interval(first, first + 5 * DAY)
    gpus = [
        a_gpu(node=f"n{number % 2}", model=dice.choice(["H100 SXM", "L4", None]))
        for number in range(4)
    ]
    gpus.append(a_gpu(node="n0", model=None, parent=gpus[0]))
    jobs = [None, a_job(), a_job()]
    a_place("n0", pool="a", region="DE", valid_to=first + dice.randrange(100) * HOUR)
    a_place("n0", pool="b", node_class="owned", valid_from=NodePlace.objects.get().valid_to)
    a_rate("0.90", pool="b", valid_from=first + dice.randrange(100) * HOUR)
    a_rate("1.70", only=gpus[2], valid_from=first + dice.randrange(100) * HOUR)
    entries, policy = [], a_policy()
    for _ in range(60):
        state = dice.choice(["useful", "idle", "unobserved", "free"])
        job = None if state == "free" else dice.choice(jobs)
        gpu, gpu_ms, start = (
            dice.choice(gpus),
            dice.randrange(1, HOUR_MS),
            first + dice.randrange(5 * 24) * HOUR,
        )
        entries.append(unsaved_entry(gpu, state, gpu_ms, policy=policy, job=job, start=start))
    counted_all(entries)
    part = Interval(first + 30 * HOUR, first + 60 * HOUR)
    expected = [by_hand(interval) for interval in (span, part)]

    for known_days in (0, 3, 1000):
        refresh(first + 30 * DAY, known_days)
        assert [told(interval) for interval in (span, part)] == expected
    assert wrong_sums(Interval(first - DAY, span.end + DAY)) == []
