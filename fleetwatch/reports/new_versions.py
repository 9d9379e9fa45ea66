"""Which statements a change of rates would give a new version, before anybody makes it: the change
is made, looked at, taken back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from django.db.models.fields.json import KT

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import selectors as costs
from fleetwatch.ledger.selectors import closed_until
from fleetwatch.lib.sql import taken_back
from fleetwatch.reports import months, statement_choices
from fleetwatch.reports.models import MonthRun, Report
from fleetwatch.reports.monthly import FLEET, STATEMENT, parts_of

# of a report: its month's dollars, those of the month before, its part of the free capacity
Dollars = tuple[Decimal | None, ...]


@dataclass(frozen=True, slots=True)
class ChangedMonth:
    """A month whose reports would say other dollars: of which teams, by name."""

    month: str  # 2026-10
    teams: list[str]


def changed_months(change: Callable[[], object]) -> list[ChangedMonth]:
    """The computed months that are not closed in which the change would move a report's dollars,
    or those it compares them with, the newest first; nothing is written. A month without teams: of
    the fleet's report alone.
    """
    runs = list(_open_months())

    def dollars() -> list[dict[str, Dollars]]:
        return [_dollars(run) for run in runs]

    before, _, after = taken_back(lambda: (dollars(), change(), dollars()))
    changed = (
        (run, {subject for subject, usd in now.items() if usd != then.get(subject)})
        for run, then, now in zip(runs, before, after, strict=True)
    )
    return [ChangedMonth(run.month, _names(run, subjects)) for run, subjects in changed if subjects]


def _open_months() -> Iterator[MonthRun]:
    """As a run, not stored, the newest report of each month that is not closed."""
    fleets = Report.objects.filter(kind=FLEET).order_by("-start", "-version").distinct("start")
    closed = closed_until()
    reports = fleets if closed is None else fleets.filter(start__gte=closed)
    free_capacity = statement_choices.free_capacity()
    for start, end in reports.values_list("start", "end"):
        month = months.month(months.name_at(start, zone()), now=end, zone=zone())
        yield MonthRun(
            month=month.name,
            start=month.interval.start,
            end=month.interval.end,
            previous_start=month.previous.start,
            previous_end=month.previous.end,
            free_capacity=free_capacity,
        )


def _dollars(run: MonthRun) -> dict[str, Dollars]:
    """What the month's reports would say, by subject; the fleet's is empty."""
    parts = parts_of(run, costs.totals_by(run.interval, "team"), set())
    return {part.subject: (part.cost_usd, part.previous_usd, part.free_usd) for part in parts}


def _names(run: MonthRun, subjects: set[str]) -> list[str]:
    """The teams' names as their newest statements have them, in order."""
    statements = Report.objects.filter(kind=STATEMENT, start=run.start, subject__in=subjects)
    newest = statements.order_by("subject", "-version").distinct("subject")
    return sorted(newest.values_list(KT("content__team__name"), flat=True), key=str.casefold)
