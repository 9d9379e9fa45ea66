"""What to look at before a month is closed for good: statements, invoice, dollars without a team,
project or cost centre, hours that wait to be posted.
"""

from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.invoice_lines import to_book_usd
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.totals import WHY
from fleetwatch.finance import reconciliation
from fleetwatch.ledger.check import waiting_hours
from fleetwatch.ledger.months.closing import OpenMonth
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import team_months

OWNERS = {"team": "team", "project": "project", "cost_centre": "cost centre"}


@dataclass(frozen=True, slots=True)
class Check:
    """Whether it is as it should be, what it is, where it is looked at, and what is left."""

    is_done: bool
    label: str
    url: str
    note: str


def closing_checks(month: OpenMonth, now: datetime) -> list[Check]:
    """In the order in which a month is ended; nothing of a month that has just begun."""
    so_far = Interval(month.interval.start, min(month.interval.end, now))
    if so_far.start >= so_far.end:
        return []
    return [
        _posted(month, now),
        *_mapped(so_far, is_over=now >= month.interval.end),
        _invoice(month, now),
        _statements(month),
    ]


def _posted(month: OpenMonth, now: datetime) -> Check:
    label = "Every hour is posted"
    if now < month.interval.end:
        return Check(False, label, reverse("status"), "the month is not over")
    hours = waiting_hours(month.interval.start, month.interval.end)
    note = f"{hours:,} hours of nodes wait" if hours else ""
    return Check(not hours, label, reverse("status"), note)


def _mapped(so_far: Interval, *, is_over: bool) -> list[Check]:
    """Of teams, and of projects and cost centres where rules name any."""
    seen = costs.look(so_far, *OWNERS)
    until = "" if is_over else " until now"
    checks = []
    for owner, words in OWNERS.items():
        held = [group for group in seen.by(owner) if group.key]
        if owner != "team" and all(group.key in WHY for group in held):
            continue
        usd = exact_sum(group.totals.cost_usd for group in held if group.key in WHY)
        note = (
            f"{numbers.cents(usd)} of jobs without a {words}{until}"
            if numbers.has_cents(usd)
            else ""
        )
        label = f"Every job’s dollars have a {words}"
        checks.append(Check(not note, label, reverse("mappings"), note))
    return checks


def _invoice(month: OpenMonth, now: datetime) -> Check:
    name = f"{month.month:%Y-%m}"
    url = reverse("invoice", args=[name])
    label = "The invoice is imported, and its differences are booked"
    try:
        reconciled = reconciliation.reconciliation(name, now=now)
    except ValueError:  # no day of it is over
        return Check(False, label, url, "no day of the month is over")
    if not reconciled.invoices:
        return Check(False, label, url, "no invoice is imported")
    left = to_book_usd(reconciled.lines)
    note = f"{len(left)} open, {numbers.cents(exact_sum(left))} together" if left else ""
    return Check(not left, label, url, note)


def _statements(month: OpenMonth) -> Check:
    lines = team_months.lines_of(month.interval.start)
    count = sum(not line.approved_by for line in lines)
    note = f"{count} of {len(lines)} not approved" if lines else "none is computed"
    is_done = bool(lines) and not count
    url = f"{reverse('reports')}#statements"
    return Check(is_done, "Every team’s statement is approved", url, "" if is_done else note)
