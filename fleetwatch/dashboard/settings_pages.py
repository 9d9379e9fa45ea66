"""The pages of settings: where each lies, whose its forms are, and what it shows.

Everybody reads them; who changes one, says its right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from django.conf import settings
from django.http import HttpRequest

from fleetwatch.accounts.models import ApiToken, User
from fleetwatch.accounts.permissions import Right, may
from fleetwatch.accounts.selectors import organisation, zone
from fleetwatch.costs.models import PRICING_CLASSES, ExchangeRate, Region
from fleetwatch.costs.rates import book, rate_card
from fleetwatch.costs.spreading import EVEN, OWN_LINE, PROPORTIONAL
from fleetwatch.dashboard import install, policy_pages
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.closing_checks import closing_checks
from fleetwatch.dashboard.commitment_rates import CommitmentRow, commitment_rows
from fleetwatch.dashboard.forms import api_tokens
from fleetwatch.dashboard.pages import Pager
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.stored_data import kept_data, retention_days, whole
from fleetwatch.figures import selectors
from fleetwatch.finance.reconciliation import Reconciliation, reconciliation
from fleetwatch.ingest import selectors as ingest
from fleetwatch.inventory import silence
from fleetwatch.inventory.models import Node
from fleetwatch.jobs.address_templates import EXAMPLES, PLACEHOLDERS
from fleetwatch.jobs.job_links import job_links
from fleetwatch.ledger.months import closing
from fleetwatch.ledger.selectors import closed_months
from fleetwatch.notify import selectors as notify
from fleetwatch.operations.disk import space
from fleetwatch.reports import months, statement_choices

MAX_ROWS = 200  # shown of a list; the API gives them all
MAX_ENROLLMENTS = 20  # the newest; each node's own stands at its token
MAX_CHOICES = 200  # offered in a list; others are named
MAX_DELIVERIES = 10
MAX_DIGITS = 18  # of an id
# what messages are about, in words, and how their keys begin
ABOUT = {
    "incidents": ("Incidents", ("group/", "kept/")),
    "digests": ("Digests", ("digest/",)),
    "statements": ("Statements", ("statement/",)),
}
PRICE_IS_OLD = timedelta(days=365)  # list prices move by more than a few per cent in a year
CHANNEL_PARAMETERS = ("edit", "about", "after")
FREE_WAYS = {
    OWN_LINE: "a separate line",
    PROPORTIONAL: "spread by cost",
    EVEN: "spread evenly",
}


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """A page of settings: its name in the address, who changes what is on it, and what it shows at
    a moment; `actions` are its forms, each by the first word of its name.
    """

    name: str
    right: Right
    actions: tuple[str, ...]
    content: Callable[[HttpRequest, datetime], Context]
    parameters: tuple[str, ...] = ()
    rail: str = "settings"  # what is marked there

    @property
    def template(self) -> str:
        return f"dashboard/settings_{self.name}.html"


def _general(_: HttpRequest, __: datetime) -> Context:
    """Whether people log in by a provider, which calls itself so, and by a directory."""
    return {
        "single_sign_on": settings.OIDC_NAME if settings.OIDC_ISSUER else "",
        "has_directory": settings.DIRECTORY is not None,
    }


def _pricing(_: HttpRequest, now: datetime) -> Context:
    """What rates are in force, were and will be, commitments, currencies, regions."""
    gpu_models, priced_models = book.priced_models()
    card = rate_card.rate_card(now, most=MAX_ROWS)
    committed = commitment_rows(card, now)
    invoice_month = months.last_begun(now, zone())
    return {
        "card": card,
        "old_before": now.astimezone(zone()).date() - PRICE_IS_OLD,
        "invoice_month": invoice_month,
        "invoice": _invoice_beside(committed, invoice_month, now),
        "gpu_models": gpu_models,
        "priced_models": priced_models,
        "pools": book.places("pool")[:MAX_CHOICES],
        "nodes": Node.objects.order_by("name")[:MAX_CHOICES],
        "commitments": committed,
        "exchange_rates": ExchangeRate.objects.order_by("currency", "-valid_from")[:MAX_ROWS],
        "regions": book.places("region"),
        "sites": Region.objects.order_by("name", "-valid_from")[:MAX_ROWS],
        "classes": [(each, each.replace("_", " ")) for each in PRICING_CLASSES],
    }


def _invoice_beside(
    committed: Sequence[CommitmentRow], month: str, now: datetime
) -> Reconciliation | None:
    """The month's invoice beside its ledger, where a commitment misses GPUs."""
    is_missing = any(row.missing for row in committed)
    return reconciliation(month, now=now) if is_missing else None


def _agents(request: HttpRequest, now: datetime) -> Context:
    """How nodes come in, whose tokens are shown to operators alone, and which may leave."""
    return {
        "elastic_rules": silence.elastic_rules(),
        "elastic_kinds": [(kind, kind) for kind in silence.RULE_KINDS],
        **(_agent_tokens(now) if may(request.user, Right.FLEET) else {}),
    }


def _agent_tokens(now: datetime) -> Context:
    agent_tokens = ingest.agent_tokens()
    return {
        "agent_tokens": agent_tokens,
        "uses": install.USES,
        "valid_days": install.VALID_FOR.days,
        "enrollment_tokens": ingest.enrollment_tokens(now),
        "enrollments": ingest.newest_enrollments(agent_tokens, MAX_ENROLLMENTS),
    }


def _channels(request: HttpRequest, _: datetime) -> Context:
    """The channels, and the open form of one: the fields of its kind, their values but secrets;
    what was sent, which may be one person's, to operators alone.
    """
    channels = notify.channels()
    edited = request.POST.get("id", "") or chosen(
        request, "edit", [str(each.channel.pk) for each in channels]
    )
    edits = [status for status in channels if str(status.channel.pk) == edited]
    return {
        "transports": notify.transports(),
        "channels": channels,
        "sends_nothing": not any(each.sends for each in channels),
        "edited": edits[0] if edits else None,
        **(_messages(request) if may(request.user, Right.FLEET) else {}),
    }


def _messages(request: HttpRequest) -> Context:
    """A page of what was sent, the newest first, of all or of one kind; `after` is an id."""
    about = chosen(request, "about", ABOUT)
    before = _cursor(request)
    if before is None:
        first_page(request)
    keys = ABOUT[about][1] if about else ()
    rows = notify.deliveries(MAX_DELIVERIES + 1, before=before, keys=keys)
    shown = rows[:MAX_DELIVERIES]
    more = str(shown[-1].pk) if len(rows) > len(shown) else ""
    return {
        "deliveries": shown,
        "about": about,
        "abouts": [("", "All"), *((key, label) for key, (label, _) in ABOUT.items())],
        "lists_messages": bool(shown or about or before),
        "pager": Pager(more, len(shown), before is None),
    }


def _cursor(request: HttpRequest) -> int | None:
    """The id after which a page begins; None for the first page, and for what is no id."""
    asked = request.GET.get("after", "")
    is_id = asked.isascii() and asked.isdigit() and len(asked) < MAX_DIGITS
    return int(asked) if is_id else None


def _tokens(request: HttpRequest, _: datetime) -> Context:
    """How programs come in: by the reader's own tokens, for an admin by everybody's."""
    tokens = ApiToken.objects.select_related("user").filter(revoked_at=None)
    user = cast("User", request.user)
    if not may(user, Right.PEOPLE):
        tokens = tokens.filter(user=user)
    return {"api_tokens": tokens.order_by("-created_at"), **api_tokens.choices(user)}


def _months(_: HttpRequest, now: datetime) -> Context:
    """What is closed for good, what can be, and how statements are made."""
    following = closing.next_month()
    is_closable = following is not None and following.closable_from <= now
    return {
        "following": following,
        "checks": closing_checks(following, now) if following else [],
        "closable_usd": (
            selectors.totals(following.interval).cost_usd if following and is_closable else None
        ),
        "closed_months": closed_months(),
        "free_capacity": statement_choices.free_capacity(),
        "free_ways": FREE_WAYS.items(),
    }


def _links(_: HttpRequest, __: datetime) -> Context:
    """Ways from a job's page to its logs and its experiment."""
    return {
        "links": job_links(),
        "examples": EXAMPLES.items(),
        "placeholders": PLACEHOLDERS.items(),
    }


def _retention(_: HttpRequest, now: datetime) -> Context:
    """How long what is kept, what of it is there, and what that comes to."""
    kept = kept_data(retention_days(), now)
    return {
        "kept": kept,
        "whole": whole(kept.values()),
        "space": space(),
        "hot_hours": settings.HOT_RETENTION_HOURS,
        "raw_days": settings.RAW_RETENTION_DAYS,
        "matrix_days": settings.MATRIX_RETENTION_DAYS,
        "ledger_days": settings.LEDGER_RETENTION_DAYS,
    }


PAGES = {
    page.name: page
    for page in (
        SettingsPage("general", Right.PEOPLE, ("organisation", "access"), _general),
        SettingsPage(
            "pricing",
            Right.MONEY,
            ("rate", "exchange", "commitment", "region"),
            _pricing,
            rail="pricing",
        ),
        SettingsPage("agents", Right.FLEET, ("agent", "enrollment", "elastic"), _agents),
        SettingsPage(
            "channels", Right.FLEET, ("channel",), _channels, parameters=CHANNEL_PARAMETERS
        ),
        SettingsPage("tokens", Right.PEOPLE, ("api",), _tokens),
        SettingsPage("months", Right.MONEY, ("month", "free"), _months),
        SettingsPage(
            "policy",
            Right.PEOPLE,
            ("policy",),
            policy_pages.content,
            parameters=policy_pages.PARAMETERS,
        ),
        SettingsPage("links", Right.FLEET, ("link",), _links),
        SettingsPage("retention", Right.FLEET, (), _retention),
    )
}
OF_ACTIONS = {action: page for page in PAGES.values() for action in page.actions}


def shared(now: datetime) -> Context:
    """What every page of settings shows: no form was sent, whose hub it is."""
    return {"action": "", "errors": {}, "sent": {}, "organisation": organisation(), "now": now}


def page_of(action: str) -> SettingsPage:
    """The page of a form, by the form's name."""
    return OF_ACTIONS[action.partition("-")[0]]
