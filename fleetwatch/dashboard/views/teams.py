"""All teams: what each spends this month, against what, why and by whom; the way to its statements.
Beside them what is no team's, so that the lines sum to the fleet's.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlencode

from django.http import HttpRequest
from django.views.decorators.cache import never_cache

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import members_by_team
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.selectors import zone
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.budgets import calendar, selectors
from fleetwatch.budgets.selectors import NO_TEAMS, BudgetLine, Month, MonthLines
from fleetwatch.dashboard.drawing.bars import SpendBar, bar_of
from fleetwatch.dashboard.forecast_apart import forecast_apart
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows
from fleetwatch.diagnosis.findings.agreed_waste import TeamWaste, waste_of_teams
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.comparison import Change
from fleetwatch.figures.posted import posted_until
from fleetwatch.figures.pricing import exact_sum
from fleetwatch.figures.totals import ZERO, Group
from fleetwatch.lib.intervals import Interval

NO_WASTE = TeamWaste(ZERO, None)


@dataclass(frozen=True, slots=True)
class Spent:
    """Dollars of a period: of each team, by its key, and of what was no team's."""

    by_team: Mapping[str, Decimal]
    no_team_usd: Decimal

    @property
    def usd(self) -> Decimal:
        """The whole fleet's."""
        return exact_sum([*self.by_team.values(), self.no_team_usd])


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A team, its month (None = it spent nothing, and has no budget and no forecast) as a bar too,
    how much more that is than by the same day of the month before, what of its waste people agreed
    is none and why most of the rest was wasted (`cause` None = by no known cause), and who is in
    it.
    """

    team: Team
    line: BudgetLine | None
    bar: SpendBar | None
    change: Change
    agreed_usd: Decimal
    cause: Group | None
    leads: list[User]
    members: int

    @property
    def cause_query(self) -> str:
        """Which findings of the month are its cause's."""
        cause = self.cause.key if self.cause else ""
        month = {"from": "now/M", "to": "now", "status": "all"}
        return urlencode({"team": self.team.slug, "cause": cause} | month)

    @property
    def order(self) -> tuple[float, str]:
        """What spent most comes first."""
        return (-float(self.line.spent_usd) if self.line else 0.0, self.team.slug)


@never_cache
@shows("dashboard/teams.html", "teams")
def teams(_: HttpRequest, period: Period) -> Context:
    """Every team that the reader sees, the dearest of the running month first."""
    month = selectors.running_month(period.now)
    lines = selectors.with_run_rates(selectors.month_lines(period.now), period.now)
    interval_before = _before(month, period.now)
    before = _spent(interval_before)
    waste = waste_of_teams(month.so_far, now=period.now) if month.so_far else {}
    rows = _rows(lines, before, waste, period.now)
    return {
        "month": month,
        "before": interval_before,
        "since": None if before else costs.ledger_began(),
        "judged": (),
        **_columns(rows),
        **_whole(lines, before),
        **_agreed_of_rest(waste),
    }


def _columns(rows: list[TeamRow]) -> Context:
    """The rows, and which columns say anything of them."""
    lines = [row.line for row in rows if row.line]
    return {
        "rows": rows,
        "has_budgets": any(line.limit for line in lines),
        "has_month_ends": any(line.end or line.run_rate for line in lines),
        "unforecast": _unforecast(rows),
        "run_rate": selectors.any_run_rate(lines),
    }


def _whole(lines: MonthLines, before: Spent | None) -> Context:
    """What is no team's (None: nothing), and the fleet."""
    fleet = lines.lines[0]
    return {
        "no_team": lines.unallocated,
        "no_team_change": _change(lines.unallocated, before.no_team_usd if before else None),
        "fleet": fleet,
        "lines_expected_usd": forecast_apart(lines),
        "fleet_bar": _bar(fleet),
        "fleet_change": _change(fleet, before.usd if before else None),
    }


def _agreed_of_rest(waste: Mapping[str, TeamWaste]) -> Context:
    """What is agreed as not waste of what is no team's, and of the fleet's."""
    return {
        "no_team_agreed_usd": exact_sum(
            each.agreed_usd for key, each in waste.items() if key in NO_TEAMS
        ),
        "fleet_agreed_usd": exact_sum(each.agreed_usd for each in waste.values()),
    }


def _before(month: Month, now: datetime) -> Interval | None:
    """As much of the month before as the ledger has of this one; None where that has begun since,
    or nothing of this month is over.
    """
    if month.so_far is None:
        return None
    whole = calendar.month(calendar.previous(month.first), zone())
    length = min(month.so_far.end, posted_until(now).on_average) - month.so_far.start
    until = min(whole.start + length, whole.end)
    first = costs.ledger_began()
    if first is None or first > whole.start or until <= whole.start:
        return None
    return Interval(whole.start, until)


def _spent(interval: Interval | None) -> Spent | None:
    if interval is None:
        return None
    groups = costs.totals_by(interval, "team")
    return Spent(
        {group.key: group.totals.cost_usd for group in groups if group.key not in NO_TEAMS},
        exact_sum(group.totals.cost_usd for group in groups if group.key in NO_TEAMS),
    )


def _change(line: BudgetLine | None, before_usd: Decimal | None) -> Change:
    """How much more the line is than `before_usd`; None: there is nothing to compare it with."""
    return Change("", line.spent_usd if line else ZERO, before_usd)


def _unforecast(rows: list[TeamRow]) -> dict[str, list[str]]:
    """By the reason why there is no forecast the teams that have none."""
    teams: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.line and row.line.end is None and row.line.reason:
            teams[row.line.reason].append(row.team.label)
    return dict(teams)


def _rows(
    lines: MonthLines, before: Spent | None, waste: Mapping[str, TeamWaste], now: datetime
) -> list[TeamRow]:
    by_key = {line.key: line for line in lines.lines}
    people = members_by_team(now)
    rows = [
        TeamRow(
            team,
            line,
            _bar(line),
            _change(line, before.by_team.get(team.slug, ZERO) if before else None),
            of_team.agreed_usd,
            of_team.largest,
            _leads(members),
            len(members),
        )
        for team in visible_teams()
        for line in [by_key.get(team.slug)]
        for of_team in [waste.get(team.slug, NO_WASTE)]
        for members in [people.get(team.pk, [])]
    ]
    return sorted(rows, key=lambda row: row.order)


def _bar(line: BudgetLine | None) -> SpendBar | None:
    return bar_of(line) if line else None


def _leads(people: list[User]) -> list[User]:
    return [person for person in people if role_of(person) == User.Role.LEAD]
