"""Settings: everybody reads them; who changes a section, says its right."""

from datetime import datetime
from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from fleetwatch.accounts.models import ApiToken, User
from fleetwatch.accounts.permissions import Right, check
from fleetwatch.accounts.selectors import organisation
from fleetwatch.costs.models import PRICING_CLASSES, ExchangeRate, Rate, Region
from fleetwatch.costs.rates import book
from fleetwatch.costs.rates.subjects import subject_name
from fleetwatch.costs.spreading import EVEN, OWN_LINE, PROPORTIONAL
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.forms import api_tokens, changes, prices
from fleetwatch.dashboard.forms.asked import Done, read_form
from fleetwatch.dashboard.install import install_command
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import read_period
from fleetwatch.dashboard.showing import Context, existing, page
from fleetwatch.finance.commitments import commitments
from fleetwatch.ingest import selectors as ingest
from fleetwatch.inventory import silence
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.selectors import closed_months
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.notify import selectors as notify
from fleetwatch.notify.transports.base import ConfigError
from fleetwatch.reports import statement_choices

MAX_RATES = 200  # shown; the API gives them all
MAX_ENROLLMENTS = 20  # the newest; each node's own stands at its token
MAX_CHOICES = 200  # offered in a list; others are named
# forms that stand on the page several times: by which field of what was sent they are told apart
REPEATED = {
    "channel": "kind",
    "channel-edit": "id",
    "commitment-end": "id",
    "agent-token-rights": "id",
}
# form -> the section it stands in; the organisation's is the rest
SECTIONS = {
    "access": "access",
    "rate": "rates",
    "exchange": "rates",
    "commitment": "rates",
    "region": "rates",
    "channel": "channels",
    "agent": "agents",
    "enrollment": "agents",
    "elastic": "agents",
    "api": "api",
    "month": "months",
    "free": "statements",
}
RIGHTS = {
    "rates": Right.MONEY,
    "months": Right.MONEY,
    "statements": Right.MONEY,
    "agents": Right.FLEET,
    "channels": Right.FLEET,
    "api": Right.PEOPLE,
    "organisation": Right.PEOPLE,
    "access": Right.PEOPLE,
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
    return _page(request, edited=request.GET.get("edit", ""))


@require_POST
@login_required
@never_cache
def change(request: HttpRequest, action: str) -> HttpResponse:
    """One change. A made secret is in this answer and nowhere else; anything else redirects."""
    make = existing(changes.CHANGES.get(action))
    section = SECTIONS.get(action.partition("-")[0], "organisation")
    check(request.user, RIGHTS[section])
    asked = read_form(request)
    try:
        done = make(asked)
    except (ConfigError, RefusedFieldError) as error:
        return _refused(request, action, _errors(action, error))
    if done.secret:
        return _made(request, action, done)
    messages.success(request, done.text)
    return redirect(f"{reverse('settings')}#{section}")


def _made(request: HttpRequest, action: str, done: Done) -> HttpResponse:
    """The settings with the secret that was made."""
    is_agents = done.secret_kind in ("agent", "enrollment")
    command = install_command(done.secret) if is_agents else ""
    outcome = {"action": action, "done": done, "install_command": command}
    return _page(request, edited=request.GET.get("edit", ""), outcome=outcome)


def _errors(action: str, error: ConfigError | RefusedFieldError) -> dict[str, str]:
    """What is wrong, by the form's own fields."""
    if isinstance(error, ConfigError):
        return error.errors
    names = prices.RATE_FIELDS if action == "rate" else prices.FIELDS
    return {names.get(error.field, error.field): str(error)}


def _refused(request: HttpRequest, action: str, errors: dict[str, str]) -> HttpResponse:
    """The settings with the form as it was sent, and what is wrong with it."""
    sent = request.POST
    form = f"{action}-{sent.get(REPEATED[action], '')}" if action in REPEATED else action
    edited = sent.get("id", "") if action == "channel-edit" else request.GET.get("edit", "")
    outcome = {"action": form, "errors": errors, "sent": sent}
    return _page(request, edited=edited, outcome=outcome)


def _page(request: HttpRequest, *, edited: str, outcome: Context | None = None) -> HttpResponse:
    """The settings with the form of a channel open, and what came of the form that was sent."""
    period = read_period(request)
    context: Context = {
        "action": "",
        "errors": {},
        "sent": {},
        "organisation": organisation(),
        "closed_months": closed_months(),
        "free_capacity": statement_choices.free_capacity(),
        "free_ways": FREE_WAYS.items(),
        **_money(),
        **_channels(edited),
        **_tokens(period.now),
        **api_tokens.choices(cast("User", request.user)),
        **(outcome or {}),
    }
    return page(request, period, "dashboard/settings.html", "settings", context)


def _money() -> Context:
    """Rates with what they can be for, commitments, regions."""
    gpu_models, priced_models = book.priced_models()
    return {
        "rates": [(subject_name(rate), rate) for rate in book.rates()[:MAX_RATES]],
        "rates_left_off": max(0, Rate.objects.count() - MAX_RATES),
        "gpu_models": gpu_models,
        "priced_models": priced_models,
        "pools": book.places("pool")[:MAX_CHOICES],
        "nodes": Node.objects.order_by("name")[:MAX_CHOICES],
        "commitments": commitments(),
        "exchange_rates": ExchangeRate.objects.order_by("currency", "-valid_from")[:MAX_RATES],
        "regions": book.places("region"),
        "sites": Region.objects.order_by("name", "-valid_from")[:MAX_RATES],
        "classes": [(each, each.replace("_", " ")) for each in PRICING_CLASSES],
    }


def _tokens(now: datetime) -> Context:
    """How nodes and programs come in, and which nodes may leave."""
    agent_tokens = ingest.agent_tokens()
    api_tokens = ApiToken.objects.select_related("user").filter(revoked_at=None)
    return {
        "agent_tokens": agent_tokens,
        "elastic_rules": silence.elastic_rules(),
        "elastic_kinds": [(kind, kind) for kind in silence.RULE_KINDS],
        "enrollment_tokens": ingest.enrollment_tokens(now),
        "enrollments": ingest.newest_enrollments(agent_tokens, MAX_ENROLLMENTS),
        "api_tokens": api_tokens.order_by("-created_at"),
    }


def _channels(edited: str) -> Context:
    """The channels, and the open form of one: the fields of its kind, their values but secrets."""
    channels = notify.channels()
    edits = [status for status in channels if str(status.channel.pk) == edited]
    return {
        "transports": notify.transports(),
        "channels": channels,
        "deliveries": notify.deliveries(10),
        "edited": edits[0] if edits else None,
    }
