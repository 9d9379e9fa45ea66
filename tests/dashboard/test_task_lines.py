"""Background work on /status: when each task ran, takes, comes again and failed."""

from datetime import timedelta

import pytest

from fleetwatch.celery import EVERY
from fleetwatch.dashboard.task_lines import task_lines
from fleetwatch.dashboard.words import task_name
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import rhythms
from tests.dashboard.factories import NOW
from tests.markup import tight

pytestmark = pytest.mark.django_db


def ran(name: str, *, ago_s: float, took_s: float = 1, ok: bool = True) -> None:
    start = NOW - timedelta(seconds=ago_s)
    end = start + timedelta(seconds=took_s)
    JobRun.objects.create(name=name, started_at=start, finished_at=end, ok=ok)


def test_a_task_comes_again_by_its_rhythm_and_takes_what_it_took():
    for ago_s, took_s in ((130, 9), (70, 0.4), (10, 2)):
        ran("telemetry.seal", ago_s=ago_s, took_s=took_s)

    [line] = task_lines(NOW, rhythms(NOW))

    # each minute, the last 10 s ago; of 0.4 s, 2 s and 9 s the middle
    assert (line.next_ms, line.usually) == (50_000, "2 s")


@pytest.mark.parametrize(("ago_s", "next_ms"), [(15, 0), (45, 0), (46, None)])
def test_what_is_late_is_due_and_what_comes_no_more_waits_for_work(ago_s, next_ms):
    ran("ledger.post", ago_s=ago_s + 15)
    ran("ledger.post", ago_s=ago_s)

    assert [line.next_ms for line in task_lines(NOW, rhythms(NOW))] == [next_ms]


def test_of_a_single_run_no_rhythm_is_known():
    ran("telemetry.seal", ago_s=10)

    assert [line.next_ms for line in task_lines(NOW, rhythms(NOW))] == [None]


def test_failures_of_the_day_are_counted_with_the_last_and_a_failed_task_comes_first():
    ran("telemetry.seal", ago_s=25 * 3600, ok=False)
    ran("telemetry.seal", ago_s=7200, ok=False)
    ran("telemetry.seal", ago_s=3600, ok=False)
    ran("telemetry.seal", ago_s=60)
    ran("reports.compute", ago_s=60, ok=False)

    lines = task_lines(NOW, rhythms(NOW))

    assert [(line.run.name, line.failures) for line in lines] == [
        ("reports.compute", 1),
        ("telemetry.seal", 2),
    ]
    assert lines[1].failed_at == NOW - timedelta(hours=1)


def test_the_page_says_them_in_words(viewer):
    ran("telemetry.seal", ago_s=70)
    ran("telemetry.seal", ago_s=10)

    page = tight(viewer.get("/status").content.decode())

    assert 'title="telemetry.seal">Compresses telemetry</td>' in page
    assert "in 50 s" in page


def test_every_task_of_the_clock_has_a_name_that_people_say():
    told = {"operations.beat_worker", "notify.deliver_due"}  # record nothing, or by another name

    assert [name for name in EVERY if name not in told and task_name(name) == name] == []
