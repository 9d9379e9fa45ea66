"""Who held GPU time: of jobs what is asked of their owners, at each moment."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fleetwatch.figures.eras import Eras
from fleetwatch.figures.job_owners import Owner, owners_of
from fleetwatch.figures.packed_spans import NO_JOB, Ints
from fleetwatch.figures.scopes import HELD, OWNED
from fleetwatch.figures.totals import NOBODY, OWNERS, Line, without
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_TEAMS = read_statement("figures/sql/teams.sql")
_ASKING = {"job", "user", *OWNERS, *HELD}


class Holder(NamedTuple):
    """Whose a job is; None = not asked, or nobody's."""

    user_name: str | None = None
    team_id: int | None = None
    project: str | None = None
    cost_centre: str | None = None
    is_named: bool | None = None
    team_slug: str | None = None
    team_name: str | None = None

    @property
    def has_team(self) -> bool:
        return self.team_id is not None

    def line(self, kind: str) -> Line:
        """Key and label of its user, team, project or cost centre."""
        if kind == "team" and self.team_slug is not None:
            return self.team_slug, self.team_name or self.team_slug
        name = getattr(self, {"user": "user_name", "team": "team_slug"}.get(kind, kind))
        if name:
            return name, name
        is_named = bool(self.is_named)
        return (NOBODY, "no user") if kind == "user" else without(kind, is_named=is_named)


def holders_of(jobs: Ints, eras: Eras, asked: set[str]) -> tuple[list[Holder], Ints]:
    """What is asked of the jobs' holders, nobody first; and by era and job the place of the one
    that holds: 0 = nobody, or a job that was deleted.
    """
    named = jobs[jobs != NO_JOB]
    owned = owners_of(named if asked & _ASKING else named[:0]).of(jobs)
    shown = _shown(owned.owners, asked)
    places = {holder: place for place, holder in enumerate(dict.fromkeys(shown), 1)}
    of_owner = np.array([places[holder] for holder in shown], dtype=np.int64)
    of_jobs = eras.zeros(len(jobs))
    for valid, rows in owned.by_validity():
        of_jobs[eras.during(*valid), owned.at[rows]] = of_owner[owned.owner[rows]]
    return [Holder(), *places], of_jobs


def _shown(owners: Sequence[Owner], asked: set[str]) -> list[Holder]:
    """Of each owner what is asked for."""
    by_team = bool(asked & {"team", "team_id", "has_team"})
    by_owner = bool(asked & {*OWNERS, *OWNED})
    by_user = bool(asked & {"user", "user_name"})
    teams = {pk: names for pk, *names in fetched(_TEAMS, {})} if by_team and owners else {}
    return [
        Holder(
            owner.user_name if by_user else None,
            owner.team_id if by_team else None,
            owner.project if "project" in asked else None,
            owner.cost_centre if "cost_centre" in asked else None,
            owner.is_named if by_owner else None,
            *teams.get(owner.team_id if by_team else None, (None, None)),
        )
        for owner in owners
    ]
