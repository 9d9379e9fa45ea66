"""Log-in by the organisation's OpenID Connect provider: it says who somebody is, and by groups
which role and which teams.

Roles and teams follow the provider at each log-in as far as the mapping names them; others are an
admin's. https://openid.net/specs/openid-connect-core-1_0.html#StandardClaims
"""

from collections.abc import Collection, Mapping
from typing import Any

import structlog
from allauth.account.signals import user_logged_in
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.dispatch import receiver
from django.http import HttpRequest
from django.utils import timezone

from fleetwatch.accounts import people
from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Identity, Team, User
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.lib.refusal import RefusedFieldError

# who is of several groups has the role of the first of these
STRONGEST = (User.Role.ADMIN, User.Role.OPERATOR, User.Role.FINANCE, User.Role.LEAD)

log = structlog.get_logger(__name__)


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
    groups = claims.get(settings.OIDC_GROUPS_CLAIM) or []
    _set_role(user, groups)
    _set_teams(user, groups)
    _give(user, Identity.System.OIDC, str(claims["sub"]))
    if settings.OIDC_USER_CLAIM and claims.get(settings.OIDC_USER_CLAIM):
        _give(user, Identity.System.UNIX, str(claims[settings.OIDC_USER_CLAIM]))


def _set_role(user: User, groups: Collection[str]) -> None:
    if not settings.OIDC_ROLES:
        return
    roles = {role for group, role in settings.OIDC_ROLES.items() if group in groups}
    role = next((role for role in STRONGEST if role in roles), User.Role.ENGINEER)
    if role == user.role:
        return
    try:
        people.set_role(user, role)
    except RefusedFieldError as error:
        log.warning("role is kept", user=user.username, role=user.role, reason=str(error))


def _set_teams(user: User, groups: Collection[str]) -> None:
    """Teams that no group is mapped to are left as they are."""
    now = timezone.now()
    slugs = {slug for group, slug in settings.OIDC_TEAMS.items() if group in groups}
    left = set(settings.OIDC_TEAMS.values()) - slugs
    ensure_teams(slugs)
    for team in Team.objects.filter(slug__in=slugs):
        people.join(user, team, since=now)
    for team in Team.objects.filter(slug__in=left, memberships__user=user):
        people.leave(user, team, at=now)


def _give(user: User, system: str, name: str) -> None:
    try:
        people.give_name(
            user,
            people.Name(system, name),
            source=Identity.Source.PROVIDER,
            now=timezone.now(),
        )
    except RefusedFieldError as error:
        log.warning("name is not given", user=user.username, system=system, reason=str(error))
