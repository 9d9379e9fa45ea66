"""Who is gone from the directory: asked of everybody whom it lets in, each hour."""

from collections import defaultdict
from datetime import datetime

from django.conf import settings
from django.db import transaction

from fleetwatch.accounts import people
from fleetwatch.accounts.models import Identity, User
from fleetwatch.lib.ldap.ldap_client import missing


def look(now: datetime) -> dict[str, int]:
    """How many people the directory was asked for, and how many accounts ended because it has no
    entry of them any more.

    Raises DirectoryError where it can't be asked, or is not believed: then nobody's ended.
    """
    directory = settings.DIRECTORY
    names = _names_by_person()
    if directory is None or not names:
        return {"asked": 0, "ended": 0}
    absent = missing(directory, set().union(*names.values()))
    gone = [user_id for user_id, own in names.items() if own <= absent]
    return {"asked": len(names), "ended": sum(_end(user_id, now) for user_id in gone)}


def _names_by_person() -> dict[int, set[str]]:
    """The names of the directory's entries, by the id of whose account each opens."""
    names: dict[int, set[str]] = defaultdict(set)
    rows = Identity.objects.filter(
        system=Identity.System.DIRECTORY, confirmed_at__isnull=False, user__is_active=True
    )
    for user_id, name in rows.values_list("user", "name"):
        names[user_id].add(name)
    return names


@transaction.atomic
def _end(user_id: int, now: datetime) -> bool:
    """Whether it did; not of one whom an admin ended in the meantime."""
    user = User.objects.select_for_update().filter(pk=user_id, is_active=True).first()
    if user is not None:
        people.leave_directory(user, now=now)
    return user is not None and not user.is_active
