"""Saved views: an address of a page under a name, for its owner alone or for everybody.

Whoever does not see everything has the own ones alone: a shared one's name and address may name
whom its reader does not see.
"""

from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import SavedView, User
from fleetwatch.accounts.permissions import Right, is_engineer, may
from fleetwatch.accounts.visibility import sight
from fleetwatch.lib.refusal import RefusedFieldError, is_name

MAX_VIEWS = 50  # of one person
LONGEST_NAME = 60
LONGEST_PATH = 1000
LONGEST_QUERY = 2000


def views_of(user: User) -> QuerySet[SavedView]:
    """The views that the user may open, by name."""
    own = Q(owner=user)
    readable = own if sight() is not None else own | Q(is_shared=True)
    return SavedView.objects.filter(readable).select_related("owner").order_by("name", "pk")


def may_share(user: User) -> bool:
    """Whether the user's views may be everybody's: all but engineers' may."""
    return not is_engineer(user)


def may_drop(user: User, view: SavedView) -> bool:
    """Whether the user may delete a view that he may open: the own one, and an admin each."""
    return view.owner_id == user.pk or may(user, Right.PEOPLE)


@transaction.atomic
def save_view(
    owner: User, name: str, address: tuple[str, str], *, is_shared: bool, now: datetime
) -> SavedView:
    """The owner's view of this name, which from now on leads to the path and query.

    Raises RefusedFieldError for no name, for a sharer who may not, and for one too many.
    """
    path, query = address
    _check(name, path, query)
    if is_shared and not may_share(owner):
        raise RefusedFieldError("Engineers keep their views to themselves.", field="shared")
    User.objects.select_for_update().get(pk=owner.pk)  # whose views are counted once at a time
    if SavedView.objects.filter(owner=owner).exclude(name=name).count() >= MAX_VIEWS:
        raise RefusedFieldError(f"You have {MAX_VIEWS} views: delete one first.", field="name")
    view, _ = SavedView.objects.update_or_create(
        owner=owner,
        name=name,
        defaults={"path": path, "query": query, "is_shared": is_shared, "saved_at": now},
    )
    record("view.save", name, to=view.address, shared=is_shared)
    return view


def _check(name: str, path: str, query: str) -> None:
    if not name or not is_name(name, longest=LONGEST_NAME):
        raise RefusedFieldError(
            f"A name of at most {LONGEST_NAME} characters, please.", field="name"
        )
    if len(path) > LONGEST_PATH or len(query) > LONGEST_QUERY:
        raise RefusedFieldError("The address is too long to be kept.", field="address")


@transaction.atomic
def drop_view(view: SavedView) -> None:
    """The view is nobody's any more."""
    record("view.drop", view.name, owner=view.owner.get_username(), shared=view.is_shared)
    view.delete()
