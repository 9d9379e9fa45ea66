"""Log-in by the organisation's directory: who has an entry there, and its password, has an account.

An account that is entered by other ways (a password of its own here, a provider) is not the entry's
of the same name: an admin joins the two by giving it the entry's name.
"""

import secrets
from contextlib import suppress
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from fleetwatch.accounts import people
from fleetwatch.accounts.log_in.group_mapping import GroupMap, follow_groups, follow_name
from fleetwatch.accounts.models import Identity, User
from fleetwatch.lib.ldap.ldap_client import enter
from fleetwatch.lib.ldap.ldap_directory import Directory, DirectoryError, Entry, NoServerError
from fleetwatch.lib.refusal import RefusedFieldError

SILENT = "directory-is-silent"
# after that a directory that did not answer is asked again: until then nobody waits for it, and
# nobody's log-in waits behind theirs
SILENT_S = 15
MAX_ADDRESS = 254  # a user's column

log = structlog.get_logger(__name__)


class Backend(ModelBackend):
    """One of Django's: the account whose entry the password opens."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **_: Any,
    ) -> User | None:
        """None where it opens none. Raises DirectoryError where the directory does not answer."""
        name = (username or "").strip()
        directory = settings.DIRECTORY
        if not name or not password or directory is None:
            return None
        if _is_entered_otherwise(name):
            _ask_of_nobody(directory)
            return None
        entry = _entered(directory, name, password)
        return None if entry is None else _account(entry)


def _ask_of_nobody(directory: Directory) -> None:
    """Takes as long as to ask of a name that nobody has: the time names no local account, and the
    directory is told neither its name nor what was typed for it.
    """
    with suppress(DirectoryError):
        _entered(directory, secrets.token_hex(8), secrets.token_hex(8))


def _entered(directory: Directory, name: str, password: str) -> Entry | None:
    if cache.get(SILENT):
        raise DirectoryError("it did not answer just now")
    try:
        return enter(directory, name, password)
    except NoServerError as error:
        cache.set(SILENT, 1, SILENT_S)
        log.warning("directory does not answer", reason=str(error))
        raise


def _linked(name: str) -> User | None:
    """Whose account the entry of that name opens."""
    identity = (
        Identity.objects.filter(
            system=Identity.System.DIRECTORY, name__iexact=name, confirmed_at__isnull=False
        )
        .order_by("confirmed_at")
        .select_related("user")
        .first()
    )
    return None if identity is None else identity.user


def _is_entered_otherwise(name: str) -> bool:
    """Whether the account of that name is not for the directory: its password is not sent there."""
    user = User.objects.filter(username__iexact=name).first()
    if user is None or _linked(name) is not None:
        return False
    return (
        user.has_usable_password()
        or user.identities.filter(system=Identity.System.OIDC).exists()
        or user.identities.filter(system=Identity.System.DIRECTORY).exists()
    )


@transaction.atomic
def _account(entry: Entry) -> User | None:
    """The entry's account as the directory says it is now, made where there is none; None for one
    that an admin ended, and for a name that no account can have.
    """
    if _is_entered_otherwise(entry.name):
        return None
    user = _linked(entry.name) or User.objects.filter(username__iexact=entry.name).first()
    mail = _address(entry.mail, user)
    if user is None:
        new = people.NewPerson(entry.name, mail)
        try:
            user = people.create_person(new, now=timezone.now())
        except RefusedFieldError as error:
            log.warning("entry has no account", name=entry.name, reason=str(error))
            return None
    if user.left_directory_at is not None:
        people.activate(user)
    if not user.is_active:
        return None
    follow(user, entry, mail)
    return user


def follow(user: User, entry: Entry, mail: str) -> None:
    """Gives the user what the entry says: address, role, teams, names in other systems."""
    if mail and mail != user.email:
        people.set_email(user, mail)
    mapped = GroupMap(settings.DIRECTORY_ROLES, settings.DIRECTORY_TEAMS)
    follow_groups(user, entry.groups, mapped)
    source = Identity.Source.DIRECTORY
    follow_name(user, Identity.System.DIRECTORY, entry.name, source=source)
    if entry.unix_name:
        follow_name(user, Identity.System.UNIX, entry.unix_name, source=source)


def _address(mail: str, user: User | None) -> str:
    """The address, where it is one that the account can have; else "".

    One of another account is not: by an address a provider's person is known (single_sign_on.py).
    """
    try:
        validate_email(mail)
    except ValidationError:
        return ""
    others = User.objects.filter(email__iexact=mail)
    if user is not None:
        others = others.exclude(pk=user.pk)
    return mail if len(mail) <= MAX_ADDRESS and not others.exists() else ""
