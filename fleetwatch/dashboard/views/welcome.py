"""The first page of an empty FleetWatch: prices, the install command, waiting for the first
node.
"""

from collections import Counter

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.dashboard import selectors
from fleetwatch.dashboard.install import USES, VALID_FOR, install_command
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.demo.loading import may_load
from fleetwatch.ingest import tokens
from fleetwatch.ledger.broken_gpus import broken_gpus


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
        "is_first": not selectors.has_data(),
        **_arrived(selectors.newest_node() if command else 0),
    }
    return render(request, "dashboard/welcome.html", read_period(request).context("", **context))


@needs(Right.FLEET)
def _make_command(request: HttpRequest) -> HttpResponseBase:
    token = tokens.create_enrollment_token(timezone.now(), uses=USES, ttl=VALID_FOR)
    return _show(request, install_command(token))


@shows("dashboard/_waiting.html", "", "after", is_part=True)
def waiting(request: HttpRequest, _: Period) -> Context:
    """The waiting line, for htmx: of the nodes that came `after` the one with that id."""
    after = request.GET.get("after", "")
    return _arrived(int(after) if after.isascii() and after.isdigit() and len(after) < 19 else 0)


def _arrived(after: int) -> Context:
    """The nodes with higher ids, how many broken GPUs each has, and whether one has sent data."""
    machines = [machine for machine in selectors.machines() if machine.pk > after]
    arrived = any(machine.gpu_count for machine in machines)
    broken = Counter(each.gpu.node_id for each in broken_gpus()) if arrived else {}
    return {"machines": machines, "broken": broken, "has_data": arrived, "after": after}
