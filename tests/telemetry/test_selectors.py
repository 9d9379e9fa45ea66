from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.lib.intervals import Interval
from fleetwatch.telemetry import partitions, seal, selectors, services
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_node, store

pytestmark = pytest.mark.django_db


def test_a_series_reads_hot_and_sealed_with_gaps():
    node = make_node()
    gpu = node.gpus.get(index=0)
    store(node, columns={"util_mean": [0.2, 0.4], "power_w": [100, None]})
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
    store(node, sequence=2, starts=[HOUR_START_MS + 40_000], columns={"util_mean": [1.0]})

    series = selectors.series(
        gpu, HOUR_START_MS, HOUR_START_MS + 60_000, columns=["util_mean", "power_w"], step_s=20
    )

    assert series.start_ms == [HOUR_START_MS, HOUR_START_MS + 20_000, HOUR_START_MS + 40_000]
    assert series.columns["util_mean"] == pytest.approx([0.3, None, 1.0])
    assert series.columns["power_w"] == [100.0, None, None]


def test_a_series_counts_a_time_once_when_two_boots_saw_it():
    node = make_node()
    gpu = node.gpus.get(index=0)
    store(node, starts=[HOUR_START_MS], columns={"energy_j": [1_000], "util_mean": [0.5]})
    store(
        node,
        starts=[HOUR_START_MS],
        columns={"energy_j": [900]},
        boot_id="b",
        boot_start_ms=HOUR_START_MS,
    )

    series = selectors.series(
        gpu, HOUR_START_MS, HOUR_START_MS + 10_000, columns=["energy_j"], step_s=10
    )

    assert series.columns == {"energy_j": [1_000.0]}


def test_depth_says_what_waits():
    node = make_node()
    received_at = datetime(2026, 11, 20, 11, 5, tzinfo=UTC)
    partitions.ensure_for(received_at)
    before = selectors.depth(received_at)
    store(node, received_at=received_at)
    store(node, sequence=2, received_at=received_at, quarantined=True)
    services.touch_hours(node.pk, [(HOUR_START_MS, HOUR_START_MS + 1)] * 3)

    depth = selectors.depth(HOUR + timedelta(hours=2))
    seal.seal_closed_hours(HOUR + timedelta(hours=2), limit=10)
    after = selectors.depth(HOUR + timedelta(hours=2))

    assert depth.hot_batches - before.hot_batches == 2
    assert (depth.unsealed_marks, depth.overdue_hours, depth.overdue_batches) == (1, 1, 1)
    assert depth.touched_hours == 1
    assert depth.partitions >= 1
    assert depth.hot_bytes > 0
    assert (after.unsealed_marks, after.chunks, after.sealed_windows) == (0, 1, 2)
    assert after.overdue_batches == 0


def test_hours_are_undrawn_from_the_run_that_should_have_sealed_them_until_one_has():
    hour_end = HOUR + timedelta(hours=1)
    whole = Interval(HOUR - timedelta(hours=1), hour_end)
    due = hour_end + seal.GRACE + timedelta(minutes=2)
    node = make_node()
    store(node)
    store(node, sequence=2, starts=[HOUR_START_MS + 10_000])

    too_early = selectors.undrawn_hours(whole, due - timedelta(seconds=1))
    overdue = selectors.undrawn_hours(whole, due)
    of_its_last_second = selectors.undrawn_hours(
        Interval(hour_end - timedelta(seconds=1), hour_end), due
    )
    before, after = (
        selectors.undrawn_hours(other, due)
        for other in (Interval(whole.start, HOUR), Interval(hour_end, due))
    )
    seal.seal_closed_hours(due, limit=10)

    assert (too_early, overdue, of_its_last_second, before, after) == (0, 1, 1, 0, 0)
    assert selectors.undrawn_hours(whole, due) == 0


def test_the_newest_batch_is_known_by_when_it_came():
    received_at = datetime(2030, 11, 20, 11, 5, tzinfo=UTC)
    store(make_node(), received_at=received_at)

    depth = selectors.depth(received_at)

    assert depth.last_received_at == received_at
