"""Whose a breach is: the account of who holds the job, and the team that pays for it."""

from collections.abc import Sequence

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.accounts.visibility import sight_of
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.models import Incident

Owners = tuple[User | None, Team | None]


def owners_of(breaches: Sequence[Breach]) -> list[Owners]:
    """Of each breach the person and the team; None where there is none, or several."""
    holders = [_holder(breach) for breach in breaches]
    named = {holder for holder in holders if holder.user}
    persons = people(named) if named else {}
    slugs = {breach.label("team") for breach in breaches} - {""}
    teams = {team.slug: team for team in Team.objects.filter(slug__in=slugs)} if slugs else {}
    return [
        (persons.get(holder), teams.get(breach.label("team")))
        for holder, breach in zip(holders, breaches, strict=True)
    ]


def _holder(breach: Breach) -> Holder:
    return Holder(breach.label("scheduler"), breach.label("cluster"), breach.label("user"))


def holder_of(breach: Breach) -> str:
    """Who holds it as the scheduler or the node names him: "job user ana on della"; "" where nobody
    does.
    """
    user = breach.label("user")
    if not user:
        return ""
    name = f"job user {user}" if breach.kind == "job" else f"user {user}"
    cluster = breach.label("cluster")
    return f"{name} on {cluster}" if cluster else name


def may_see(user: User, incident: Incident) -> bool:
    """Whether the user may know of it: it is theirs or their team's, was given to them, or they see
    everything.
    """
    if user.pk in (incident.person_id, incident.assignee_id):
        return True
    seen = sight_of(user)
    return seen is None or incident.team_id in seen.team_ids
