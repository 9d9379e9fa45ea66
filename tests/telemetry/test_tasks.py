"""What the clock of telemetry starts, and what becomes of it beside others."""

from collections.abc import Callable, Iterator
from threading import Event

import pytest
from django.db import transaction

from fleetwatch.celery import app
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.operations.models import JobRun
from fleetwatch.telemetry import tasks
from fleetwatch.telemetry.locks import SEALING, try_node_locks
from tests.telemetry.factories import HOUR_START_MS, make_node, store
from tests.telemetry.threads import in_another_connection

ALL = ("seal", "join", "refresh_recent_cells", "keep_partitions", "apply_retention")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ALL)
def test_a_task_leaves_a_run_that_says_what_it_did(name):
    getattr(tasks, name)()

    run = JobRun.objects.get(name=f"telemetry.{name}")
    assert run.ok is True
    assert run.did


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("run_s", "hours"), [(40, 3), (0, 1)])
def test_sealing_goes_on_until_nothing_is_left_or_its_time_is_over(monkeypatch, run_s, hours):
    node = make_node(gpus=1)
    for sequence in range(3):
        store(node, sequence=sequence + 1, starts=[HOUR_START_MS + sequence * HOUR_MS])
    monkeypatch.setattr(tasks, "HOURS_AT_ONCE", 1)
    monkeypatch.setattr(tasks, "RUN_S", run_s)

    tasks.seal()

    assert JobRun.objects.get(name="telemetry.seal").did["hours"] == hours


@pytest.fixture
def closed_hour() -> Node:
    node = make_node(gpus=1)
    store(node, sequence=1, starts=[HOUR_START_MS])
    return node


@pytest.fixture
def other(closed_hour) -> Iterator[Callable[[], object]]:
    """Another worker has the node, until this is called."""
    is_held, is_over = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            try_node_locks(SEALING, [closed_hour.pk])
            is_held.set()
            is_over.wait(10)

    holder = in_another_connection(hold)
    is_held.wait(10)

    def end() -> None:
        is_over.set()
        holder.result(10)

    yield end
    end()


@pytest.mark.django_db(transaction=True)
def test_sealing_is_not_kept_out_by_who_begins_at_the_same_second_each_minute(monkeypatch, other):
    monkeypatch.setattr(tasks.time, "sleep", lambda _: other())

    tasks.seal()

    did = JobRun.objects.get(name="telemetry.seal").did
    assert did["hours"] == 1
    assert "skipped" not in did


@pytest.mark.django_db(transaction=True)
def test_sealing_waits_for_no_node_longer_than_its_run(monkeypatch, other):
    monkeypatch.setattr(tasks, "RUN_S", 0)

    tasks.seal()

    did = JobRun.objects.get(name="telemetry.seal").did
    assert (did["hours"], did["skipped"]) == (0, 1)


@pytest.mark.parametrize("name", ALL)
def test_beat_knows_every_task(name):
    entry = app.conf.beat_schedule[f"telemetry.{name}"]

    assert entry["task"] == getattr(tasks, name).name
