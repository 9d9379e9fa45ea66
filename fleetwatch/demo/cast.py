"""Who works with the demo: one person of each role beside the admin, two of whom hold jobs of the
simulated fleet.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.people import Name, NewPerson, create_person, give_name
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.lib.actor import PAGE, Actor, acting


@dataclass(frozen=True, slots=True)
class Cast:
    """`team` is its slug, whose jobs run under the same name; "" = holds no job."""

    name: str
    role: User.Role
    team: str = ""


CAST = (
    Cast("priya", User.Role.ENGINEER, "vision"),
    Cast("amara", User.Role.LEAD, "nlp"),
    Cast("fiona", User.Role.FINANCE),
    Cast("otto", User.Role.OPERATOR),
)


@transaction.atomic
def make_people(password: str, *, now: datetime) -> None:
    """Makes those who are not there yet, all with that password; safe to run again."""
    there = set(User.objects.values_list("username", flat=True))
    for each in CAST:
        if each.name not in there:
            _make(each, password, now)


def _make(each: Cast, password: str, now: datetime) -> None:
    team = Team.objects.get(pk=ensure_teams({each.team})[each.team]) if each.team else None
    user = create_person(NewPerson(each.name, f"{each.name}@example.org", each.role, team), now=now)
    user.set_password(password)  # as weak as the admin's may be
    user.last_login = now  # whose doings the audit log has was here
    user.save(update_fields=["password", "last_login"])
    if team is not None:
        give_name(user, Name("unix", each.name), source=Identity.Source.ADMIN, now=now)


def sentence() -> str:
    """Who else may log in, for whoever starts the demo."""
    others = ", ".join(f"{each.name} ({each.role.label.lower()})" for each in CAST)
    return f"{others}: with the admin's password of the first start"


def acting_as(user: User, at: datetime | None = None) -> AbstractContextManager[None]:
    """What is done within is that user's doing on a page at that moment (None: now), as the audit
    log has it.
    """
    return acting(lambda: Actor(user.username, user.pk, via=PAGE, at=at))
