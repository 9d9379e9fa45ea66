"""The inbox of incidents."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from django.db.models import QuerySet
from django.http import HttpRequest

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.visibility import sight, visible_teams
from fleetwatch.alerts.incidents import incident_inbox as inbox
from fleetwatch.alerts.incidents.incident_actions import actable
from fleetwatch.alerts.incidents.incident_rows import IncidentRow, by_usd_per_hour, incident_rows
from fleetwatch.alerts.models import Incident, Rule, Severity
from fleetwatch.alerts.selectors import IncidentView, visible_incidents, with_decisions
from fleetwatch.dashboard.choices import chosen, first_page
from fleetwatch.dashboard.incident_pages import next_steps
from fleetwatch.dashboard.pages import Pager
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.dashboard.words import INCIDENT_STATES

PAGE_SIZE = 25
MAX_CHOICES = 200
MAX_NAME = 200
LOOKS_BACK = timedelta(days=7)
ACTED_ON = ("firing", "acknowledged", "snoozed", "accepted")
DECIDED = ("acknowledged", "snoozed", "accepted", "resolved")
SORTS = {
    "critical": "critical first",
    "burning": "burning",
    "dearest": "dollars",
    "newest": "newest",
    "hourly": "$ per hour",
}
# of what is over nothing burns any more: the same order is by dollars
OVER_SORTS = {"burning": "dollars", "newest": "newest", "hourly": "$ per hour while open"}
CARRIED = ("team", "user")  # to other pages
PARAMETERS = ("state", "team", "user", "rule", "severity", "mine", "sort", "after")


@shows("dashboard/alerts.html", "alerts", *PARAMETERS)
def alerts(request: HttpRequest, period: Period) -> Context:
    state = chosen(request, "state", INCIDENT_STATES, default="firing")
    choices = _choices(request, state, period.now)
    asked = _asked(request, choices)
    sort = _sort(request, state)
    rows = inbox.narrowed_to(_wanted(request, asked))
    return {
        **_sums(rows, period.now),
        "asked": asked,
        "filters": {name: asked[name] for name in CARRIED if asked[name]},
        "is_narrowed": any(asked.values()),
        "sort": sort,
        "sorts": (OVER_SORTS if state == "resolved" else SORTS).items(),
        **choices,
        "state": state,
        **_lines(request, rows, period, state, sort),
    }


def _sort(request: HttpRequest, state: str) -> str:
    """How the list is sorted: of what is over nothing is critical."""
    sort = chosen(request, "sort", SORTS, default="critical")
    return "burning" if state == "resolved" and sort not in OVER_SORTS else sort


def _sums(rows: QuerySet[Incident], now: datetime) -> Context:
    """How many are in each state, of what goes on, and of what was resolved lately."""
    counts = inbox.counts(rows, now)
    over = inbox.over_sums(rows, now - LOOKS_BACK)
    agreed = counts["accepted"] + over.accepted  # its tab lists those that are over too
    by_state = {**counts, "accepted": agreed, "resolved": over.count}
    return {
        "tabs": [(state, label, by_state[state]) for state, label in INCIDENT_STATES.items()],
        "open_count": sum(counts.values()),
        "sums": inbox.open_sums(rows, now),
        "over": over,
    }


def _choices(request: HttpRequest, state: str, now: datetime) -> Context:
    """What the list can be narrowed to: people are the owners of what is in that state, and whom
    the address names, who may own nothing in it; rules, to who does not see everything, are those
    of the incidents that he sees.
    """
    owners = inbox.owners(visible_incidents().filter(inbox.in_state(state, now)))
    asked = request.GET.get("user", "")[:MAX_NAME]
    return {
        "teams": list(visible_teams())[:MAX_CHOICES],
        "people": sorted({*owners[:MAX_CHOICES], asked} - {""}),
        "rules": list(_visible_rules()[:MAX_CHOICES]),
        "severities": Severity.choices,
    }


def _visible_rules() -> QuerySet[Rule]:
    """By name."""
    rules = Rule.objects.order_by("name")
    if sight() is None:
        return rules
    return rules.filter(pk__in=visible_incidents().values("rule_id"))


def _asked(request: HttpRequest, choices: Context) -> dict[str, str]:
    """What the address narrows the list to, by name; "" = not narrowed."""
    teams: Sequence[Team] = choices["teams"]
    rules: Sequence[Rule] = choices["rules"]
    return {
        "team": chosen(request, "team", [team.slug for team in teams]),
        "user": request.GET.get("user", "")[:MAX_NAME],
        "rule": chosen(request, "rule", [str(rule.pk) for rule in rules]),
        "severity": chosen(request, "severity", Severity.values),
        "mine": chosen(request, "mine", ("1",)),
    }


def _wanted(request: HttpRequest, asked: dict[str, str]) -> inbox.Wanted:
    mine = cast("User", request.user) if asked["mine"] else None
    return inbox.Wanted(asked["team"], asked["user"], asked["rule"], asked["severity"], mine)


def _lines(
    request: HttpRequest, rows: QuerySet[Incident], period: Period, state: str, sort: str
) -> Context:
    """A page of those in that state."""
    after = request.GET.get("after", "")
    if inbox.read_cursor(after) is None:
        first_page(request)
    shown = inbox.page_of_incidents(
        rows.filter(inbox.in_state(state, period.now)),
        sort=sort,
        after=after,
        size=PAGE_SIZE,
    )
    is_first = inbox.read_cursor(after) is None
    counted = [line.counted_to(period.now) for line in shown.lines]
    lines = with_decisions(counted) if state in DECIDED else counted
    return {
        "lines": lines,
        "rows": _rows(lines, sort),
        "steps": next_steps(lines, period.now),
        "actable": _actable(request, lines, period.now) if state in ACTED_ON else set(),
        "pager": Pager(shown.after, len(shown.lines), is_first),
    }


def _rows(lines: Sequence[IncidentView], sort: str) -> list[IncidentRow]:
    rows = incident_rows(lines)
    return by_usd_per_hour(rows) if sort == "hourly" else rows


def _actable(request: HttpRequest, lines: Sequence[IncidentView], now: datetime) -> set[int]:
    """The ids of those that go on and that the reader may act on."""
    going_on = [each.incident for each in lines if each.incident.resolved_at is None]
    return actable(cast("User", request.user), going_on, now=now)
