"""A back-test that takes longer than somebody waits, on the page that shows its outcome."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from fleetwatch.accounts.permissions import Right, may
from fleetwatch.alerts import back_test_runs
from fleetwatch.alerts.back_test_runs import Asked
from fleetwatch.alerts.models import BackTestRun
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.refusal import RefusedFieldError


def long_test(start: str, pk: int, run: BackTestRun | None) -> dict[str, Any]:
    """What its part of the page says: how far it is, or where a worker is asked for it."""
    return {"is_long": True, "start_address": reverse(start, args=[pk]), "run": run}


def interval_of(run: BackTestRun | None, days: str, now: datetime) -> Interval:
    """The period of the run, where there is one; else so many days until now."""
    if run is not None:
        return Interval(run.start, run.end)
    return Interval(now - timedelta(days=int(days)), now)


def ask_worker(request: HttpRequest, asked: Asked) -> HttpResponse:
    """The way to where it is shown how far it is. Raises RefusedFieldError where too many wait."""
    back_test_runs.ask(asked, by=request.user.get_username(), now=timezone.now())
    return redirect(f"{asked.address}#back-test")


def refused(request: HttpRequest, error: RefusedFieldError, home: str) -> HttpResponse:
    """The way to the page without its back-test, which says why; of a part that asked by itself the
    whole page goes there, or nobody would read it.
    """
    messages.error(request, str(error))
    if "HX-Request" in request.headers:
        return HttpResponse(headers={"HX-Redirect": home})
    return redirect(home)


def check_may_stop(request: HttpRequest, run: BackTestRun) -> None:
    """Raises PermissionDenied where it is somebody else's."""
    if run.asked_by != request.user.get_username() and not may(request.user, Right.FLEET):
        raise PermissionDenied("others' back-tests are the operators' to stop")
