"""People as the reader may know them: colleagues and who runs the fleet by name, others as
somebody.
"""

from collections.abc import Iterable, Mapping

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from fleetwatch.accounts.models import Team, User
from fleetwatch.accounts.people import members
from fleetwatch.accounts.visibility import LIMITED, Sight, pseudonymous, sight
from fleetwatch.lib.pseudonyms import pseudonym

SOMEBODY = "somebody of another team"


def reachable(users: QuerySet[User]) -> QuerySet[User]:
    """Those of the users whom the reader may ask for something: all, or the own teams'."""
    seen = sight()
    return users if seen is None else users.filter(_is_colleague(seen))


def known(users: QuerySet[User]) -> QuerySet[User]:
    """Those of the users whom the reader knows by name: all, or the own teams' and those who see
    everything.
    """
    seen = sight()
    if seen is None:
        return users
    sees_all = ~Q(role__in=LIMITED) | Q(is_superuser=True)
    return users.filter(_is_colleague(seen) | sees_all)


def show_people(rows: Iterable[Model], *fields: str) -> None:
    """Each of the rows, in memory alone, has in these fields (users, or None) whom the reader may
    know; a nameless one in the place of who is not.
    """
    if sight() is None:
        return
    given = [(row, field, getattr(row, field)) for row in rows for field in fields]
    named = [(row, field, user) for row, field, user in given if user is not None]
    names = people_shown(user.username for _, _, user in named)
    for row, field, user in named:
        setattr(row, field, person_shown(user, names))


def person_shown(user: User | None, names: Mapping[str, str]) -> User | None:
    """The user, or a nameless one in the user's place where people_shown() says so."""
    if user is None or names[user.username] == user.username:
        return user
    return User(username=names[user.username])


def people_shown(usernames: Iterable[str]) -> dict[str, str]:
    """By the user's name what the reader is told; "" is nobody and left out."""
    every = {name for name in usernames if name}
    if sight() is None or not every:
        return {name: name for name in every}
    rows = known(User.objects.filter(username__in=every))
    public = set(rows.values_list("username", flat=True))
    return {name: name if name in public else _somebody(name) for name in every}


def _is_colleague(seen: Sight) -> Q:
    teams = Team.objects.filter(pk__in=seen.team_ids)
    return Q(pk=seen.user_id) | Q(pk__in=members(teams, timezone.now()))


def _somebody(name: str) -> str:
    if pseudonymous() is None:
        return SOMEBODY
    return pseudonym("person", name, secret=settings.SECRET_KEY)
