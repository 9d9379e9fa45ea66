"""Who did what, when and from where. Rows are only added; the database refuses everything else.

Each service that changes what people rely on records it in its own transaction: what was not done
is not in the log, and what is done is.
"""

from collections.abc import Collection
from datetime import UTC
from functools import partial
from typing import Any

import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from fleetwatch.accounts.models import AuditEntry
from fleetwatch.lib.actor import actor
from fleetwatch.lib.intervals import Interval

MAX_NAME = 200
MAX_SUBJECT = 500
# what an action begins with -> what such actions are about
KINDS = {
    "login": "Log-ins",
    "person": "People",
    "name": "Names in other systems",
    "token": "API tokens",
    "organisation": "Organisation",
    "access": "What others may see",
    "agent": "Agents and nodes",
    "channel": "Channels",
    "rule": "Rules",
    "incident": "Incidents",
    "silence": "Silences and what is agreed as not waste",
    "action": "Actions by themselves",
    "route": "Routes",
    "preference": "How people hear of things",
    "policy": "Policies",
    "mapping": "Teams and mapping",
    "link": "Job links",
    "rate": "Rates",
    "commitment": "Commitments",
    "budget": "Budgets",
    "report": "Reports and invoices",
    "month": "Months",
    "finding": "Findings",
    "view": "Saved views",
    "export": "Exports",
    "demo": "The demo",
}
ROUTINE = ("login.enter", "login.leave")  # of which a busy day has hundreds
COLUMNS = ("id", "at", "who", "via", "address", "action", "subject", "detail")

log = structlog.get_logger(__name__)

Fact = str | int | float | bool | None | list[str]


def record(action: str, subject: str = "", **detail: Fact) -> None:
    """Adds an entry of the one who acts now.

    `action` is `kind.verb`, such as rate.set; `subject` what it was done to, in words; the detail
    holds facts, and no secret; of a token's doing also how the token begins. It is logged once it
    is true: a dry run is taken back.
    """
    who = actor()
    if who.token:
        detail["token"] = who.token
    transaction.on_commit(partial(log.info, action, by=who.name, subject=subject, **detail))
    AuditEntry.objects.create(
        at=who.at or timezone.now(),
        user_id=who.user_id,
        name=who.name[:MAX_NAME],
        via=who.via,
        address=who.address,
        action=action,
        subject=subject[:MAX_SUBJECT],
        detail=detail,
    )


def entries(
    interval: Interval, *, name: str = "", kind: str = "", leaving_out: Collection[str] = ()
) -> QuerySet[AuditEntry]:
    """What was done in the interval, the newest first; "" is by anybody, of any kind; actions that
    are `leaving_out` are not in it.
    """
    rows = AuditEntry.objects.filter(at__gte=interval.start, at__lt=interval.end)
    if name:
        rows = rows.filter(name=name)
    if kind:
        rows = rows.filter(action__startswith=f"{kind}.")
    if leaving_out:
        rows = rows.exclude(action__in=leaving_out)
    return rows.order_by("-at", "-pk")


def newest_entry(action: str) -> AuditEntry | None:
    """When that was done last; None = never."""
    return AuditEntry.objects.filter(action=action).order_by("-at", "-pk").first()


def as_row(entry: AuditEntry) -> dict[str, Any]:
    """The entry as files have it, by COLUMNS."""
    at = entry.at.astimezone(UTC).isoformat(timespec="microseconds")
    what = (entry.action, entry.subject, entry.detail)
    return dict(
        zip(COLUMNS, (entry.pk, at, entry.name, entry.via, entry.address, *what), strict=True)
    )
