"""All teams: what each spends this month, against what, by whom; the way to its statements."""

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
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context, shows


@dataclass(frozen=True, slots=True)
class TeamRow:
    """A team, its month (None = it spent nothing, and has no budget and no forecast), and who is
    in it.
    """

    team: Team
    line: BudgetLine | None
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
    return {"month": selectors.running_month(period.now), "rows": _rows(period.now)}


def _rows(now: datetime) -> list[TeamRow]:
    lines = {line.key: line for line in selectors.month_lines(now).lines}
    people = members_by_team(now)
    rows = [
        TeamRow(team, lines.get(team.slug), _leads(members), len(members))
        for team in visible_teams()
        for members in [people.get(team.pk, [])]
    ]
    return sorted(rows, key=lambda row: row.order)


def _leads(people: list[User]) -> list[User]:
    return [person for person in people if role_of(person) == User.Role.LEAD]
