"""What /metrics tells of what asks for people: incidents, findings, budgets, channels. Of each set
that is known every member is there, at 0 too: a series that vanishes is no alert.
"""

import platform
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, Q, Value, When

from fleetwatch.alerts.models import Incident, Rule
from fleetwatch.budgets import selectors as budgets
from fleetwatch.budgets.selectors import BudgetLine
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.models import Finding
from fleetwatch.ingest import agent_package
from fleetwatch.notify.models import Channel

MAX_RULES = 200  # as series: people name rules, teams and channels
MAX_TEAMS = 200
MAX_CHANNELS = 100
OPEN = (Incident.State.PENDING, Incident.State.FIRING, Incident.State.ACKNOWLEDGED)
OF_RULE = {state: Count("incidents", filter=Q(incidents__state=state)) for state in OPEN}
SNOOZED = Finding.Status.SNOOZED
REOPENED = Value(Finding.Status.OPEN.value)

Metric = tuple[Any, ...]  # its name, what it is, its labels, then its samples


def incidents(now: datetime) -> Iterator[Metric]:
    rules: Any = Rule.objects.order_by("pk").values("name", "severity").annotate(**OF_RULE)
    yield (
        "incidents",
        "Incidents that are not over.",
        "rule",
        "severity",
        "state",
        [
            (rule["name"], rule["severity"], state, rule[state])
            for rule in rules[:MAX_RULES]
            for state in OPEN
        ],
    )


def findings(now: datetime) -> Iterator[Metric]:
    # a snooze ends by itself
    is_back = Q(status=SNOOZED, snoozed_until__lte=now)
    status = Case(When(is_back, then=REOPENED), default="status")
    rows = Finding.objects.annotate(status_now=status).values("cause", "status_now")
    counts = {
        (row["cause"], row["status_now"]): row["findings"]
        for row in rows.annotate(findings=Count("pk")).order_by()
    }
    yield (
        "findings",
        "Findings by what people decided of them.",
        "cause",
        "status",
        [
            (cause, status, counts.get((cause, status), 0))
            for cause in BY_CODE
            for status in Finding.Status.values
        ],
    )


def spent_budgets(now: datetime) -> Iterator[Metric]:
    """Of the fleet and of each team that has a budget; without one there is no ratio."""
    lines = [line for line in budgets.lines(now) if line.budget_usd][:MAX_TEAMS]
    labels = ("scope", "team")
    yield (
        "budget_spent_ratio",
        "Dollars of the running month so far, divided by its budget.",
        *labels,
        [(*_whose(line), float(line.share)) for line in lines if line.share is not None],
    )
    yield (
        "budget_forecast_ratio",
        "Dollars expected by the month's end, divided by its budget; absent without a forecast.",
        *labels,
        [(*_whose(line), line.forecast_share) for line in lines if line.forecast_share is not None],
    )


def _whose(line: BudgetLine) -> tuple[str, str]:
    """Of the fleet there is no team."""
    return ("team", line.key) if line.key else ("fleet", "")


def channels(now: datetime) -> Iterator[Metric]:
    rows = Channel.objects.order_by("pk").values_list("name", "kind", "is_enabled")
    yield (
        "channel_up",
        "1 for each channel that is on, 0 where an error that no retry heals switched it off.",
        "channel",
        "kind",
        [(name, kind, int(is_enabled)) for name, kind, is_enabled in rows[:MAX_CHANNELS]],
    )


def build(now: datetime) -> Iterator[Metric]:
    version = agent_package.version()  # the hub's too: they are released together
    yield (
        "build_info",
        "1; of which version this hub is.",
        "version",
        "pythonversion",
        [(version, platform.python_version(), 1)],
    )
