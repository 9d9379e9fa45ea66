"""The first page of an empty FleetWatch: prices, the install command, waiting for the first
node.
"""

from datetime import timedelta

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.install import install_command
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.demo.loading import may_load
from fleetwatch.ingest import tokens

TTL = timedelta(hours=24)
USES = 100


@require_http_methods(["GET", "POST"])
@never_cache
@takes()
def welcome(request: HttpRequest) -> HttpResponseBase:
    return _make_command(request) if request.method == "POST" else _show(request)


@login_required
def _show(request: HttpRequest, command: str = "") -> HttpResponse:
    context: Context = {
        "command": command,
        "uses": USES,
        "may_load": may_load(),
        **_arrived(),
    }
    return render(request, "dashboard/welcome.html", read_period(request).context("", **context))


@needs(Right.FLEET)
def _make_command(request: HttpRequest) -> HttpResponseBase:
    return _show(
        request, install_command(tokens.create_enrollment_token(timezone.now(), uses=USES, ttl=TTL))
    )


@shows("dashboard/_waiting.html", "", is_part=True)
def waiting(_: HttpRequest, __: Period) -> Context:
    """The waiting line, for htmx."""
    return _arrived()


def _arrived() -> Context:
    return {"machines": selectors.machines(), "has_data": selectors.has_data()}
