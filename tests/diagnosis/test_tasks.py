"""How often diagnosis looks at what."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest

from fleetwatch.diagnosis import tasks
from fleetwatch.operations.models import JobRun

pytestmark = pytest.mark.django_db


def ran(monkeypatch, *moments: str, fails: str = "") -> list[bool]:
    """Whether the hour that goes on was looked at, by runs at these times of a day."""
    seen = []

    def diagnose(now, limit, *, is_live):
        seen.append(is_live)
        if f"{now:%H:%M}" == fails:
            raise ValueError("no")
        return {"hours": 0}

    monkeypatch.setattr(tasks.services, "diagnose", diagnose)
    for moment in moments:
        now = datetime.strptime(f"2026-11-20 {moment}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        monkeypatch.setattr(tasks.timezone, "now", lambda now=now: now)
        with suppress(ValueError):
            tasks.diagnose()
        JobRun.objects.filter(pk=JobRun.objects.latest("pk").pk).update(started_at=now)
    return seen


def test_the_hour_that_goes_on_is_looked_at_once_in_each_five_minutes(monkeypatch):
    times = ("11:58:00", "11:59:30", "12:00:30", "12:01:30", "12:04:59", "12:05:00", "12:06:00")

    assert ran(monkeypatch, *times) == [True, False, True, False, False, True, False]


def test_a_run_that_failed_is_none(monkeypatch):
    assert ran(monkeypatch, "12:00:30", "12:01:30", "12:02:30", fails="12:00") == [
        True,
        True,
        False,
    ]
