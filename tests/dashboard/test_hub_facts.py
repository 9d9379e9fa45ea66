"""What /status says of the hub itself."""

from datetime import timedelta

import pytest

from fleetwatch.accounts.audit import record
from fleetwatch.dashboard.hub_facts import hub_facts, room
from fleetwatch.dashboard.stored_data import Kept, Stored
from fleetwatch.operations.disk import MIB, Space
from fleetwatch.operations.models import JobRun
from fleetwatch.operations.selectors import rhythms
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
    assert "none by" in before
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
