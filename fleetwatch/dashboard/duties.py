"""What waits for somebody who may decide more than about the own jobs: by the rights of a role, and
by the teams of a lead.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.urls import reverse
from django.utils.http import urlencode

from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.permissions import Right, rights
from fleetwatch.alerts.incidents import incident_inbox
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.budgets import month_end, selectors
from fleetwatch.budgets.selectors import BudgetLine
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.invoice_lines import to_book_usd
from fleetwatch.diagnosis import selectors as diagnosis
from fleetwatch.diagnosis.cause_totals import Saving
from fleetwatch.diagnosis.findings.inbox import Inbox, inbox
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.totals import ZERO, Scope
from fleetwatch.finance import reconciliation
from fleetwatch.finance.reconciling import Line as InvoiceLine
from fleetwatch.lib.intervals import Interval
from fleetwatch.reports import months, team_months
from fleetwatch.reports.selectors import month_lines, shown_month
from fleetwatch.reports.team_months import TeamLine

# how a budget stands that somebody has to do something about -> in words
PRESSING = {
    month_end.OVER: "is over it",
    month_end.WILL_EXCEED: "is expected to pass it",
    month_end.MAY_EXCEED: "may pass it",
}
MAX_NAMED = 3
MAX_FINDINGS = 5


@dataclass(frozen=True, slots=True)
class Duty:
    """So many things wait: what they are, where they are decided, which they are ("" where the
    label says it), what deciding them could save (None: nothing that is known in dollars), and the
    first of them, each with its own page.
    """

    count: int
    label: str
    url: str
    note: str = ""
    saving: Saving | None = None
    places: Sequence[tuple[str, str]] = ()
    places_are: str = "add a recipient"


def duties(user: User, findings: Inbox, now: datetime) -> list[Duty] | None:
    """What waits for the user: of each of his rights, and then the whole fleet's findings; None for
    who decides about the own jobs alone.
    """
    owned = rights(user)
    if not owned:
        return None
    waiting = [make(now) for right, make in _OF_RIGHTS if right in owned]
    money = [*_statements(now), *_invoices(now)] if Right.MONEY in owned else []
    return [duty for duty in [*waiting, *money, _findings(findings, now)] if duty.count]


def duties_of_lead(teams: Sequence[Team], interval: Interval, now: datetime) -> list[Duty]:
    """What waits for the lead of these teams: their findings of the interval, their incidents, and
    their statements.
    """
    every = [duty for team in teams for duty in _of_team(team, interval, now)]
    return [duty for duty in every if duty.count]


def _of_team(team: Team, interval: Interval, now: datetime) -> list[Duty]:
    of_jobs = inbox(interval, now=now, scope=Scope(team=team.slug))
    name = team.label
    return [
        _incidents_of(team, now),
        _findings_of(team, of_jobs, "open", f"Open findings of {name}"),
        _findings_of(team, of_jobs, "accepted", f"Findings of {name} accepted, still to do"),
        _statement_of(team, now),
    ]


def _incidents_of(team: Team, now: datetime) -> Duty:
    rows = incident_inbox.narrowed_to(incident_inbox.Wanted(team=team.slug))
    return Duty(
        incident_inbox.counts(rows, now)["firing"],
        f"Incidents of {team.label} firing that nobody acknowledged",
        f"{reverse('alerts')}?{urlencode({'team': team.slug})}",
    )


def _findings_of(team: Team, findings: Inbox, status: str, label: str) -> Duty:
    return Duty(
        findings.counts()[status],
        label,
        f"{reverse('findings')}?{urlencode({'team': team.slug, 'status': status})}",
        saving=findings.saving(status),
    )


def _findings(findings: Inbox, now: datetime) -> Duty:
    unassigned = findings.assigned(None).of_status("open")
    largest = diagnosis.with_jobs(unassigned.of_jobs[:MAX_FINDINGS], before=now)
    snoozed = findings.counts()["snoozed"]
    return Duty(
        unassigned.counts()["open"],
        "Open findings given to nobody",
        reverse("findings"),
        f"without {snoozed:,} snoozed, which Savings counts too" if snoozed else "",
        saving=unassigned.saving("open"),
        places=[_place(line) for line in largest],
        places_are="the largest of jobs",
    )


def _place(line: Line) -> tuple[str, str]:
    """Whose it is and what it could save, and its page."""
    usd = numbers.roughly(line.caused.saving.low_usd, line.caused.saving.high_usd)
    label = f"{line.job.user or 'no owner'} · {line.job.name or line.job.key}, {usd}"
    return label, reverse("finding", args=[line.finding.pk])


def _incidents(now: datetime) -> Duty:
    firing = incident_inbox.counts(visible_incidents(), now)["firing"]
    return Duty(firing, "Incidents firing that nobody acknowledged", reverse("alerts"))


def _budgets(now: datetime) -> Duty:
    """Teams' and the fleet's of the running month, the most pressing named."""
    lines = pressing(selectors.lines(now))
    label = "Budgets that are passed, or may be by the month’s end"
    return Duty(len(lines), label, reverse("budgets"), _named(lines))


def pressing(lines: Iterable[BudgetLine]) -> list[BudgetLine]:
    """Of budgets those that are passed or may be, the most pressing first."""
    return sorted(
        (line for line in lines if line.risk in PRESSING),
        key=lambda line: month_end.RISKS.index(line.risk),
    )


def _named(lines: Sequence[BudgetLine]) -> str:
    """Which they are: "vision is over it, nlp may pass it and 2 more"."""
    named = [f"{line.label} {PRESSING[line.risk]}" for line in lines[:MAX_NAMED]]
    more = len(lines) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


class _OfMonth(NamedTuple):
    """Statements of a month: of the last that is over and computed, else of the running one."""

    month: str
    is_over: bool
    lines: list[TeamLine]

    @property
    def unapproved(self) -> list[TeamLine]:
        """Those that nobody approved; none of a month that runs, which cannot be approved."""
        return [line for line in self.lines if self.is_over and not line.approved_by]


def _of_month(now: datetime) -> _OfMonth | None:
    """None where none is computed."""
    shown = shown_month(month_lines(now), now)
    if shown is None or shown.fleet is None:
        return None
    lines = team_months.lines_of(shown.fleet.start)
    return _OfMonth(shown.name, not shown.is_to_date, lines)


def _statements(now: datetime) -> list[Duty]:
    of_month = _of_month(now)
    return [] if of_month is None else [_unapproved(of_month), _unsent(of_month)]


def _unapproved(of_month: _OfMonth) -> Duty:
    label = f"Statements of {months.in_words(of_month.month)} not approved"
    address = f"{reverse('reports')}#statements"
    return Duty(len(of_month.unapproved), label, address)


def _unsent(of_month: _OfMonth) -> Duty:
    """Teams whose statements reach nobody."""
    why = team_months.unreached([line.slug for line in of_month.lines])
    alone = [line for line in of_month.lines if line.slug in why]
    places = [
        (
            f"{line.name}: {why[line.slug]}",
            f"{reverse('team_statement', args=[line.slug, of_month.month])}#recipients",
        )
        for line in alone[:MAX_NAMED]
    ]
    address = f"{reverse('reports')}#statements"
    if more := len(alone) - len(places):
        places.append((f"and {more} more", address))
    return Duty(len(alone), "Teams whose statement reaches nobody", address, places=places)


def _statement_of(team: Team, now: datetime) -> Duty:
    of_month = _of_month(now)
    if of_month is None:
        return Duty(0, "", "")
    label = f"{team.label}’s statement of {months.in_words(of_month.month)} not approved"
    address = reverse("team_statement", args=[team.slug, of_month.month])
    count = sum(line.slug == team.slug for line in of_month.unapproved)
    return Duty(count, label, address)


def _invoices(now: datetime) -> list[Duty]:
    """Lines of the newest month with an invoice."""
    month = reconciliation.newest_month()
    if month is None:
        return []
    lines = reconciliation.reconciliation(month, now=now).lines
    return [_not_booked(month, lines), _above_contract(month, lines)]


def _not_booked(month: str, lines: Sequence[InvoiceLine]) -> Duty:
    """Those whose difference from the ledger nobody booked."""
    unexplained = to_book_usd(lines)
    return Duty(
        len(unexplained),
        f"Invoice lines of {months.in_words(month)} that differ from the ledger, not booked",
        reverse("invoice", args=[month]),
        f"{numbers.cents(exact_sum(unexplained))} together, some more and some less",
    )


def _above_contract(month: str, lines: Iterable[InvoiceLine]) -> Duty:
    """Those that bill more than the contract says."""
    above = [each.above_contract_usd or ZERO for each in lines if each.is_above_contract]
    return Duty(
        len(above),
        f"Invoice lines of {months.in_words(month)} billed above contract",
        f"{reverse('invoice', args=[month])}#lines",
        f"{numbers.cents(exact_sum(above))} to ask the issuer for",
    )


def _claims(_: datetime) -> Duty:
    claims = Identity.objects.filter(confirmed_at=None, user__is_active=True)
    return Duty(claims.count(), "Names that people claim, to be confirmed", reverse("people"))


_OF_RIGHTS: tuple[tuple[Right, Callable[[datetime], Duty]], ...] = (
    (Right.FLEET, _incidents),
    (Right.MONEY, _budgets),
    (Right.PEOPLE, _claims),
)
