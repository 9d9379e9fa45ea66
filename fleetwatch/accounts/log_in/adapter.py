"""How allauth behaves here: no open sign-up, and a throttle of passwords that locks no name out."""

from typing import Any, ClassVar

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from fleetwatch.accounts.clients import client_of
from fleetwatch.accounts.log_in import devices, throttle
from fleetwatch.accounts.log_in.throttle import one_name
from fleetwatch.lib.ldap.ldap_directory import DirectoryError

SILENT = (
    "Your organisation’s directory does not answer, so its people can’t log in at the moment."
    " Accounts with a password of their own here can."
)
BEGUN = "log_in_began"  # in a session: with which password
MINUTE_S = 60  # allauth's limit of an address is per minute

log = structlog.get_logger(__name__)


class Adapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Accounts are made by an admin, never by a visitor."""

    error_messages: ClassVar = DefaultAccountAdapter.error_messages | {
        "username_password_mismatch": "This user name and password do not belong together."
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        return client_of(request)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Answers 429, without a look at the password, where the address has to wait: for all names
        or for this one.
        """
        name = one_name(credentials.get("username", ""))
        device = devices.device_of(request, name)
        try:
            if device is None:
                super().pre_authenticate(request, **credentials)
            self._guess = throttle.begin(name, client_of(request), device=device)
        except ValidationError as error:
            raise ImmediateHttpResponse(_refusal(request, MINUTE_S)) from error
        except throttle.TooManyTriesError as error:
            raise ImmediateHttpResponse(_refusal(request, error.wait_s)) from error

    def authenticate(self, request: HttpRequest, **credentials: Any) -> AbstractBaseUser | None:
        """Raises ValidationError, for the form, where a directory that may know does not answer."""
        try:
            user: AbstractBaseUser | None = super().authenticate(request, **credentials)
        except DirectoryError as error:
            raise ValidationError(SILENT) from error
        if user is not None:
            throttle.succeed(self._guess)
        return user

    def pre_login(
        self, request: HttpRequest, user: AbstractBaseUser, **options: Any
    ) -> HttpResponse | None:
        response: HttpResponse | None = super().pre_login(request, user, **options)
        request.session[BEGUN] = user.get_session_auth_hash()
        return response

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """A log-in that waited for a second factor is over where the password is another since, or
        the person is out.
        """
        is_same = request.session.pop(BEGUN, "") == user.get_session_auth_hash()
        if not is_same or not user.is_active:
            raise ImmediateHttpResponse(redirect("account_login"))
        super().login(request, user)

    def post_login(
        self, request: HttpRequest, user: AbstractBaseUser, **options: Any
    ) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **options)
        devices.remember(response, one_name(user.get_username()))
        return response


def _refusal(request: HttpRequest, wait_s: int) -> HttpResponse:
    log.warning("log-in refused", address=client_of(request), wait_s=wait_s)
    response = render(request, "429.html", {"wait_s": wait_s}, status=429)
    response["Retry-After"] = str(wait_s)
    return response
