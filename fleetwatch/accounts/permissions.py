"""Who may do what. Everybody who is logged in reads; admins change settings."""

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase

from fleetwatch.accounts.models import User

View = Callable[..., HttpResponseBase]


def can_administer(user: User | AnonymousUser) -> bool:
    """Whether the user may change settings: the role admin, or Django's superuser flag
    (createsuperuser).
    """
    return (
        isinstance(user, User)
        and user.is_active
        and (user.is_superuser or user.role == User.Role.ADMIN)
    )


def for_templates(request: HttpRequest) -> dict[str, Callable[[], bool]]:
    """`is_admin`, which only a template that uses it asks for."""
    return {"is_admin": lambda: can_administer(request.user)}


def admin_required(view: View) -> View:
    """The view, for admins only: a visitor goes to the log-in, a viewer gets 403."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not can_administer(request.user):
            raise PermissionDenied("only admins change settings")
        return view(request, *args, **kwargs)

    return guarded
