"""Findings by pattern as lists show them, and the findings before and after one of a list."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from fleetwatch.accounts.models import User
from fleetwatch.dashboard import finding_rows, pages
from fleetwatch.dashboard.agreed_beside import Beside, one_of_each, pattern_of
from fleetwatch.dashboard.asked_findings import (
    STANDING,
    STATUSES,
    asked_findings,
    asked_status,
    of_tab,
)
from fleetwatch.dashboard.choices import chosen
from fleetwatch.dashboard.finding_rows import Row
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings import noted_facts, patterns
from fleetwatch.diagnosis.findings.inbox import AGREED, RECOVERABLE, Inbox, seen_ids
from fleetwatch.diagnosis.findings.patterns import Pattern, Patterns
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT, Findings
from fleetwatch.diagnosis.models import Finding

PAGE_SIZE = 10  # each is read with what to do: some screens of them
PATTERN = "pattern"
BURNING = "burning"  # what wastes now by the dollars of the last hour
GROUPINGS = (PATTERN, "finding")
# by how findings stand what may be done to several of them at once
OFFERED = {
    "open": ("accept", "snooze", "fixed", "tell", "assign"),
    "all": ("accept", "snooze", "fixed", "tell", "assign", "reopen"),
    "accepted": ("snooze", "fixed", "tell", "assign", "reopen"),
    "snoozed": ("accept", "fixed", "tell", "assign", "reopen"),
    "fixed": ("reopen",),
    "dismissed": ("reopen",),
}
WHEN = {
    "": ("All", "in any state"),
    patterns.NOW: (
        "Wasting now",
        "with something to save in the last 30 minutes, in a job that has not ended; where it was"
        " only underused or waited, as a service does, that is potential and no waste",
    ),
    patterns.HABIT: (
        "Recurring",
        "in several runs, here or in the last two weeks, or in a job that has not ended; not right"
        " now",
    ),
    patterns.ONCE: ("One-off", "in one job, which has ended"),
}
GOES_ON = "Still going on"  # among what is agreed as not waste, or may be


@dataclass(frozen=True, slots=True)
class PatternRow:
    """A pattern with its words, and its waste over the period as shares of its dearest step."""

    row: Row
    pattern: Pattern
    spark: list[float]
    burning: patterns.Burning | None  # None of what goes on: it is potential
    is_elsewhere: bool = False  # it is open too: its month stands there

    @property
    def is_wasting(self) -> bool:
        return self.burning is not None

    @property
    def also(self) -> list[Beside]:
        """Of each other pattern that ends with its agreement a finding."""
        agreement = self.row.agreement
        if agreement is None or not agreement.also:
            return []
        return one_of_each(agreement.also, but=pattern_of(self.row.line.finding))

    @property
    def per_month(self) -> Saving | None:
        if self.is_elsewhere or self.pattern.status in AGREED:
            return None
        return self.pattern.per_month


def lines(
    request: HttpRequest, shown: Inbox, period: Period, elsewhere: Collection[int] = ()
) -> Context:
    """A page of patterns, and how many there are of each kind; `elsewhere` as in rows_of()."""
    every = patterns.patterns(shown.of_jobs, period.so_far, now=period.now)
    when = chosen(request, "when", WHEN)
    sort = chosen(request, "sort", (BURNING,)) if when == patterns.NOW else ""
    of_kind_asked = _of_kind(every, when, sort)
    wanted, pager = pages.page_of(of_kind_asked, after=request.GET.get("after", ""), size=PAGE_SIZE)
    return {
        **rows_of(of_kind_asked, wanted, request.user, period.now, elsewhere),
        "pager": pager,
        "when": when,
        "sort": sort,
        **_tabs(every, asked_status(request)),
    }


def _tabs(every: Patterns, status: str) -> Context:
    """The kinds of patterns with how many there are: of those that go on those that waste, beside
    the potential ones; where some are agreed as not waste all.
    """
    counts = {"": len(every), **every.counts()}
    now = patterns.GoingOn(counts[patterns.NOW], 0)
    if _names_waste(status):
        now = patterns.going_on(every)
    counts[patterns.NOW] = now.wasting
    return {
        "whens": [(key, label, title, counts[key]) for key, label, title in _whens(status)],
        "potential_now": now.potential,
    }


def _whens(status: str) -> list[tuple[str, str, str]]:
    """The kinds of patterns that stand so: key, name and what that is."""
    return [
        (key, label if _names_waste(status) or key != patterns.NOW else GOES_ON, title)
        for key, (label, title) in WHEN.items()
    ]


def _names_waste(status: str) -> bool:
    """Whether nothing that stands so is agreed as not waste."""
    return status not in (*STANDING, "all")


def _of_kind(every: Patterns, when: str, sort: str) -> Patterns:
    of_kind = every.of(when) if when else every
    return patterns.burning_first(of_kind) if sort else of_kind


def open_too(every: Findings, period: Period) -> set[int]:
    """The accepted findings whose pattern has open ones beside them."""
    both = every.of_status(*RECOVERABLE, "accepted")
    grouped = patterns.patterns(both, period.so_far, now=period.now)
    is_open = np.isin(grouped.findings.pk, both.of_status(*RECOVERABLE).pk)
    is_beside = np.isin(grouped.at, grouped.at[is_open]) & ~is_open
    return set(grouped.findings.pk[is_beside].tolist())


def rows_of(
    every: Patterns,
    wanted: slice,
    reader: User | AnonymousUser,
    now: datetime,
    elsewhere: Collection[int] = (),
) -> Context:
    """The wanted patterns with their words, and which of their findings the reader decides about;
    `elsewhere` are findings whose month is told where they are open.
    """
    several = every[wanted]
    context = _advised(several, reader, now)
    drawn = patterns.sparks(every, wanted) if several else []
    goes_on = any(each.when == patterns.NOW for each in several)
    burning = patterns.burning(every, wanted) if goes_on else [None] * len(several)
    rows = zip(context["lines"], several, drawn, burning, strict=True)
    return {
        "patterns": [
            PatternRow(*each, is_elsewhere=each[1].line.finding.pk in elsewhere) for each in rows
        ],
        # what is exempt ends where that was said
        "decidable": context["decidable"]
        - {each.line.finding.pk for each in several if each.status == EXEMPT},
    }


def _advised(several: Sequence[Pattern], reader: User | AnonymousUser, now: datetime) -> Context:
    """As finding_rows.context() has it, of the latest run of each."""
    context = finding_rows.context([each.line for each in several], reader, now)
    rows = [
        replace(row, is_of_latest=each.runs > 1 and noted_facts.are_unlike(each.line, each.ids))
        for row, each in zip(context["lines"], several, strict=True)
    ]
    return context | {"lines": rows}


def around(request: HttpRequest, finding: Finding) -> Context:
    """The finding before and after this one in the order of the inbox, those of machines and the
    queue first, of those that stand as it shows and as it is narrowed there; of its default period
    where the address names none. One that was decided meanwhile still leads on, and has no place
    among the others; one that is not in the period leads to the first.
    """
    status = asked_status(request)
    every, _ = asked_findings(request, read_period(request))
    shown = of_tab(every, status)
    listed = "" if status == "all" else STATUSES[status].lower()
    return {"listed_as": listed, **_places(finding.pk, every, shown)}


def _ids(several: Inbox) -> list[int]:
    """Of the findings whose pages the reader may open, in the order of the inbox."""
    jobs: list[int] = several.of_jobs.pk.tolist()
    return seen_ids([line.finding.pk for line in several.of_places] + jobs)


def _places(wanted: int, every: Inbox, shown: Inbox) -> Context:
    listed = set(_ids(shown))
    ids = [pk for pk in _ids(every) if pk == wanted or pk in listed]
    at = ids.index(wanted) if wanted in ids else -1
    return {
        "place": at + 1 if wanted in listed else None,
        "of_places": len(listed),
        "previous_finding": ids[at - 1] if at > 0 else None,
        "next_finding": ids[at + 1] if at + 1 < len(ids) else None,
    }
