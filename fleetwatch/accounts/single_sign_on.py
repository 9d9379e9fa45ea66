"""Log-in by the organisation's OpenID Connect provider: it says who somebody is, and by groups
which role and which teams.

Roles and teams follow the provider at each log-in as far as the mapping names them; others are an
admin's. https://openid.net/specs/openid-connect-core-1_0.html#StandardClaims
"""

from collections.abc import Mapping
from typing import Any

from allauth.account.signals import user_logged_in
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.dispatch import receiver
from django.http import HttpRequest

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.group_mapping import GroupMap, follow_groups, follow_name
from fleetwatch.accounts.models import Identity, User


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """How allauth's providers behave here: who the provider lets in has an account."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        user: User = super().save_user(request, sociallogin, form)
        record("person.create", user.username, role=user.role, email=user.email)
        return user


@receiver(user_logged_in)
def _follow(user: User, sociallogin: Any = None, **_: Any) -> None:
    """What the provider says is so from this log-in on."""
    if sociallogin is None:
        return
    answer = sociallogin.account.extra_data
    follow(user, answer.get("userinfo") or answer["id_token"])


def follow(user: User, claims: Mapping[str, Any]) -> None:
    """Gives the user what the claims say: role, teams, names in other systems."""
    mapped = GroupMap(settings.OIDC_ROLES, settings.OIDC_TEAMS)
    follow_groups(user, claims.get(settings.OIDC_GROUPS_CLAIM) or [], mapped)
    source = Identity.Source.PROVIDER
    follow_name(user, Identity.System.OIDC, str(claims["sub"]), source=source)
    if settings.OIDC_USER_CLAIM and claims.get(settings.OIDC_USER_CLAIM):
        name = str(claims[settings.OIDC_USER_CLAIM])
        follow_name(user, Identity.System.UNIX, name, source=source)
