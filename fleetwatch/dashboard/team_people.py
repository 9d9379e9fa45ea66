"""Who of the teams that somebody leads wasted most, and whether that is more than before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.accounts.models import Team
from fleetwatch.dashboard.period import Period
from fleetwatch.dashboard.showing import Context
from fleetwatch.dashboard.team_waste import fixes_of_team
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.comparison import Change
from fleetwatch.figures.selectors import Group, Look
from fleetwatch.figures.totals import ZERO, Scope, Totals
from fleetwatch.lib.intervals import Interval

TOP = 5
MAX_PEOPLE = 1000  # of a team, with what each wasted before
NOBODY_BY_NAME = (costs.NOBODY, costs.UNMAPPED, costs.UNALLOCATED)


@dataclass(frozen=True, slots=True)
class PersonLine:
    """What somebody of a team cost and wasted; `change` beside as long before, None where not all
    of that was recorded.
    """

    group: Group
    change: Change | None


@dataclass(frozen=True, slots=True)
class TeamPeople:
    """A team, what it wasted, its people with what each did, most first, and what the fixes of the
    quarter brought (team_waste.fixes_of_team).
    """

    team: Team
    totals: Totals
    change: Change | None
    people: list[PersonLine]
    fixes: Context


def team_people(teams: Sequence[Team], period: Period) -> list[TeamPeople]:
    """Of each team the five that wasted most; without those that are nobody by name."""
    before = _before(period.interval) if teams else None
    return [each for each in (_of(team, period, before) for team in teams) if each.people]


def _before(interval: Interval) -> Interval | None:
    """As long right before; None where not all of it was recorded."""
    before = Interval(interval.start - (interval.end - interval.start), interval.start)
    began = costs.ledger_began()
    return before if began is not None and began <= before.start else None


def _of(team: Team, period: Period, before: Interval | None) -> TeamPeople:
    scope = Scope(team=team.slug)
    now = costs.look(period.interval, "user", scope=scope)
    then = None if before is None else costs.look(before, "user", scope=scope)
    # one more than are shown: jobs that name nobody are a line too
    named = [each for each in now.ranked("user", TOP + 1).groups if each.key not in NOBODY_BY_NAME]
    wasting = [each for each in named if each.totals.wasted_ms][:TOP]
    earlier = None if then is None else _by_person(then)
    totals = now.totals()
    return TeamPeople(
        team,
        totals,
        None if then is None else Change("", totals.wasted_usd, then.totals().wasted_usd),
        [PersonLine(each, _change(each, earlier)) for each in wasting],
        fixes_of_team(team, period.interval, period.zone),
    )


def _by_person(then: Look) -> dict[str, Totals]:
    return {each.key: each.totals for each in then.ranked("user", MAX_PEOPLE).groups}


def _change(group: Group, earlier: Mapping[str, Totals] | None) -> Change | None:
    if earlier is None:
        return None
    before = earlier.get(group.key)
    return Change(group.key, group.totals.wasted_usd, before.wasted_usd if before else ZERO)
