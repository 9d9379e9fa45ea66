"""Findings by pattern as lists show them, and the findings before and after one of a list."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from fleetwatch.accounts.models import User
from fleetwatch.dashboard import finding_rows, pages
from fleetwatch.dashboard.asked_findings import asked_findings
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.finding_rows import Row
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis.findings import patterns
from fleetwatch.diagnosis.findings.inbox import UNDECIDED, Inbox
from fleetwatch.diagnosis.findings.patterns import Pattern, Patterns
from fleetwatch.diagnosis.models import Finding
from fleetwatch.lib import timeframes

PAGE_SIZE = 25
PATTERN = "pattern"
GROUPINGS = (PATTERN, "finding")
WHEN = {
    "": ("All", "in any state"),
    patterns.NOW: ("Wasting now", "seen in the last 30 minutes, in a job that has not ended"),
    patterns.HABIT: ("Recurring", "in several runs, or in a job that has not ended; not right now"),
    patterns.ONCE: ("One-off", "in one job, which has ended"),
}


@dataclass(frozen=True, slots=True)
class PatternRow:
    """A pattern with its words, and its waste over the period as shares of its dearest step."""

    row: Row
    pattern: Pattern
    spark: list[float]


def lines(request: HttpRequest, shown: Inbox, period: Period) -> Context:
    """A page of patterns, and how many there are of each kind."""
    every = patterns.patterns(shown.of_jobs, period.so_far, now=period.now)
    when = chosen(request, "when", WHEN)
    of_kind_asked = every.of(when) if when else every
    wanted, pager = pages.page_of(of_kind_asked, after=request.GET.get("after", ""), size=PAGE_SIZE)
    return {
        **rows_of(of_kind_asked, wanted, request.user, period.now),
        "pager": pager,
        "when": when,
        "whens": [
            (key, label, title, sum(every.counts().values()) if not key else every.counts()[key])
            for key, (label, title) in WHEN.items()
        ],
    }


def rows_of(every: Patterns, wanted: slice, reader: User | AnonymousUser, now: datetime) -> Context:
    """The wanted patterns with their words, and which of their findings the reader decides
    about.
    """
    several = every[wanted]
    context = finding_rows.context([each.line for each in several], reader, now)
    drawn = patterns.sparks(every, wanted) if several else []
    rows = zip(context["lines"], several, drawn, strict=True)
    return {
        "patterns": [PatternRow(*each) for each in rows],
        "decidable": context["decidable"],
    }


def around(request: HttpRequest, finding: Finding, period: Period) -> Context:
    """The undecided finding of a job before and after this one in the order of the inbox, as it is
    narrowed there; without a period in the address there is none, as from a message.
    """
    is_from_list = not request.GET.keys().isdisjoint(timeframes.NAMES)
    if not is_from_list or finding.job_id is None:
        return {}
    every, _ = asked_findings(request, period)
    ids = every.of_status(*UNDECIDED).of_jobs.pk.tolist()
    if finding.pk not in ids:
        return {}
    place = ids.index(finding.pk)
    return {
        "place": place + 1,
        "of_places": len(ids),
        "previous_finding": ids[place - 1] if place else None,
        "next_finding": ids[place + 1] if place + 1 < len(ids) else None,
    }
