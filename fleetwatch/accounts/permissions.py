"""Who may do what: a role has rights, a view or a service asks for one.

Everybody who is logged in reads; what an engineer or a lead may do besides is about what is theirs.
"""

from collections.abc import Callable
from enum import Enum
from functools import wraps

from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from fleetwatch.accounts.models import User

View = Callable[..., HttpResponseBase]


class Right(Enum):
    """Each in the words of a refusal."""

    MONEY = "rates, budgets, statements, invoices and months are finance's"
    FLEET = "nodes, agents, rules and channels are the operators'"
    PEOPLE = "accounts and what the organisation decides are the admins'"


RIGHTS: dict[str, frozenset[Right]] = {
    User.Role.ENGINEER: frozenset(),
    User.Role.LEAD: frozenset(),
    User.Role.FINANCE: frozenset({Right.MONEY}),
    User.Role.OPERATOR: frozenset({Right.FLEET}),
    User.Role.ADMIN: frozenset(Right),
}


# role -> the roles that may no more than it
WITHIN: dict[str, frozenset[str]] = {
    User.Role.ENGINEER: frozenset({User.Role.ENGINEER}),
    User.Role.LEAD: frozenset({User.Role.ENGINEER, User.Role.LEAD}),
    User.Role.FINANCE: frozenset({User.Role.ENGINEER, User.Role.FINANCE}),
    User.Role.OPERATOR: frozenset({User.Role.ENGINEER, User.Role.LEAD, User.Role.OPERATOR}),
    User.Role.ADMIN: frozenset(User.Role),
}


def role_of(user: User) -> str:
    """The role that the user acts in: the own, and with a token that has one what both may.

    Django's superuser flag (createsuperuser) is an admin's.
    """
    own: str = User.Role.ADMIN if user.is_superuser else user.role
    return common(own, user.token.role) if user.token and user.token.role else own


def common(role: str, other: str) -> str:
    """The role that may what both may."""
    if role in WITHIN[other]:
        return role
    return other if other in WITHIN[role] else User.Role.ENGINEER


def rights(user: User | AnonymousUser) -> frozenset[Right]:
    """What the user may, beside what is his; a stranger, and whoever left, nothing."""
    if not isinstance(user, User) or not user.is_active:
        return frozenset()
    return RIGHTS[role_of(user)]


def may(user: User | AnonymousUser, right: Right) -> bool:
    """Whether the user has the right."""
    return right in rights(user)


def is_engineer(user: User | AnonymousUser) -> bool:
    """Whether the user is here for the own jobs alone."""
    return isinstance(user, User) and role_of(user) == User.Role.ENGINEER


def for_templates(request: HttpRequest) -> dict[str, Callable[[], bool]]:
    """`may_money`, `may_fleet`, `may_people`: only a template that uses one asks."""
    return {f"may_{right.name.lower()}": _asking(request, right) for right in Right}


def _asking(request: HttpRequest, right: Right) -> Callable[[], bool]:
    return lambda: may(request.user, right)


def needs(right: Right) -> Callable[[View], View]:
    """The view, for those with the right: a visitor goes to the log-in, others get 403."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            check(request.user, right)
            return view(request, *args, **kwargs)

        return guarded

    return guard


def check(user: User | AnonymousUser, right: Right) -> None:
    """Raises PermissionDenied, in words, for a user without the right."""
    if not may(user, right):
        raise PermissionDenied(right.value)
