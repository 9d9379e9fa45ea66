"""Second factors as allauth keeps them: encrypted at rest, recorded in the audit log, and required
of everybody where the organisation says so.
"""

from collections.abc import Callable
from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed
from cryptography.fernet import InvalidToken, MultiFernet
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import OuterRef, QuerySet
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import Organisation, User
from fleetwatch.accounts.selectors import organisation
from fleetwatch.accounts.sessions import SessionStore
from fleetwatch.lib.keyring import keyring

PURPOSE = b"fw.second.factor"
SECRETS = ("secret", "seed")  # of an app, of recovery codes
OWED = "owes_second_factor"  # in a session
# where somebody who owes one may go: to add it, or out
OPEN = ("/accounts/", "/static/", "/theme")

Respond = Callable[[HttpRequest], HttpResponse]


class Adapter(DefaultMFAAdapter):  # type: ignore[misc]
    """How allauth's second factors behave here."""

    def encrypt(self, text: str) -> str:
        return _ring().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _ring().decrypt(encrypted_text).decode()

    def get_totp_issuer(self) -> str:
        return f"FleetWatch {organisation().name}"


def _ring() -> MultiFernet:
    return keyring([settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS], PURPOSE)


@transaction.atomic
def rotate_secrets() -> dict[str, int]:
    """Re-encrypts every secret of a factor by the first key; how many factors, and how many no key
    opens.
    """
    did = {"rotated": 0, "unreadable": 0}
    for factor in Authenticator.objects.select_for_update():
        secrets = {name: factor.data[name] for name in SECRETS if name in factor.data}
        try:
            factor.data |= {name: _rotated(text) for name, text in secrets.items()}
        except InvalidToken:
            did["unreadable"] += 1
            continue
        factor.save(update_fields=["data"])
        did["rotated"] += bool(secrets)
    return did


def _rotated(text: str) -> str:
    return _ring().rotate(text.encode()).decode()


def is_required() -> bool:
    """Whether everybody logs in with a second factor."""
    return Organisation.objects.filter(needs_second_factor=True).exists()


def has_factor(user: User) -> bool:
    """Whether the user logs in with a second factor."""
    return factors(user).exists()


def factors(user: User | OuterRef) -> QuerySet[Authenticator]:
    """The second factors of the user; recovery codes alone are none."""
    every: QuerySet[Authenticator] = Authenticator.objects.filter(user=user)
    return every.exclude(type=Authenticator.Type.RECOVERY_CODES)


@transaction.atomic
def drop_factors(user: User) -> None:
    """For who lost them: the password alone lets in until another is added."""
    Authenticator.objects.filter(user=user).delete()
    record("login.factor_drop", user.get_username())
    if is_required():
        _note_everywhere()


@transaction.atomic
def set_required(required: bool) -> None:
    """Whether everybody logs in with a second factor; who has none and is logged in owes it."""
    Organisation.objects.update_or_create(pk=1, defaults={"needs_second_factor": required})
    record("organisation.second_factor", "", required=required)
    if required:
        _note_everywhere()


def _note_everywhere() -> None:
    """Whoever is logged in without a second factor owes it, in each session."""
    for session in Session.objects.all():
        facts = session.get_decoded()
        user = User.objects.filter(pk=facts.get(SESSION_KEY, 0)).first()
        if user is not None and not has_factor(user):
            session.session_data = SessionStore().encode(facts | {OWED: True})
            session.save(update_fields=["session_data"])


def require(respond: Respond) -> Respond:
    """Leads who owes a second factor to where it is added."""

    def answer(request: HttpRequest) -> HttpResponse:
        owes = request.session.get(OWED) and not request.path.startswith(OPEN)
        if not owes or not is_required():
            return respond(request)
        messages.info(request, "Your organisation requires a second factor: add one, please.")
        return redirect("mfa_index")

    return answer


@receiver(user_logged_in)
def _note_owed(request: HttpRequest, user: User, **_: Any) -> None:
    if is_required() and not has_factor(user):
        request.session[OWED] = True


@receiver(authenticator_added)
def _added(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record("login.factor_add", user.get_username(), kind=authenticator.type)
    if has_factor(user):
        request.session.pop(OWED, None)


@receiver(authenticator_removed)
def _removed(request: HttpRequest, user: User, authenticator: Authenticator, **_: Any) -> None:
    record("login.factor_remove", user.get_username(), kind=authenticator.type)
    if is_required() and not has_factor(user):
        _note_everywhere()
        request.session[OWED] = True
