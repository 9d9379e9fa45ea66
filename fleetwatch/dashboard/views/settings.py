"""Settings: everybody reads them, admins change them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import ApiToken, User
from fleetwatch.accounts.permissions import admin_required, can_administer
from fleetwatch.accounts.selectors import organisation
from fleetwatch.alerts.selectors import rules
from fleetwatch.costs.models import PRICING_CLASSES, ExchangeRate, Rate, Region
from fleetwatch.costs.rates import book
from fleetwatch.costs.rates.subjects import Subject
from fleetwatch.costs.spreading import EVEN, OWN_LINE, PROPORTIONAL
from fleetwatch.dashboard import changes
from fleetwatch.dashboard.asked import Asked, Done, RefusedError
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.install import install_command
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.finance.commitments import commitments
from fleetwatch.ingest import selectors as ingest
from fleetwatch.inventory import silence
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.selectors import closed_months
from fleetwatch.notify import selectors as notify
from fleetwatch.notify.models import Channel
from fleetwatch.notify.transports.base import Transport
from fleetwatch.reports import statement_choices

MAX_RATES = 200  # shown; the API gives them all
MAX_ENROLLMENTS = 20  # the newest; each node's own stands at its token
MAX_CHOICES = 200  # offered in a list; others are named
# forms that stand on the page several times: by which field of what was sent they are told apart
REPEATED = {
    "channel": "kind",
    "channel-edit": "id",
    "rule": "id",
    "commitment-end": "id",
    "agent-token-rights": "id",
}
# form -> the section it stands in
SECTIONS = {
    "rate": "rates",
    "exchange": "rates",
    "commitment": "rates",
    "region": "rates",
    "channel": "channels",
    "agent": "agents",
    "enrollment": "agents",
    "elastic": "agents",
    "api": "api",
    "rule": "rules",
    "month": "months",
    "free": "statements",
}
FREE_WAYS = {
    OWN_LINE: "a line of its own",
    PROPORTIONAL: "spread by dollars",
    EVEN: "spread evenly",
}


@require_GET
@login_required
@never_cache
@takes("edit")
def settings(request: HttpRequest) -> HttpResponse:
    """`?edit=<id>` opens the form of a channel."""
    chosen(request, "edit", [str(each.channel.pk) for each in notify.channels()])
    return _page(request)


@require_POST
@admin_required
@never_cache
def change(request: HttpRequest, action: str) -> HttpResponse:
    """One change. A made secret is in this answer and nowhere else; anything else redirects."""
    if action not in changes.CHANGES:
        raise Http404(action)
    asked = Asked(request.POST.dict(), cast("User", request.user), read_period(request).now)
    try:
        done = changes.CHANGES[action](asked)
    except RefusedError as error:
        return _page(request, action=action, errors=error.errors, sent=request.POST, status=422)
    if done.secret:
        return _page(request, action=action, done=done)
    messages.success(request, done.text)
    return redirect(
        f"{reverse('settings')}#{SECTIONS.get(action.partition('-')[0], 'organisation')}"
    )


def _page(
    request: HttpRequest,
    *,
    action: str = "",
    errors: Mapping[str, str] | None = None,
    sent: Mapping[str, str] | None = None,
    done: Done | None = None,
    status: int = 200,
) -> HttpResponse:
    period = read_period(request)
    channels = notify.channels()
    agent_tokens = ingest.agent_tokens()
    installs = done is not None and done.secret_kind in ("agent", "enrollment")
    gpu_models, priced_models = book.priced_models()
    context: dict[str, Any] = {
        "is_admin": can_administer(request.user),
        "action": _form(action, sent or {}),
        "errors": errors or {},
        "sent": sent or {},
        "done": done,
        "install_command": install_command(done.secret) if done is not None and installs else "",
        "organisation": organisation(),
        "rates": [(Subject.of_rate(rate).name, rate) for rate in book.rates()[:MAX_RATES]],
        "rates_left_off": max(0, Rate.objects.count() - MAX_RATES),
        "gpu_models": gpu_models,
        "priced_models": priced_models,
        "pools": book.pools()[:MAX_CHOICES],
        "nodes": Node.objects.order_by("name")[:MAX_CHOICES],
        "commitments": commitments(),
        "exchange_rates": ExchangeRate.objects.order_by("currency", "-valid_from")[:MAX_RATES],
        "regions": book.regions(),
        "sites": Region.objects.order_by("name", "-valid_from")[:MAX_RATES],
        "classes": PRICING_CLASSES,
        "transports": notify.transports(),
        "channels": channels,
        "edited": _edited(
            channels,
            (sent or {}).get("id", "") if action == "channel-edit" else request.GET.get("edit", ""),
        ),
        "deliveries": notify.deliveries(10),
        "rules": rules(),
        "closed_months": closed_months(),
        "free_capacity": statement_choices.free_capacity(),
        "free_ways": FREE_WAYS.items(),
        "agent_tokens": agent_tokens,
        "elastic_rules": silence.elastic_rules(),
        "elastic_kinds": silence.RULE_KINDS,
        "enrollment_tokens": ingest.enrollment_tokens(period.now),
        "enrollments": ingest.newest_enrollments(agent_tokens, MAX_ENROLLMENTS),
        "api_tokens": ApiToken.objects.select_related("user")
        .filter(revoked_at=None)
        .order_by("-created_at"),
    }
    return render(
        request, "dashboard/settings.html", period.context("settings", **context), status=status
    )


def _form(action: str, sent: Mapping[str, str]) -> str:
    """The name of the form that was sent, as the template has it: "rate", "channel-slack",
    "rule-3".
    """
    return f"{action}-{sent.get(REPEATED[action], '')}" if action in REPEATED else action


@dataclass(frozen=True, slots=True)
class Edited:
    """A channel whose form is open: the fields of its kind and their values, secrets left out."""

    channel: Channel
    way: Transport
    values: Mapping[str, str]


def _edited(channels: list[notify.ChannelStatus], wanted: str) -> Edited | None:
    channel = next((each.channel for each in channels if str(each.channel.pk) == wanted), None)
    way = next(
        (way for way in notify.transports() if channel is not None and way.kind == channel.kind),
        None,
    )
    if channel is None or way is None:
        return None
    return Edited(channel, way, notify.form_values(channel))
