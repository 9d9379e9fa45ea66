"""Log-in by the organisation's OpenID Connect provider: it says who somebody is, and by groups
which role and which teams.

Roles and teams follow the provider at each log-in as far as the mapping names them; others are an
admin's. https://openid.net/specs/openid-connect-core-1_0.html#StandardClaims
"""

from collections.abc import Collection, Mapping
from typing import Any

from allauth.account.signals import user_logged_in
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.base import AuthProcess
from django.conf import settings
from django.contrib import messages
from django.db import IntegrityError, transaction
from django.dispatch import receiver
from django.http import HttpRequest
from django.shortcuts import redirect
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.log_in.group_mapping import GroupMap, follow_groups, follow_name
from fleetwatch.accounts.models import Identity, NameRule, User
from fleetwatch.accounts.people import follow_rules


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """How allauth's providers behave here: who the provider lets in has an account."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True

    def populate_user(
        self, request: HttpRequest, sociallogin: Any, data: Mapping[str, Any]
    ) -> User:
        """An address that is not verified, in a plain `true`, is left off: whoever typed it there
        would have the account of whose it is, or would share the one that he gets later.

        The user name is what people call themselves at the provider, a first name or what was free:
        no rule makes a Unix user of it, FLEETWATCH_OIDC_USER_CLAIM does.
        """
        verified = [each for each in sociallogin.email_addresses if each.verified is True]
        sociallogin.email_addresses = verified
        address = verified[0].email if verified else ""
        user: User = super().populate_user(request, sociallogin, {**data, "email": address})
        user.chose_name = True
        return user

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """The provider is for logging in: to join its person to the account that is logged in, a
        stranger's link would do.
        """
        if sociallogin.state.get("process") == AuthProcess.CONNECT:
            raise ImmediateHttpResponse(redirect("me"))

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> User:
        try:
            with transaction.atomic():
                user: User = super().save_user(request, sociallogin, form)
        except IntegrityError as error:
            messages.error(request, "Your user name was given away at this moment: log in again.")
            raise ImmediateHttpResponse(redirect("account_login")) from error
        record("person.create", user.username, role=user.role, email=user.email)
        follow_rules(user, list(NameRule.objects.all()), now=timezone.now())
        return user


@receiver(user_logged_in)
def _follow(user: User, sociallogin: Any = None, **_: Any) -> None:
    """What the provider says is so from this log-in on."""
    if sociallogin is None:
        return
    answer = sociallogin.account.extra_data
    # either may lack what the other has: of some providers only the token names groups
    follow(user, (answer.get("id_token") or {}) | (answer.get("userinfo") or {}))


def follow(user: User, claims: Mapping[str, Any]) -> None:
    """Gives the user what the claims say: role, teams, names in other systems."""
    mapped = GroupMap(settings.OIDC_ROLES, settings.OIDC_TEAMS)
    follow_groups(user, _groups(claims.get(settings.OIDC_GROUPS_CLAIM)), mapped)
    source = Identity.Source.PROVIDER
    follow_name(user, Identity.System.OIDC, str(claims["sub"]), source=source)
    if settings.OIDC_USER_CLAIM and claims.get(settings.OIDC_USER_CLAIM):
        name = str(claims[settings.OIDC_USER_CLAIM])
        follow_name(user, Identity.System.UNIX, name, source=source)


def _groups(claim: object) -> Collection[str]:
    """Whole names of groups: one that is no list is one name, and no part of it is another."""
    if isinstance(claim, str):
        return {claim}
    return {each for each in claim if isinstance(each, str)} if isinstance(claim, list) else set()
