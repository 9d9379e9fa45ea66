import pytest

from fleetwatch.alerts.tasks import evaluate
from fleetwatch.celery import app
from fleetwatch.notify.tasks import deliver_due, prune_deliveries
from fleetwatch.operations.models import JobRun
from fleetwatch.reports.tasks import weekly_digest


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("task", "name", "did"),
    [
        (
            evaluate,
            "alerts.evaluate",
            {"opened": 0, "kept": 0, "no_data": 0, "resolved": 0}
            | {"groups_opened": 0, "groups_closed": 0, "told": 0},
        ),
        (
            deliver_due,
            "notify.deliver",
            dict.fromkeys(("sent", "retry", "failed", "disabled", "expired", "repeated"), 0),
        ),
        (prune_deliveries, "notify.prune_deliveries", {"deleted": 0}),
        (weekly_digest, "reports.weekly_digest", {"computed": 0, "queued": 0}),
    ],
)
def test_each_task_runs_and_leaves_a_row_of_what_it_did(task, name, did):
    task()

    assert JobRun.objects.values_list("name", "ok", "did").get() == (name, True, did)


@pytest.mark.parametrize(
    ("task", "seconds"),
    [(evaluate, 60), (deliver_due, 15), (prune_deliveries, 3600), (weekly_digest, 900)],
)
def test_each_task_is_on_the_clock(task, seconds):
    (entry,) = [entry for entry in app.conf.beat_schedule.values() if entry["task"] == task.name]

    assert entry["schedule"] == seconds
