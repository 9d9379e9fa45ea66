"""Whose a name in another system is. A job's user without an account stays a name."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from django.db.models import QuerySet

from fleetwatch.accounts.models import Identity, User

KUBERNETES = "kubernetes"  # a job's scheduler
OF_JOBS = (Identity.System.UNIX, Identity.System.KUBERNETES)


class Holder(NamedTuple):
    """Who holds a job, as its scheduler names him."""

    scheduler: str
    cluster: str
    user: str


def system_of(scheduler: str) -> str:
    """Where the scheduler has its users' names from."""
    return Identity.System.KUBERNETES if scheduler == KUBERNETES else Identity.System.UNIX


def people(holders: Iterable[Holder]) -> dict[Holder, User]:
    """Whose account each is; a holder without one is left out.

    A name given for one cluster comes before one that is given for all.
    """
    wanted = set(holders)
    rows = Identity.objects.filter(
        name__in={holder.user for holder in wanted},
        confirmed_at__isnull=False,
        user__is_active=True,
    ).select_related("user")
    users = {(row.system, row.cluster, row.name): row.user for row in rows}
    both = {
        holder: users.get((system_of(holder.scheduler), holder.cluster, holder.user))
        or users.get((system_of(holder.scheduler), "", holder.user))
        for holder in wanted
    }
    return {holder: user for holder, user in both.items() if user is not None}


def person_named(system: str, name: str) -> User | None:
    """Who has this confirmed name in a system that is no cluster (Slack, e-mail) and may log in."""
    row = Identity.objects.filter(
        system=system, cluster="", name=name, confirmed_at__isnull=False, user__is_active=True
    )
    identity = row.select_related("user").first()
    return identity.user if identity else None


def holders_of(user: User) -> list[Identity]:
    """The names that jobs of this person's run under, as far as they are confirmed."""
    return list(user.identities.filter(system__in=OF_JOBS, confirmed_at__isnull=False))


def people_with_jobs() -> QuerySet[User]:
    """Who has a confirmed name that jobs run under, by the user name here."""
    own = {"identities__system__in": OF_JOBS, "identities__confirmed_at__isnull": False}
    return User.objects.filter(is_active=True, **own).order_by("username").distinct()


def names_of_jobs() -> dict[int, list[Identity]]:
    """The same of everybody who may log in, by the person's id."""
    rows = Identity.objects.filter(
        system__in=OF_JOBS, confirmed_at__isnull=False, user__is_active=True
    )
    names: dict[int, list[Identity]] = defaultdict(list)
    for row in rows.order_by("pk"):
        names[row.user_id].append(row)
    return dict(names)
