"""A fleet for load tests: told without the door, it must be as the door would have left it."""

import contextlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Sum

from agent import wire
from benchmarks import bulk, tiling
from benchmarks.large_fleet import Command
from fleetwatch.demo import fleet
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry, Run
from fleetwatch.ledger.services import post
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.telemetry import frames
from fleetwatch.telemetry.models import Chunk
from tests.ledger.balance import unbalanced

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = Interval(datetime(2026, 11, 20, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC))
COLUMNS = ("util_mean", "util_max", "power_w", "energy_j", "memory_used_bytes", "process_count")
NODES = fleet.nodes(16 * 8)
PAIR = [NODES[1], NODES[9]]  # the second echoes the first
DAY_GPU_MS = 2 * 8 * 24 * HOUR_MS


def _voices(days: list[int]) -> list[tuple[wire.Batch, list[dict[str, np.ndarray]]]]:
    block = bulk.blocks(bulk.Past(DAY), 10)[2]
    return list(bulk.voices(PAIR, block, days, COLUMNS))


def test_nodes_are_parted_so_that_echoes_are_of_one_model_and_use():
    groups = bulk.groups(fleet.nodes(8 * 100), 20)  # 16 patterns fit in 20

    assert [len(groups), sum(map(len, groups))] == [16, 100]
    assert {
        len({(node.spec.split(",")[0], node.labels["pool"]) for node in group}) for group in groups
    } == {1}


def test_an_echo_has_its_own_gpus_jobs_and_digits():
    (drawn, columns), (echo, echoed) = _voices([0])

    assert (drawn.node, echo.node) == (PAIR[0].name, PAIR[1].name)
    assert not {gpu["uuid"] for gpu in drawn.gpus} & {gpu["uuid"] for gpu in echo.gpus}
    assert not {job["key"] for job in drawn.jobs} & {job["key"] for job in echo.jobs}
    busy = columns[0]["power_w"]
    assert (np.round(echoed[0]["power_w"], 3) != np.round(busy, 3)).mean() > 0.99
    assert echoed[0]["power_w"].mean() == pytest.approx(busy.mean(), rel=0.01)


def test_an_echo_of_an_earlier_day_says_the_same_batch_a_day_earlier():
    today, earlier = (_voices([back])[0][0] for back in (0, 1))

    assert earlier.sequence == today.sequence - 8640
    assert earlier.windows["start_ms"] == [
        start - 24 * HOUR_MS for start in today.windows["start_ms"]
    ]


@pytest.mark.django_db
def test_a_told_day_is_sealed_posted_and_tiled_without_losing_time():
    told = bulk.store(PAIR, bulk.Past(DAY, fine_days=0, columns=COLUMNS), received_at=NOON)
    again = bulk.store(PAIR, bulk.Past(DAY, fine_days=0, columns=COLUMNS), received_at=NOON)

    assert again == bulk.Stored()
    assert Chunk.objects.count() == 8
    node_ids = sorted(set(Chunk.objects.values_list("node_id", flat=True)))
    assert (
        sum(
            len(frames.read_windows(node_id, DAY.start_ms, DAY.end_ms, ["util_mean"]))
            for node_id in node_ids
        )
        == told.windows
    )

    post(NOON, 1_000)
    posted = Entry.objects.aggregate(total=Sum("gpu_ms"))["total"]
    assert DAY_GPU_MS * 0.95 < posted <= DAY_GPU_MS  # an outage may cut the first minutes off

    assert tiling.untiled(DAY, 2) == [1, 2]
    tiling.keep(DAY)
    assert tiling.tile(DAY, 1) == (
        DAY.start - timedelta(days=1),
        Entry.objects.filter(start__gte=DAY.start).count(),
    )
    tiling.take_for_granted(DAY, 1)
    yesterday = Entry.objects.filter(start__lt=DAY.start)
    assert yesterday.aggregate(total=Sum("gpu_ms"))["total"] == posted
    assert not set(yesterday.values_list("job", flat=True)) & set(
        Entry.objects.filter(start__gte=DAY.start, job__isnull=False).values_list("job", flat=True)
    )
    assert Run.objects.filter(end_ms__lte=DAY.start_ms).exists()
    assert Job.objects.filter(key__endswith="-1", entry__in=yesterday).exists()
    assert tiling.untiled(DAY, 2) == [2]
    assert unbalanced(DAY.start - timedelta(days=1), DAY.end) == []
    assert unbalanced(DAY.start, DAY.end, now=NOON) == []


def _indexes() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexdef FROM pg_indexes WHERE tablename IN ('ledger_entry', 'ledger_hourruns')"
        )
        return {row[0] for row in cursor.fetchall()}


@pytest.mark.django_db
def test_indexes_come_back_as_they_were_when_tiling_fails():
    before = _indexes()

    with tiling.without_indexes():
        meanwhile = _indexes()
    with contextlib.suppress(ZeroDivisionError), tiling.without_indexes():
        raise ZeroDivisionError

    assert len(before) == 10
    assert len(meanwhile) == 2
    assert all("_pkey" in index for index in meanwhile)
    assert _indexes() == before


@pytest.mark.django_db
def test_windows_that_are_final_when_they_come_are_refused(settings):
    settings.RAW_RETENTION_DAYS = 35

    with pytest.raises(CommandError, match="--ledger-days tiles older ones"):
        call_command(Command(), "--gpus", "8", "--days", "36")
