"""What somebody else says of a person is so here: groups give a role and teams, and names are
theirs. Of an identity provider (single_sign_on.py) and a directory (directory_login.py) alike.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import structlog
from django.utils import timezone

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.lib.refusal import RefusedFieldError

# who is of several groups has the role of the first of these
STRONGEST = (User.Role.ADMIN, User.Role.OPERATOR, User.Role.FINANCE, User.Role.LEAD)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GroupMap:
    """Which role, and which team by slug, a group stands for."""

    roles: Mapping[str, str]
    teams: Mapping[str, str]


def follow_groups(user: User, groups: Collection[str], mapped: GroupMap) -> None:
    """Gives the user the role and the teams of the groups; what no group is mapped to stays."""
    _set_role(user, groups, mapped.roles)
    _set_teams(user, groups, mapped.teams)


def _set_role(user: User, groups: Collection[str], by_group: Mapping[str, str]) -> None:
    if not by_group:
        return
    roles = {role for group, role in by_group.items() if group in groups}
    role = next((role for role in STRONGEST if role in roles), User.Role.ENGINEER)
    if role == user.role:
        return
    try:
        people.set_role(user, role)
    except RefusedFieldError as error:
        log.warning("role is kept", user=user.username, role=user.role, reason=str(error))


def _set_teams(user: User, groups: Collection[str], by_group: Mapping[str, str]) -> None:
    now = timezone.now()
    slugs = {slug for group, slug in by_group.items() if group in groups}
    left = set(by_group.values()) - slugs
    ensure_teams(slugs)
    for team in Team.objects.filter(slug__in=slugs):
        people.join(user, team, since=now)
    for team in Team.objects.filter(slug__in=left, memberships__user=user).distinct():
        people.leave(user, team, at=now)


def follow_name(user: User, system: str, name: str, *, source: str) -> None:
    """The name is the user's, in place of what the same source said before; a name that is somebody
    else's stays theirs.
    """
    try:
        identity = people.give_name(
            user, people.Name(system, name), source=source, now=timezone.now()
        )
    except RefusedFieldError as error:
        log.warning("name is not given", user=user.username, system=system, reason=str(error))
        return
    former = Identity.objects.filter(user=user, system=system, source=source)
    for other in former.exclude(pk=identity.pk):
        people.take_name(other)
