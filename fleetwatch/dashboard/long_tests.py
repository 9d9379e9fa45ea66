"""A back-test that takes longer than somebody waits, on the page that shows its outcome."""

from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from fleetwatch.alerts import back_test_runs
from fleetwatch.alerts.back_test_runs import Asked
from fleetwatch.alerts.models import BackTestRun
from fleetwatch.lib.intervals import Interval


def long_test(start: str, pk: int, run: BackTestRun | None) -> dict[str, Any]:
    """What its part of the page says: how far it is, or where a worker is asked for it."""
    return {"is_long": True, "start_address": reverse(start, args=[pk]), "run": run}


def interval_of(run: BackTestRun | None, days: str, now: datetime) -> Interval:
    """The period of the run, where there is one; else so many days until now."""
    if run is not None:
        return Interval(run.start, run.end)
    return Interval(now - timedelta(days=int(days)), now)


def ask_worker(request: HttpRequest, asked: Asked) -> BackTestRun:
    """Raises RefusedFieldError where too many wait."""
    return back_test_runs.ask(asked, by=request.user.get_username(), now=timezone.now())
