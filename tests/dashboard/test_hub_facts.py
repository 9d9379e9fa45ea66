"""What /status says of the hub itself."""

from datetime import timedelta

import pytest
import time_machine

from fleetwatch.accounts.audit import record
from fleetwatch.dashboard.hub_facts import hub_facts, room
from fleetwatch.dashboard.stored_data import Kept, Stored
from fleetwatch.dashboard.worker_load import worker_load
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.operations.disk import MIB, Space
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import rhythms
from fleetwatch.operations.services import beat_of_worker
from tests.dashboard.factories import NOW
from tests.markup import tight

GIB = 1024 * MIB
DISK = Space(free=11 * GIB, total=100 * GIB)  # of which 1 GiB is kept free


def kept(now_gib: float, day_gib: float, full_gib: float) -> Kept:
    return Kept(Stored(int(now_gib * GIB), None), int(day_gib * GIB), int(full_gib * GIB))


@pytest.mark.parametrize(
    ("full_gib", "missing_gib", "days"),
    [
        (5, 0, None),
        (15, 10, None),  # just what is free
        (15.5, 10.5, 20),  # 10 GiB, half a GiB a day
        (500, 495, 20),
    ],
)
def test_a_disk_is_short_of_room_when_what_is_kept_outgrows_it(full_gib, missing_gib, days):
    said = room(DISK, kept(5, 0.5, full_gib), NOW)

    assert said.missing == missing_gib * GIB
    assert said.full_at == (days and NOW + timedelta(days=days))


def test_a_disk_that_is_short_already_is_short_now():
    assert room(Space(free=MIB, total=GIB), kept(5, 0.5, 15), NOW).full_at == NOW


def test_before_a_day_of_data_nothing_is_said_of_what_will_come():
    said = room(DISK, Kept(Stored(GIB, None), None, None), NOW)

    assert (said.missing, said.full_at) == (None, None)


@pytest.mark.django_db
def test_background_work_is_as_busy_as_its_runs_since_the_first_of_them():
    for ago_s, took_s in ((100, 20), (50, 5)):
        start = NOW - timedelta(seconds=ago_s)
        end = start + timedelta(seconds=took_s)
        JobRun.objects.create(name="ledger.post", started_at=start, finished_at=end, ok=True)
    start = NOW - timedelta(seconds=10)
    JobRun.objects.create(name="notify.deliver", started_at=start, finished_at=NOW, ok=True)

    # 25 of 100 s, and 10 of 10 s
    assert hub_facts(rhythms(NOW).values(), NOW).busy == pytest.approx(1.25)


def test_status_names_the_version_the_disk_and_the_last_backup(viewer):
    before = tight(viewer.get("/status").content.decode())
    record("export.backup", "/srv/backup.tar", bytes=3 * MIB)
    after = viewer.get("/status").content.decode()

    assert "Postgres 18" in before
    assert "none by FleetWatch" in before
    assert "python3 manage.py backup FILE" in before
    assert "python3 manage.py backup FILE" not in after
    assert "just now" in tight(after)[tight(after).index("Last backup") :][:200]
    assert "/srv/backup.tar" not in after


def test_tasks_that_are_well_are_folded(viewer):
    start = NOW - timedelta(minutes=1)
    for name, ok in (("telemetry.seal", True), ("ledger.post", False), ("reports.compute", True)):
        JobRun.objects.create(name=name, started_at=start, finished_at=NOW, ok=ok)

    page = viewer.get("/status")

    assert [task.run.name for task in page.context["unwell"]] == ["ledger.post"]
    assert len(page.context["well"]) == 2
    assert "<b>2 tasks</b>" in tight(page.content.decode())


def test_a_backup_that_is_older_than_a_week_asks_for_a_new_one(viewer):
    with time_machine.travel(NOW - timedelta(days=7, seconds=1), tick=False):
        record("export.backup", "/srv/backup.tar", bytes=3 * MIB)

    assert hub_facts([], NOW).is_backup_old
    assert not hub_facts([], NOW - timedelta(seconds=1)).is_backup_old
    assert "older than a week" in viewer.get("/status").content.decode()


@pytest.mark.parametrize(
    ("beat_s", "overdue_h", "word"),
    [(90, None, "fine"), (91, None, "stuck"), (None, None, "stuck"), (0, 3, "behind")],
)
def test_background_work_is_fine_behind_or_stuck(beat_s, overdue_h, word):
    beat_at = None if beat_s is None else NOW - timedelta(seconds=beat_s)
    overdue_since = None if overdue_h is None else NOW - timedelta(hours=overdue_h)

    load = worker_load(beat_at, overdue_since, NOW)

    assert load.word == word
    assert load.since == {"fine": None, "behind": overdue_since, "stuck": beat_at}[word]
    assert bool(load.todo) == (word != "fine")


@pytest.mark.django_db
@pytest.mark.parametrize(("state", "said"), [("sent", "delivered"), ("failed", "failed")])
def test_status_says_when_and_by_which_channel_the_last_notification_went(viewer, state, said):
    assert "none sent yet" in viewer.get("/status").content.decode()
    channel = Channel.objects.create(name="ops-mail", kind="email", created_at=NOW)
    at = NOW - timedelta(minutes=5)
    Delivery.objects.create(
        channel=channel, thread="incident/7", key="incident/7/opened", message={}, state=state,
        attempts=1, next_attempt_at=at, created_at=at, last_answer="550 no such user",
    )  # fmt: skip

    page = tight(viewer.get("/status").content.decode())

    told = page[page.index("Last notification") :][:500]
    assert "5 min ago by ops-mail:" in told
    assert said in told
    assert "550" not in told  # for operators


@pytest.mark.django_db
def test_a_notification_that_was_only_kept_is_amber_and_called_so(viewer):
    channel = Channel.objects.create(name="Team nlp", kind="log", created_at=NOW)
    Delivery.objects.create(
        channel=channel, thread="incident/7", key="incident/7/opened", message={}, state="sent",
        attempts=1, next_attempt_at=NOW, created_at=NOW,
    )  # fmt: skip

    page = tight(viewer.get("/status").content.decode())

    told = page.partition("Last notification")[2].partition("</dd>")[0]
    assert "kept here, sent nowhere" in told
    assert "dot warn" in told
    assert "delivered" not in told


@pytest.mark.django_db
def test_status_says_how_many_workers_live_and_when_each_worked_last(admin):
    beat_of_worker("celery@hub-1", NOW - timedelta(seconds=4))
    beat_of_worker("celery@hub-2", NOW - timedelta(minutes=7))

    page = tight(admin.get("/status").content.decode())

    workers = page[page.index("<dt>Workers</dt>") :]
    assert "1 of 2 alive:" in workers
    assert "celery@hub-1, last worked 4 s ago" in workers
    assert "celery@hub-2, last worked 7 min ago" in workers
    assert "#worker of" not in page  # no kind of process
