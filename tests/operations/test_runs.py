from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection

from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import (
    has_done,
    heartbeat,
    heartbeat_age_s,
    latest_runs,
    process_kinds,
    recent_failures,
    workers,
)
from fleetwatch.operations.services import beat, beat_of_worker, prune_runs, record_run

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def clock(*moments):
    return iter(moments).__next__


def test_a_run_keeps_what_it_did_and_how_long_it_took():
    with record_run("ledger.post", clock=clock(NOW, NOW + timedelta(seconds=3))) as did:
        did.update(hours=7)

    run = JobRun.objects.get()
    assert (run.name, run.ok, run.did, run.error) == ("ledger.post", True, {"hours": 7}, "")
    assert (run.started_at, run.finished_at) == (NOW, NOW + timedelta(seconds=3))


def test_a_failed_run_keeps_its_error_and_passes_it_on():
    def fail():
        with record_run("x", clock=clock(NOW, NOW)) as did:
            did["read"] = 1
            raise ValueError("no such node\x00")

    with pytest.raises(ValueError, match="no such node"):
        fail()

    run = JobRun.objects.get()
    assert (run.ok, run.did, run.error) == (False, {"read": 1}, "ValueError: no such node")


def test_a_killed_run_stays_open():
    with pytest.raises(KeyboardInterrupt), record_run("x", clock=clock(NOW)):
        raise KeyboardInterrupt

    run = JobRun.objects.get()
    assert (run.ok, run.finished_at) == (None, None)


def test_the_latest_run_of_every_name():
    for name, minutes in (("a", 0), ("a", 2), ("a", 1), ("b", 5)):
        JobRun.objects.create(name=name, started_at=NOW + timedelta(minutes=minutes))

    assert [(run.name, run.started_at) for run in latest_runs()] == [
        ("a", NOW + timedelta(minutes=2)),
        ("b", NOW + timedelta(minutes=5)),
    ]


def test_whether_something_was_done_since_a_moment():
    def run(name="x", *, at=NOW, ok=True, live=1):
        JobRun.objects.create(name=name, started_at=at, ok=ok, did={"live": live})

    run("y")
    run(at=NOW - timedelta(microseconds=1))
    run(ok=False)
    run(ok=None)
    run(live=0)
    assert not has_done("x", "live", since=NOW)

    run()
    assert has_done("x", "live", since=NOW)
    assert not has_done("x", "other", since=NOW)


def test_no_runs_yet():
    assert latest_runs() == []


def test_failures_newest_first():
    for minutes, ok in ((0, False), (1, False), (2, True), (3, None), (-61, False)):
        JobRun.objects.create(name="a", started_at=NOW + timedelta(minutes=minutes), ok=ok)

    found = recent_failures(NOW - timedelta(hours=1))

    assert [run.started_at for run in found] == [NOW + timedelta(minutes=1), NOW]


def test_runs_older_than_seven_days_go():
    for age in (timedelta(days=7), timedelta(days=7, seconds=1)):
        JobRun.objects.create(name="a", started_at=NOW - age)

    assert prune_runs(NOW) == {"deleted": 1}
    assert JobRun.objects.get().started_at == NOW - timedelta(days=7)


def test_a_heartbeat_ages_and_never_goes_back():
    beat("worker", NOW)
    beat("worker", NOW - timedelta(seconds=30))

    assert heartbeat_age_s("worker", NOW + timedelta(seconds=12)) == 12.0
    assert heartbeat_age_s("beat", NOW) is None


def test_a_heartbeat_tells_since_when_it_beats_without_a_pause():
    for seconds in (0, 90, 91, 50):
        beat("door", NOW + timedelta(seconds=seconds))
    assert heartbeat("door").since == NOW

    beat("door", NOW + timedelta(seconds=182))

    assert heartbeat("door").since == NOW + timedelta(seconds=182)


@pytest.mark.django_db(transaction=True)
def test_a_run_whose_connection_died_is_recorded_on_a_new_one():
    def lose_the_connection():
        with record_run("x", clock=clock(NOW, NOW)), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(OperationalError):
        lose_the_connection()

    assert JobRun.objects.get().ok is False


def test_a_worker_that_is_gone_for_a_day_is_forgotten():
    beat_of_worker("celery@old", NOW - timedelta(hours=25))
    beat_of_worker("celery@new", NOW - timedelta(hours=23))
    beat("worker", NOW - timedelta(days=9))

    prune_runs(NOW)

    assert workers() == [("celery@new", NOW - timedelta(hours=23))]
    assert [each.name for each in process_kinds()] == ["worker"]
