"""Forms that ask for a code of a second factor, and how often one may be guessed.

Whoever is asked for one has shown the password, so tries are counted by person, wherever they come
from: five, then one after a minute, two, four, up to a quarter of an hour. A browser that the
person logged in with before counts for itself.
"""

from typing import Any

from allauth.core import context
from allauth.mfa.base import forms
from django.core.exceptions import ValidationError

from fleetwatch.accounts.clients import UNKNOWN
from fleetwatch.accounts.log_in import throttle
from fleetwatch.accounts.log_in.devices import device_of
from fleetwatch.accounts.models import User


def _begin(user: User) -> throttle.Guess:
    """A try that counts as wrong until it succeeds. Raises ValidationError."""
    device = device_of(context.request, throttle.one_name(user.get_username()))
    try:
        return throttle.begin(f"second factor of {user.pk}", UNKNOWN, device=device)
    except throttle.TooManyTriesError as error:
        raise ValidationError(
            f"Too many wrong codes: the next try is in {error.wait_s} seconds."
        ) from error


class _Counting:
    user: User

    def clean_code(self) -> str:
        guess = _begin(self.user)
        code: Any = super().clean_code()  # type: ignore[misc]
        throttle.succeed(guess)
        return str(code)


class AuthenticateForm(_Counting, forms.AuthenticateForm):  # type: ignore[misc]
    """At the log-in, after the password."""


class ReauthenticateForm(_Counting, forms.ReauthenticateForm):  # type: ignore[misc]
    """Before something that wants to be sure who is there."""
