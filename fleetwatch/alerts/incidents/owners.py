"""Whose a breach is: the account of who holds the job, and the team that pays for it."""

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.names.holders import Holder, people
from fleetwatch.accounts.visibility import sight_of
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.models import Incident


def owners_of(breach: Breach) -> tuple[User | None, Team | None]:
    """The person and the team; None where there is none, or several."""
    holder = Holder(breach.label("scheduler"), breach.label("cluster"), breach.label("user"))
    person = people([holder]).get(holder) if holder.user else None
    team = breach.label("team")
    return person, Team.objects.filter(slug=team).first() if team else None


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
