"""Sums of days answer what entries answer, and only while they are as new."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.day_sums import refresh, sum_days, wrong_sums
from fleetwatch.costs.models import DayHours, SummedDay
from fleetwatch.figures import selectors
from fleetwatch.figures.packed_spans import NO_JOB, unpacked
from fleetwatch.figures.selectors import Scope, dollars_over_time, totals, totals_by
from fleetwatch.figures.state_spans import KINDS, RECORD
from fleetwatch.inventory.models import GPUModel
from fleetwatch.ledger import policy, retention
from fleetwatch.ledger.hour_rows import count_versions
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, to_ms
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


def counted(gpu, *args, start, **fields):
    """An entry as posting leaves it: its hour has a new version."""
    entry = an_entry(gpu, *args, start=start, **fields)
    count_versions({gpu.node_id: [to_ms(start) // HOUR_MS * HOUR_MS]})
    return entry


def is_read_from_sums(interval=WEEK):
    """Whether figures come from sums: entries that were taken away behind their back are still in
    them.
    """
    before = totals(interval).capacity_ms
    kept = list(Entry.objects.all())
    Entry.objects.all().delete()
    found = totals(interval).capacity_ms
    Entry.objects.bulk_create(kept)
    return found == before


def kept(form="spans"):
    """The spans of every summed day, in one of their forms."""
    days = SummedDay.objects.values_list(form, flat=True)
    return unpacked([(0, 0, 0, None, bytes(packed)) for packed in days], RECORD, KINDS)


def told_as(form):
    """GPU, job, milliseconds, joules, and milliseconds of these, of every span in order."""
    told = kept(form)
    names = ("gpu_ms", "energy_j", "energy_ms")
    columns = (told.gpu, told.job, *(told.figures[name] for name in names))
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_of_a_closed_day_there_is_one_span_of_each_gpu_holder_and_kind_and_fewer_of_what_is_alike():
    first, second = a_gpu(), a_gpu()
    dear = a_gpu(model="B200")
    job, other = a_job(), a_job()
    for gpu in (first, second, dear):
        for hour in range(24):
            counted(gpu, "useful", HOUR_MS, job=job, start=MONDAY + hour * HOUR, energy_j=10.0)
    counted(dear, "useful", HOUR_MS, job=other, start=MONDAY, energy_j=10.0)

    assert sum_days(LATER, 100)["days"] == 1

    assert [KINDS[kind] for kind in kept().label] == [("useful", "", False)] * 4
    assert told_as("spans") == [
        *((gpu.pk, job.pk, 24 * HOUR_MS, 240.0, 24 * HOUR_MS) for gpu in (first, second, dear)),
        (dear.pk, other.pk, HOUR_MS, 10.0, HOUR_MS),
    ]
    assert told_as("alike_spans") == [
        (first.pk, job.pk, 48 * HOUR_MS, 480.0, 48 * HOUR_MS),
        (dear.pk, job.pk, 24 * HOUR_MS, 240.0, 24 * HOUR_MS),
        (dear.pk, other.pk, HOUR_MS, 10.0, HOUR_MS),
    ]
    assert told_as("total_spans") == [
        (first.pk, NO_JOB, 48 * HOUR_MS, 480.0, 48 * HOUR_MS),
        (dear.pk, NO_JOB, 25 * HOUR_MS, 250.0, 25 * HOUR_MS),
    ]
    assert selectors.look(WEEK, "job", "gpu").gpus("job") == {job.pk: 3, other.pk: 1}
    with pytest.raises(ValueError, match="read by gpu"):
        selectors.look(WEEK, "job").gpus("job")
    assert is_read_from_sums()
    assert sum_days(LATER, 100)["days"] == 0


@pytest.mark.parametrize("lacking", [("total_spans",), ("total_spans", "alike_spans")])
def test_a_day_that_was_summed_of_each_gpu_or_holder_alone_is_read_so_and_summed_again(lacking):
    counted(a_gpu(), "useful", HOUR_MS, start=MONDAY)
    sum_days(LATER, 100)
    SummedDay.objects.update(**dict.fromkeys(lacking))

    assert is_read_from_sums()
    assert sum_days(LATER, 100)["days"] == 1
    assert [kept(form).figures["gpu_ms"].tolist() for form in lacking] == [[HOUR_MS]] * len(lacking)


def test_every_state_and_tier_of_the_ledger_has_its_place_in_a_span():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT array_agg(costs_kind(state, tier, source) ORDER BY costs_kind(state, tier,"
            " source)) FROM unnest(%s::text[]) AS state, unnest(%s::text[]) AS tier,"
            " unnest(ARRAY['none', 'sensors']) AS source",
            [list(policy.STATES), ["", *policy.TIERS]],
        )
        numbers = set(cursor.fetchone()[0])

    assert {KINDS[number] for number in numbers} == {
        kind for kind in KINDS if kind[0] == "useful" or not kind[2]
    }


def test_an_hour_posted_again_is_read_from_entries_until_its_day_is_summed_again():
    gpu = a_gpu()
    counted(gpu, "useful", HOUR_MS, start=MONDAY)
    sum_days(LATER, 100)

    Entry.objects.all().delete()
    counted(gpu, "idle", HOUR_MS, start=MONDAY, tier="certain")

    assert totals(WEEK).states["idle"] == HOUR_MS
    assert not is_read_from_sums()
    assert sum_days(LATER, 100)["days"] == 1
    assert totals(WEEK).states["idle"] == HOUR_MS
    assert is_read_from_sums()


def test_today_is_summed_up_to_its_last_settled_hour_and_the_rest_is_read_from_entries():
    gpu = a_gpu()
    for hour in range(4):
        counted(gpu, "useful", HOUR_MS, start=MONDAY + hour * HOUR)

    sum_days(MONDAY + 3 * HOUR + timedelta(minutes=9, seconds=59), 100)
    assert SummedDay.objects.get().until == MONDAY + 2 * HOUR
    sum_days(MONDAY + 3 * HOUR + timedelta(minutes=10), 100)
    assert SummedDay.objects.get().until == MONDAY + 3 * HOUR

    assert kept().figures["gpu_ms"].tolist() == [3 * HOUR_MS]
    assert totals(WEEK).capacity_ms == 4 * HOUR_MS


def test_part_of_a_day_is_read_from_entries():
    gpu = a_gpu()
    for hour in range(24):
        counted(gpu, "useful", HOUR_MS, start=MONDAY + hour * HOUR)
    sum_days(LATER, 100)

    assert totals(Interval(MONDAY + HOUR, MONDAY + DAY)).capacity_ms == 23 * HOUR_MS
    assert totals(Interval(MONDAY, MONDAY + 23 * HOUR)).capacity_ms == 23 * HOUR_MS


def test_a_day_in_which_a_rate_changes_is_priced_hour_by_hour():
    gpu = a_gpu()
    for hour in range(24):
        counted(gpu, "useful", HOUR_MS, start=MONDAY + hour * HOUR)
    sum_days(LATER, 100)
    a_rate("1.00", gpu=gpu, valid_to=MONDAY + 6 * HOUR)
    a_rate("2.00", gpu=gpu, valid_from=MONDAY + 6 * HOUR)

    assert totals(WEEK).cost_usd == 6 + 36


def test_gpus_of_two_models_in_one_node_keep_their_own_price():
    cheap, dear = a_gpu(model="L4"), a_gpu(model="H100 SXM")
    a_rate("1.00", gpu=cheap)
    a_rate("3.00", gpu=dear)
    for gpu in (cheap, dear):
        counted(gpu, "useful", HOUR_MS, start=MONDAY)
    sum_days(LATER, 100)

    assert totals(WEEK).cost_usd == 4
    assert is_read_from_sums()

    dear.model = GPUModel.objects.get(name="L4")
    dear.save(update_fields=["model"])
    assert totals(WEEK).cost_usd == 2  # the sum spoke of another inventory: it is not believed


def test_a_gpu_with_a_rate_of_its_own_is_told_apart_and_no_sum_of_before_is_believed():
    own, other = a_gpu(), a_gpu()
    a_rate("3.00", gpu=own)
    for gpu in (own, other):
        counted(gpu, "useful", HOUR_MS, start=MONDAY)
    sum_days(LATER, 100)

    own_rate = a_rate("1.00", only=own)
    assert totals(WEEK).cost_usd == 4
    sum_days(LATER, 100)
    assert totals(WEEK).cost_usd == 4
    assert is_read_from_sums()

    own_rate.delete()
    assert totals(WEEK).cost_usd == 6


def test_a_node_that_is_relabelled_in_the_middle_of_a_day_is_priced_hour_by_hour_and_others_by_their_sums():
    moved, stays = a_gpu(node="gpu-01"), a_gpu(node="gpu-02")
    a_place("gpu-01", pool="cheap", valid_to=MONDAY + 6 * HOUR)
    a_place("gpu-01", pool="dear", valid_from=MONDAY + 6 * HOUR)
    a_place("gpu-02", pool="cheap")
    a_rate("1.00", pool="cheap")
    a_rate("2.00", pool="dear")
    for gpu in (moved, stays):
        for hour in range(24):
            counted(gpu, "useful", HOUR_MS, start=MONDAY + hour * HOUR)
    sum_days(LATER, 100)

    assert totals(WEEK).cost_usd == (6 * 1 + 18 * 2) + 24
    assert totals(WEEK, scope=Scope(node="gpu-01")).cost_usd == 6 * 1 + 18 * 2
    Entry.objects.filter(node=stays.node).delete()
    # behind the sums' back: they were read
    assert totals(WEEK, scope=Scope(node="gpu-02")).cost_usd == 24


def test_a_deleted_job_leaves_its_time_in_the_sums_as_in_the_entries():
    gpu, job = a_gpu(), a_job()
    counted(gpu, "useful", HOUR_MS, job=job, start=MONDAY)
    sum_days(LATER, 100)

    job.delete()

    assert [group.key for group in totals_by(WEEK, "job")] == [""]
    assert is_read_from_sums()
    assert wrong_sums(WEEK) == []


@pytest.mark.parametrize("name", ["UTC", "Asia/Kolkata", "Europe/Berlin", "Australia/Lord_Howe"])
def test_with_and_without_sums_every_figure_is_the_same(name):
    here = organisation()
    here.time_zone = name
    here.save(update_fields=["time_zone"])
    dice = random.Random(name)
    # two weeks around the change of clocks
    first = datetime(2026, 10, 20, tzinfo=UTC)
    span = Interval(first, first + 14 * DAY)
    gpus = [
        a_gpu(node=f"n{number % 2}", model=["H100 SXM", "L4"][number % 2]) for number in range(3)
    ]
    jobs = [None, a_job(), a_job(user="bob", team=None)]
    a_rate("2.50", gpu=gpus[0], valid_to=first + 5 * DAY)
    a_rate("3.10", gpu=gpus[0], valid_from=first + 5 * DAY)
    a_rate("1.70", only=gpus[2], valid_from=first + 2 * DAY, valid_to=first + 9 * DAY + 7 * HOUR)
    a_place("n0", pool="a", valid_to=first + 3 * DAY + 5 * HOUR)
    a_place("n0", pool="b", valid_from=first + 3 * DAY + 5 * HOUR)
    a_rate("0.90", pool="b", valid_from=first, valid_to=first + 8 * DAY)
    entries, policy = [], a_policy()
    for _ in range(400):
        state, tier = dice.choice(
            [("useful", ""), ("idle", "certain"), ("stalled", "probable"), ("free", "potential")]
        )
        job = None if state == "free" else dice.choice(jobs)
        at = first + dice.randrange(14 * 24) * HOUR
        gpu, gpu_ms, energy_j = (
            dice.choice(gpus),
            dice.randrange(1, HOUR_MS),
            dice.choice([None, 8.0]),
        )
        entries.append(
            unsaved_entry(
                gpu, state, gpu_ms, policy=policy, job=job, start=at, tier=tier, energy_j=energy_j
            )
        )
    counted_all(entries)
    looks = [
        Scope(),
        Scope(node="n1"),
        Scope(job=jobs[1].key),
        Scope(user="bob"),
        Scope(team="nlp"),
        Scope(states=("idle",)),
    ]

    def figures():
        return [
            [
                totals(part, scope=scope)
                for part in (span, Interval(first + 30 * HOUR, first + 9 * DAY))
                for scope in looks
            ],
            [totals_by(span, group_by) for group_by in selectors.GROUPS],
            dollars_over_time(span, "day"),
        ]

    before = figures()
    refresh(first + 30 * DAY, 7)
    partly = figures()
    refresh(first + 30 * DAY, 1000)

    assert partly == before
    assert figures() == before
    assert wrong_sums(Interval(first - DAY, span.end + DAY)) == []
    assert is_read_from_sums(Interval(first + 10 * DAY, first + 14 * DAY)) or name != "UTC"


@pytest.mark.parametrize("form", ["spans", "alike_spans", "total_spans"])
def test_a_wrong_sum_is_found(form):
    gpu = a_gpu()
    counted(gpu, "useful", HOUR_MS, start=MONDAY)
    sum_days(LATER, 100)
    day = SummedDay.objects.get()
    packed = bytes(getattr(day, form))
    wrong = packed.replace(HOUR_MS.to_bytes(8, "big"), (HOUR_MS - 5).to_bytes(8, "big"), 1)
    setattr(day, form, wrong)
    day.save()

    assert wrong_sums(WEEK) == [("gpu-01", MONDAY, 5)]


def test_what_the_ledger_no_longer_has_is_forgotten(settings):
    gpu = a_gpu()
    counted(gpu, "useful", HOUR_MS, start=MONDAY)
    refresh(LATER, 100)
    settings.LEDGER_RETENTION_DAYS = 30

    assert refresh(MONDAY + 31 * DAY, 100) == {"forgotten": 1, "days": 1, "fleet_days": 23}


def test_a_day_that_goes_in_part_is_read_from_what_is_left_of_it(settings):
    gpu = a_gpu()
    for start in (MONDAY, MONDAY + 6 * HOUR):
        counted(gpu, "useful", HOUR_MS, start=start)
    sum_days(LATER, 100)
    settings.LEDGER_RETENTION_DAYS = 30

    retention.apply(MONDAY + 30 * DAY + 3 * HOUR)

    assert totals(WEEK).capacity_ms == HOUR_MS
    assert wrong_sums(WEEK) == []


def test_settle_sums_what_is_posted():
    gpu = a_gpu(first_ms=None)
    counted(gpu, "useful", HOUR_MS, start=MONDAY)

    call_command("settle")

    assert SummedDay.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_day_summed_by_two_at_once_has_its_hours_once():
    organisation()
    counted(a_gpu(), "useful", HOUR_MS, start=MONDAY)
    first_is_there, second_is_over = Event(), Event()

    def first():
        with closing(connection), transaction.atomic():
            sum_days(LATER, 100)
            first_is_there.set()
            second_is_over.wait(1)  # it waits for us, so this is a while

    def second():
        with closing(connection):
            first_is_there.wait(60)
            sum_days(LATER, 100)
            second_is_over.set()

    with ThreadPoolExecutor(2) as workers:
        for one in [workers.submit(first), workers.submit(second)]:
            one.result()

    assert [hours.capacity_ms for hours in DayHours.objects.all()] == [[HOUR_MS]]
