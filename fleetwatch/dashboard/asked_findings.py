"""Which findings an address asks for: of the inbox, and of what leads on from one of them."""

from collections.abc import Mapping
from dataclasses import fields, replace

from django.http import HttpRequest

from fleetwatch.accounts.colleagues import reachable
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.parameters import OF_FINDINGS, SUBJECTS, filtered, scope_of
from fleetwatch.dashboard.period import Period
from fleetwatch.diagnosis.causes import BY_CODE, UNFIT
from fleetwatch.diagnosis.findings import deciding, inbox
from fleetwatch.diagnosis.findings.inbox import AGREED, Inbox, Which
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT
from fleetwatch.figures.totals import Scope
from fleetwatch.jobs.models import Job

STATUSES = {
    "open": "Open",
    "accepted": "Accepted",
    "snoozed": "Snoozed",
    "fixed": "Fixed",
    "dismissed": "Agreed as not waste",
    "all": "All",
}
# by the tab how those stand that are in it, where that is not its own name
STANDING = {"dismissed": AGREED}
WASTED_STATES = ("idle", "stalled", "underused", "orphaned")


def asked_status(request: HttpRequest) -> str:
    """The tab that the address asks for: what is exempt is in that of all that is agreed."""
    if request.GET.get("status") == EXEMPT:
        return "dismissed"
    return chosen(request, "status", STATUSES, default="open")


def of_tab(every: Inbox, status: str) -> Inbox:
    """Those of these that stand so, or that are in that tab."""
    return every if status == "all" else every.of_status(*STANDING.get(status, (status,)))


def tab_counts(every: Inbox) -> dict[str, int]:
    """How many are in each tab."""
    counts = every.counts()
    return {tab: sum(counts[each] for each in STANDING.get(tab, (tab,))) for tab in STATUSES}


def asked_findings(request: HttpRequest, period: Period) -> tuple[Inbox, dict[str, str]]:
    """Those with time in the period, of any status, and what they are narrowed to by name."""
    asked = _asked(request)
    _, filters = filtered(request)
    filters |= {name: asked[name] for name in OF_FINDINGS if asked[name]}
    which = Which(**{field.name: asked[field.name] or None for field in fields(Which)})
    scope = scope_of_findings(filters)
    return inbox.inbox(period.interval, now=period.now, scope=scope, which=which), filters


def scope_of_findings(filters: Mapping[str, str]) -> Scope:
    """Of these filters what figures are narrowed to: what a job is, and the state, are asked of
    findings, for those of places have some of it too.
    """
    named = {name: value for name, value in filters.items() if name in SUBJECTS}
    scope = scope_of(named)
    job = filters.get("job") or None
    return replace(scope, job=job, states=None, shown=None, kind=None, cluster=None)


def _asked(request: HttpRequest) -> dict[str, str]:
    """What the address narrows the list to, by name; "" = not narrowed."""
    people = [person.username for person in reachable(deciding.candidates())]
    return {
        "cause": chosen(request, "cause", (*BY_CODE, *UNFIT)),
        "kind": chosen(request, "kind", Job.Kind.values),
        "state": chosen(request, "state", WASTED_STATES),
        "team": chosen(request, "team", [team.slug for team in visible_teams()]),
        "assignee": chosen(request, "assignee", people),
        **{name: request.GET.get(name, "") for name in ("job", "job_name", "cluster", "user")},
    }
