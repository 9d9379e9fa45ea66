import pytest

from fleetwatch.celery import app
from fleetwatch.operations.models import JobRun
from fleetwatch.telemetry import tasks

ALL = ("seal", "join", "refresh_recent_cells", "keep_partitions", "apply_retention")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ALL)
def test_a_task_leaves_a_run_that_says_what_it_did(name):
    getattr(tasks, name)()

    run = JobRun.objects.get(name=f"telemetry.{name}")
    assert run.ok is True
    assert run.did


@pytest.mark.parametrize("name", ALL)
def test_beat_knows_every_task(name):
    entry = app.conf.beat_schedule[f"telemetry.{name}"]

    assert entry["task"] == getattr(tasks, name).name
