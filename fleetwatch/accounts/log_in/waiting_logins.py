"""Command lines that wait for a person to let them in (https://www.rfc-editor.org/rfc/rfc8628).

The command line shows a short code; a person who is logged in types it, sees who asks, and
confirms. The long code, which the command line alone has, then is a token that reads: no secret is
kept or sent again, and there is none before somebody confirmed.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.clients import network_of
from fleetwatch.accounts.log_in import throttle
from fleetwatch.accounts.models import DeviceLogin, User
from fleetwatch.accounts.services import (
    READ,
    TokenTerms,
    authenticate_api_token,
    digest,
    grant_token,
    hint,
    new_secret,
    revoke_api_token,
)
from fleetwatch.lib.refusal import RefusedFieldError

TTL = timedelta(minutes=10)
INTERVAL_S = 3  # between two questions of one command line
TOO_SOON = timedelta(seconds=INTERVAL_S - 1)  # a clock and a network are not exact
MAX_WAITING = 1000
MAX_OF_NETWORK = 20  # that wait at once: people of one login node share an address
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: no words, and none that looks like a digit
CODE_LENGTH = 8  # 2.6e10 codes, of which at most MAX_WAITING are right, for ten minutes
DAYS = (7, 30, 90)  # that a token may hold
MAX_HOST = 100


@dataclass(frozen=True, slots=True)
class NewLogin:
    """What a command line is told: the long code, which is its secret, and the one to be typed."""

    device_code: str
    user_code: str


class TooManyWaitError(Exception):
    """So many wait already that no more begin."""


@transaction.atomic
def begin(host: str, address: str, now: datetime) -> NewLogin:
    """A log-in that waits for ten minutes. Raises TooManyWaitError."""
    DeviceLogin.objects.filter(expires_at__lte=now).delete()
    network = network_of(address, ipv4=32, ipv6=throttle.IPV6_BITS)
    waiting = DeviceLogin.objects
    if waiting.count() >= MAX_WAITING or waiting.filter(network=network).count() >= MAX_OF_NETWORK:
        raise TooManyWaitError
    new = NewLogin(new_secret(), "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH)))
    DeviceLogin.objects.create(
        digest=digest(new.device_code),
        hint=hint(new.device_code),
        user_code=new.user_code,
        host=_printable(host),
        address=address,
        network=network,
        expires_at=now + TTL,
    )
    return new


def _printable(host: str) -> str:
    return "".join(each for each in host if each.isprintable()).strip()[:MAX_HOST] or "a host"


def in_words(user_code: str) -> str:
    """The code as it is read: BCDF-GHJK."""
    return f"{user_code[:4]}-{user_code[4:]}"


def waiting_login(typed: str, user: User, address: str, now: datetime) -> DeviceLogin | None:
    """The log-in that waits under the code, however it is typed; None where there is none.

    Raises TooManyTriesError: codes are guessed no faster than passwords.
    """
    code = "".join(each for each in typed.upper() if each in LETTERS)
    guess = throttle.begin(f"device code of {user.pk}", address)
    login = DeviceLogin.objects.filter(user_code=code, expires_at__gt=now, refused_at=None).first()
    if login is not None:
        throttle.succeed(guess)
    return login


@transaction.atomic
def confirm(login_id: int, user: User, days: int, now: datetime) -> str:
    """Makes the command line's code a token that reads as the user for so many days; the host.

    Raises RefusedFieldError where it does not wait any more, and for other days than DAYS.
    """
    if days not in DAYS:
        raise RefusedFieldError(f"days are one of {', '.join(map(str, DAYS))}", field="days")
    login = _waits(login_id, now)
    terms = TokenTerms(
        READ, f"command line on {login.host}"[:100], expires_at=now + timedelta(days=days)
    )
    grant_token(user, terms, login.digest, login.hint, now)
    login.delete()
    return login.host


@transaction.atomic
def refuse(login_id: int, user: User, now: datetime) -> str:
    """Ends the log-in; the host. Raises RefusedFieldError where it does not wait any more."""
    login = _waits(login_id, now)
    login.refused_at = now
    login.save(update_fields=["refused_at"])
    record("token.refuse", f"command line on {login.host}", address=login.address)
    return login.host


def _waits(login_id: int, now: datetime) -> DeviceLogin:
    login = (
        DeviceLogin.objects.select_for_update()
        .filter(pk=login_id, expires_at__gt=now, refused_at=None)
        .first()
    )
    if login is None:
        raise RefusedFieldError("It does not wait any more: begin again there.", field="code")
    return login


@transaction.atomic
def outcome(device_code: str, now: datetime) -> str:
    """ "" once the code is a token; else the error by its name in RFC 8628, section 3.5."""
    login = DeviceLogin.objects.select_for_update().filter(digest=digest(device_code)).first()
    if login is None:
        return "" if authenticate_api_token(device_code, now) else "expired_token"
    if login.refused_at is not None:
        return "access_denied"
    if login.expires_at <= now:
        return "expired_token"
    is_soon = login.asked_at is not None and now - login.asked_at < TOO_SOON
    login.asked_at = now
    login.save(update_fields=["asked_at"])
    return "slow_down" if is_soon else "authorization_pending"


def end(token: str, now: datetime) -> bool:
    """Revokes the token by its own word; False where it is none that is in force."""
    user = authenticate_api_token(token, now)
    if user is None or user.token is None:
        return False
    revoke_api_token(user.token.pk, now)
    return True
