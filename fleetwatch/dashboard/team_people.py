"""Who of the teams that somebody leads wasted most."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwatch.accounts.models import Team
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.selectors import Group
from fleetwatch.figures.totals import Scope
from fleetwatch.lib.intervals import Interval

TOP = 5
NOBODY_BY_NAME = (costs.NOBODY, costs.UNMAPPED, costs.UNALLOCATED)


@dataclass(frozen=True, slots=True)
class TeamPeople:
    """A team, and its people with what each wasted, most first."""

    team: Team
    people: list[Group]


def team_people(teams: Sequence[Team], interval: Interval) -> list[TeamPeople]:
    """Of each team the five that wasted most; without those that are nobody by name."""
    return [each for each in (_of(team, interval) for team in teams) if each.people]


def _of(team: Team, interval: Interval) -> TeamPeople:
    scope = Scope(team=team.slug)
    # one more than are shown: jobs that name nobody are a line too
    ranked = costs.look(interval, "user", scope=scope).ranked("user", TOP + 1)
    named = [each for each in ranked.groups if each.key not in NOBODY_BY_NAME]
    people = [each for each in named if each.totals.wasted_ms]
    return TeamPeople(team, people[:TOP])
