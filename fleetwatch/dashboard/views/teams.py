"""All teams: what each spends this month, against what, by whom; the way to its statements."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest
from django.views.decorators.cache import never_cache

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import members_by_team
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.visibility import visible_teams
from fleetwatch.budgets import selectors
from fleetwatch.budgets.selectors import BudgetLine
from fleetwatch.dashboard.drawing.bars import SpendBar, spend_bar
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A team, its month (None = it spent nothing, and has no budget and no forecast) as a bar too,
    and who is in it.
    """

    team: Team
    line: BudgetLine | None
    bar: SpendBar | None
    leads: list[User]
    members: int

    @property
    def order(self) -> tuple[float, str]:
        """What spent most comes first."""
        return (-float(self.line.spent_usd) if self.line else 0.0, self.team.slug)


@never_cache
@shows("dashboard/teams.html", "teams")
def teams(_: HttpRequest, period: Period) -> Context:
    """Every team that the reader sees, the dearest of the running month first."""
    rows = _rows(period.now)
    return {
        "month": selectors.running_month(period.now),
        "rows": rows,
        "unforecast": _unforecast(rows),
    }


def _unforecast(rows: list[TeamRow]) -> dict[str, list[str]]:
    """By the reason why there is no forecast the teams that have none."""
    teams: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.line and row.line.end is None and row.line.reason:
            teams[row.line.reason].append(row.team.name or row.team.slug)
    return dict(teams)


def _rows(now: datetime) -> list[TeamRow]:
    lines = {line.key: line for line in selectors.month_lines(now).lines}
    people = members_by_team(now)
    rows = [
        TeamRow(team, line, _bar(line), _leads(members), len(members))
        for team in visible_teams()
        for line in [lines.get(team.slug)]
        for members in [people.get(team.pk, [])]
    ]
    return sorted(rows, key=lambda row: row.order)


def _bar(line: BudgetLine | None) -> SpendBar | None:
    return spend_bar(line.spent_usd, line.budget_usd, line.end) if line else None


def _leads(people: list[User]) -> list[User]:
    return [person for person in people if role_of(person) == User.Role.LEAD]
