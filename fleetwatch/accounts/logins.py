"""Log-ins in the audit log."""

from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import User


@receiver(user_logged_in)
def logged_in(user: User, **_: Any) -> None:
    record("login.enter", user.get_username())


@receiver(user_logged_out)
def logged_out(user: User | None, **_: Any) -> None:
    """A session that had ended by itself has no user any more."""
    if user is not None:
        record("login.leave", user.get_username())


@receiver(user_login_failed)
def refused(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """Only a name that there is is written down: what is typed in its field may be a password."""
    name = str(credentials.get("username", ""))
    is_known = User.objects.filter(username__iexact=name).exists()
    record("login.fail", name if is_known else "a name that nobody has")
