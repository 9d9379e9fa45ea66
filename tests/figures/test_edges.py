"""A period is exactly what it says: of the cuts of the ledger at its ends the part that
lies in it.
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwatch.figures import engine
from fleetwatch.figures.cells import by_line
from fleetwatch.figures.edges import Edge, Outside, part_of, parts, split
from fleetwatch.figures.ledger_time import LedgerTime
from fleetwatch.figures.selectors import Scope, dollars_over_time, totals, totals_by
from fleetwatch.figures.state_spans import KINDS
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.hour_rows import count_versions
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, to_ms
from tests.costs.factories import HOUR, HOUR_MS, a_gpu, a_job, a_rate, a_run, an_entry

UTC_ZONE = ZoneInfo("UTC")
MINUTE = 60_000
START_MS = to_ms(HOUR)
USEFUL, IDLE = KINDS.index(("useful", "", False)), KINDS.index(("idle", "certain", False))


def minutes(first: float, last: float) -> Interval:
    """Of HOUR, in minutes."""
    return Interval(HOUR + timedelta(minutes=first), HOUR + timedelta(minutes=last))


class TestSplit:
    def test_whole_cuts_have_no_edges(self):
        assert split(minutes(0, 120), UTC_ZONE) == (minutes(0, 120), [])

    def test_both_ends_in_the_middle_of_hours(self):
        inner, edges = split(minutes(53, 173), UTC_ZONE)

        assert inner == minutes(60, 120)
        assert edges == [
            Edge(minutes(0, 60), minutes(53, 60)),
            Edge(minutes(120, 180), minutes(120, 173)),
        ]

    def test_two_cuts_that_touch_have_nothing_between(self):
        assert split(minutes(50, 70), UTC_ZONE) == (
            None,
            [Edge(minutes(0, 60), minutes(50, 60)), Edge(minutes(60, 120), minutes(60, 70))],
        )

    def test_a_part_of_one_cut(self):
        assert split(minutes(10, 20), UTC_ZONE) == (None, [Edge(minutes(0, 60), minutes(10, 20))])

    @pytest.mark.parametrize(("first", "last"), [(0, 59.999), (0.001, 60)])
    def test_a_millisecond_beside_the_hour_is_an_edge(self, first, last):
        assert split(minutes(first, last), UTC_ZONE) == (
            None,
            [Edge(minutes(0, 60), minutes(first, last))],
        )

    def test_an_organisations_midnight_is_a_cut_too(self):
        midnight = datetime(2026, 11, 1, 18, 30, tzinfo=UTC)  # +5:30
        half = timedelta(minutes=30)

        inner, edges = split(
            Interval(midnight - timedelta(minutes=10), midnight + half), ZoneInfo("Asia/Kolkata")
        )

        assert inner == Interval(midnight, midnight + half)
        assert edges == [
            Edge(
                Interval(midnight - half, midnight),
                Interval(midnight - timedelta(minutes=10), midnight),
            )
        ]


@pytest.fixture
def worked(db):
    """One GPU at $3: useful from 0 to 20, idle (certain) from 20 to 50, free from 50 to 60, in two
    runs and one.
    """
    gpu, job = a_gpu(), a_job(user="ann")
    a_rate("3", gpu=gpu)
    an_entry(gpu, "useful", 20 * MINUTE, job=job, energy_j=1200.0)
    an_entry(gpu, "idle", 30 * MINUTE, job=job, tier="certain")
    an_entry(gpu, "free", 10 * MINUTE)
    for first, last, state, holder in (
        (0, 20, "useful", job),
        (20, 50, "idle", job),
        (50, 60, "free", None),
    ):
        span = {"start_ms": START_MS + first * MINUTE, "end_ms": START_MS + last * MINUTE}
        a_run(gpu, **span, job=holder, state_ms={state: (last - first) * MINUTE})
    return gpu


@pytest.mark.parametrize(
    ("first", "last", "states", "usd"),
    [
        (0, 60, {"useful": 20, "idle": 30, "free": 10}, "3"),
        (0, 20, {"useful": 20}, "1"),
        (10, 30, {"useful": 10, "idle": 10}, "1"),
        (30, 60, {"idle": 20, "free": 10}, "1.5"),
        (45, 55, {"idle": 5, "free": 5}, "0.5"),
        (-60, 10, {"useful": 10}, "0.5"),
        (59, 600, {"free": 1}, "0.05"),
        (60, 120, {}, "0"),
    ],
)
def test_a_part_of_an_hour_has_what_its_runs_say(worked, first, last, states, usd):
    found = totals(minutes(first, last))

    assert {state: ms // MINUTE for state, ms in found.states.items() if ms} == states
    assert found.capacity_ms == sum(states.values()) * MINUTE
    assert f"{found.cost_usd:f}".rstrip("0").rstrip(".") == usd.rstrip("0").rstrip(".")
    assert found.waste_ms["certain"] == states.get("idle", 0) * MINUTE


def test_energy_is_that_of_the_part(worked):
    found = totals(minutes(0, 10))

    assert (found.energy_j, found.energy_ms) == (600.0, 10 * MINUTE)


def test_groups_of_a_part_are_those_that_have_time_in_it(worked):
    assert [
        (group.key, group.totals.capacity_ms) for group in totals_by(minutes(52, 54), "user")
    ] == [("", 2 * MINUTE)]
    assert [
        (group.key, group.totals.capacity_ms) for group in totals_by(minutes(48, 54), "user")
    ] == [
        ("ann", 2 * MINUTE),
        ("", 4 * MINUTE),
    ]


def test_a_scope_sees_its_own_of_the_part(worked):
    assert totals(minutes(40, 60), scope=Scope(user="ann")).capacity_ms == 10 * MINUTE
    assert totals(minutes(40, 60), scope=Scope(gpu=worked.uuid)).capacity_ms == 20 * MINUTE
    assert totals(minutes(40, 60), scope=Scope(states=("free",))).capacity_ms == 10 * MINUTE


def test_a_total_does_not_jump_at_the_full_hour(worked):
    """The last hour at 11:59:59.999, at 12:00 and a millisecond later, of a GPU that goes on as it
    was.
    """
    for hour in (1, 2):
        start = HOUR + timedelta(hours=hour)
        an_entry(worked, "idle", job=None, tier="certain", start=start)
        span = {"start_ms": to_ms(start), "end_ms": to_ms(start) + HOUR_MS}
        a_run(worked, **span, state_ms={"idle": HOUR_MS})
    noon = HOUR + timedelta(hours=3)

    moments = [noon - timedelta(milliseconds=1), noon, noon + timedelta(milliseconds=1)]
    found = [
        totals(Interval(moment - timedelta(hours=1), moment)).capacity_ms for moment in moments
    ]

    assert found == [HOUR_MS, HOUR_MS, HOUR_MS - 1]


def test_buckets_at_the_ends_have_what_lies_in_the_period(worked):
    an_entry(worked, "free", 60 * MINUTE, start=HOUR + timedelta(hours=1))
    a_run(
        worked,
        start_ms=START_MS + HOUR_MS,
        end_ms=START_MS + 2 * HOUR_MS,
        state_ms={"free": HOUR_MS},
    )

    buckets = dollars_over_time(minutes(45, 75), "hour")

    assert [(bucket.start.hour, bucket.totals.capacity_ms // MINUTE) for bucket in buckets] == [
        (9, 15),
        (10, 15),
    ]


def test_entries_without_runs_count_whole(db):
    an_entry(a_gpu(), "useful")

    assert totals(minutes(30, 60)).capacity_ms == HOUR_MS


spans = st.lists(st.integers(1, HOUR_MS - 1), unique=True, min_size=1, max_size=6).map(sorted)


@given(
    bounds=spans,
    shares=st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=7, max_size=7),
    moments=spans,
)
def test_parts_of_an_hour_sum_to_it(bounds, shares, moments):
    """Whatever holders and states it has: of the GPU exactly, of each row to the millisecond of
    rounding.
    """
    edges = [0, *bounds, HOUR_MS]
    runs = [
        (first, last, number, share)
        for number, (first, last, share) in enumerate(zip(edges, edges[1:], shares, strict=False))
    ]
    rows = {number: round((last - first) * share) for first, last, number, share in runs}
    cuts = [0, *moments, HOUR_MS]

    found = [_part(rows, runs, first, last) for first, last in pairwise(cuts)]

    assert all((each >= 0).all() for each in found)
    together = np.sum(found, axis=0)
    assert abs(int(together.sum()) - sum(rows.values())) <= len(found)
    assert all(
        abs(int(part) - whole) <= len(found)
        for part, whole in zip(together, rows.values(), strict=True)
    )


def _part(rows, runs, first, last):
    gpu, job = np.ones(len(rows), dtype=np.int64), np.array(list(rows), dtype=np.int64)
    kind = np.array([USEFUL if number % 2 else IDLE for number in rows], dtype=np.int64)
    states_ms = np.zeros((len(runs), 9))
    for number, (start, end, _, _) in enumerate(runs):
        inside = max(0, min(end, last) - max(start, first))
        states_ms[number, kind[number] // 8] = rows[number] * (1 - inside / (end - start))
    outside = Outside(np.ones(len(runs), dtype=np.int64), job, states_ms)
    return part_of(gpu, job, kind, np.array(list(rows.values()), dtype=np.int64), outside)


def test_whole_gpus_sum_exactly_minute_by_minute(worked):
    found = [totals(minutes(number + 0.3, number + 1.3)).capacity_ms for number in range(59)]

    assert found == [MINUTE] * 59


def test_parts_tell_of_each_edge_what_is_whole_and_what_is_asked_for(worked):
    [edge] = split(minutes(10, 30), UTC_ZONE)[1]

    found = parts([edge], None)

    assert sorted(
        zip(found.figures["whole_ms"] // MINUTE, found.figures["gpu_ms"] // MINUTE, strict=True)
    ) == [
        (10, 0),
        (20, 10),
        (30, 10),
    ]


def test_sums_of_days_are_not_asked_for_a_part(worked):
    told = engine.read(LedgerTime(), minutes(30, 60), by=("node",))

    assert (
        sum(cell.gpu_ms for cells in by_line(told, told.by["node"].at).values() for cell in cells)
        == 30 * MINUTE
    )


def test_a_cut_of_the_fleet_is_read_again_once_its_hour_is_posted_again(worked):
    node_id = GPU.objects.get().node_id
    count_versions({node_id: [START_MS]})
    before = totals(minutes(30, 60)).capacity_ms
    Entry.objects.all().delete()  # behind the ledger's back: no version says so

    assert before == 30 * MINUTE
    assert totals(minutes(30, 60)).capacity_ms == before
    # of one node it is not kept
    assert totals(minutes(30, 60), scope=Scope(node="node-1")).capacity_ms == 0

    count_versions({node_id: [START_MS]})

    assert totals(minutes(30, 60)).capacity_ms == 0


def test_another_hour_of_the_day_that_is_posted_changes_nothing(worked):
    node_id = GPU.objects.get().node_id
    count_versions({node_id: [START_MS]})
    before = totals(minutes(30, 60)).capacity_ms
    Entry.objects.all().delete()

    count_versions({node_id: [START_MS + HOUR_MS]})

    assert totals(minutes(30, 60)).capacity_ms == before
