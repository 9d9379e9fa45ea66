"""Log-ins in the audit log, and what somebody changes about the own log-in."""

from typing import Any

from allauth.account.signals import password_changed
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authentication_failed, authenticator_reset
from allauth.socialaccount.signals import social_account_added
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


@receiver(password_changed)
def changed(user: User, **_: Any) -> None:
    record("login.password", user.get_username())


@receiver(authentication_failed)
def refused_code(user: User, authenticator: Authenticator, **_: Any) -> None:
    record("login.code_fail", user.get_username(), kind=authenticator.type)


@receiver(authenticator_reset)
def made_anew(user: User, authenticator: Authenticator, **_: Any) -> None:
    record("login.factor_reset", user.get_username(), kind=authenticator.type)


@receiver(social_account_added)
def joined(sociallogin: Any, **_: Any) -> None:
    """An account that was here before is the provider's person from now on."""
    record("login.join", sociallogin.user.get_username(), provider=sociallogin.account.provider)
