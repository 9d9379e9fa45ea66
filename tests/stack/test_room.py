"""While the disk is short of room: retention runs, nothing unsealed goes, and what only adds rows
waits.
"""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleetwatch.celery import WAITING_FOR_ROOM, app
from fleetwatch.ingest.services import store_batch
from fleetwatch.inventory.services import node_by_name
from fleetwatch.operations import disk
from fleetwatch.operations.models import JobRun
from fleetwatch.stack import plan
from fleetwatch.stack.room import make_room
from fleetwatch.stack.tasks import make_room as make_room_task
from fleetwatch.telemetry.models import Batch, SealMark
from tests.ingest.factories import batch

MIB = 1024**2


@pytest.fixture
def short(settings, tmp_path, monkeypatch):
    """A disk of which nothing is free."""
    settings.DATABASE_FOLDER = tmp_path
    found = type("Found", (), {"f_bavail": 0, "f_blocks": 200, "f_frsize": MIB})
    monkeypatch.setattr(disk.os, "statvfs", lambda _: found)


@pytest.fixture
def old_run(db):
    """A run that retention takes."""
    at = timezone.now() - timedelta(days=8)
    return JobRun.objects.create(name="old", started_at=at, finished_at=at, ok=True)


def test_where_there_is_room_nothing_is_done_before_its_time(old_run):
    assert make_room(timezone.now()) == {}
    assert JobRun.objects.filter(name="old").exists()


@pytest.mark.django_db(transaction=True)
def test_where_room_is_short_retention_runs_and_unsealed_batches_stay(short):
    at = timezone.now() - timedelta(days=8)
    JobRun.objects.create(name="old", started_at=at, finished_at=at, ok=True)
    parsed = batch(start_ms=int(at.timestamp()) // 10 * 10_000)
    store_batch(node_by_name("n1"), parsed, received_at=at)

    make_room_task()

    assert not JobRun.objects.filter(name="old").exists()
    assert JobRun.objects.get(name="stack.make_room").did["deleted"] == 1
    assert Batch.objects.count() == 1
    assert SealMark.objects.exists()


def test_tasks_that_only_add_rows_wait_for_room(short, db):
    for name in WAITING_FOR_ROOM:
        app.loader.import_default_modules()
        app.tasks[name]()

    assert not JobRun.objects.exists()


def test_tasks_that_seal_and_drop_go_on_while_room_is_short():
    assert not {
        name
        for name in WAITING_FOR_ROOM
        if "seal" in name or "keep_partitions" in name or "retention" in name or "prune" in name
    }


@pytest.mark.parametrize(
    ("total_mib", "settings"),
    [
        (200, ("max_wal_size=64MB", "min_wal_size=32MB")),
        (3200, ("max_wal_size=200MB", "min_wal_size=80MB")),
        (500_000, ("max_wal_size=2048MB", "min_wal_size=80MB")),
    ],
)
def test_the_write_ahead_log_is_as_large_as_the_disk_allows(total_mib, settings):
    assert plan.wal_settings(total_mib * MIB) == settings
