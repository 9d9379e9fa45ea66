import pytest

from fleetwatch.celery import app
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.operations.models import JobRun
from fleetwatch.telemetry import tasks
from tests.telemetry.factories import HOUR_START_MS, make_node, store

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


@pytest.mark.parametrize("name", ALL)
def test_beat_knows_every_task(name):
    entry = app.conf.beat_schedule[f"telemetry.{name}"]

    assert entry["task"] == getattr(tasks, name).name
