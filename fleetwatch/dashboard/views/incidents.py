"""One incident: what is wrong, whose it is, what it costs and what to do; what happened so far."""

from decimal import Decimal
from typing import cast

from django.http import HttpRequest
from django.urls import Resolver404, resolve

from fleetwatch.accounts.models import User
from fleetwatch.accounts.visibility import may_open
from fleetwatch.alerts import matchers
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.incident_history import before, sends
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.selectors import timeline, view_of, visible_incidents
from fleetwatch.alerts.services import settings_of
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, existing, shows
from fleetwatch.lib.intervals import HOUR_MS, to_ms

AROUND_MS = 2 * HOUR_MS  # shown of its subject before it began
HOURS_PER_MONTH = 730  # 8760 / 12
MAX_EVENTS = 200
MAX_LABELS = 40


def _incident(pk: int) -> Incident:
    return existing(visible_incidents().filter(pk=pk).first())


@shows("dashboard/incident.html", "alerts", find=_incident)
def incident(request: HttpRequest, period: Period, incident: Incident) -> Context:
    view = view_of(incident)
    breach = view.breach
    return {
        "incident": incident,
        "breach": breach,
        "lasted_ms": view.lasted_ms,
        "who": breach.label("user") or breach.label("team"),
        "subject_url": _subject_url(cast("User", request.user), breach, period),
        "usd_per_month": _month(breach),
        "rule_in_words": condition(incident.rule.condition).in_words(settings_of(incident.rule)),
        "labels": _labels(breach),
        "events": timeline(incident).reverse()[:MAX_EVENTS],
        "sends": sends(incident),
        "before": before(incident, period.now),
    }


def _subject_url(user: User, breach: Breach, period: Period) -> str:
    """The page of what it is about, over the time around it; "" where there is none, or not for
    this reader.
    """
    try:
        match = resolve(breach.path)
    except Resolver404:
        return ""
    if not may_open(user, match):
        return ""
    end_ms = min(breach.until_ms + AROUND_MS, to_ms(period.now))
    return f"{breach.path}?from={breach.since_ms - AROUND_MS}&to={end_ms}"


def _month(breach: Breach) -> Decimal | None:
    """Dollars if it went on for a month; None where an hour's are not known."""
    return None if breach.usd_per_hour is None else breach.usd_per_hour * HOURS_PER_MONTH


def _labels(breach: Breach) -> list[tuple[str, str]]:
    """What scopes, silences and routes can match, by its name for people."""
    return [
        (matchers.MATCHED.get(label, label), ", ".join(values))
        for label, values in list(breach.labels.items())[:MAX_LABELS]
    ]
