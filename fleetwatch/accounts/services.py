"""Writes of accounts: users, API tokens."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Q

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import ApiToken, Organisation, Team, User
from fleetwatch.accounts.permissions import WITHIN, role_of
from fleetwatch.lib.refusal import RefusedFieldError

ADMIN = "admin"
READ = "read"
WRITE = "write"  # decides about findings too
SCOPES = (READ, WRITE)
MAX_DAYS = 366  # of a token that ends
MAX_TOKENS = 100  # of one person, in force: everybody may make some
HINT_CHARACTERS = 8
# a token's last use is for people: to the minute is enough, and a write per request is not
LAST_USE_RESOLUTION = timedelta(minutes=1)


def new_secret() -> str:
    """A new token: `fw_` and 256 random bits, URL-safe."""
    return f"fw_{secrets.token_urlsafe(32)}"


def digest(text: str) -> str:
    """SHA-256 of a token, as it is stored: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hint(text: str) -> str:
    """The first characters of a token, to recognise it by."""
    return text[:HINT_CHARACTERS]


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """What a token may and until when; without a role what its user may, without an end until it is
    revoked.
    """

    scope: str
    name: str = ""
    role: str = ""
    expires_at: datetime | None = None


@transaction.atomic
def create_api_token(
    user: User,
    *,
    scope: str,
    now: datetime,
    name: str = "",
    role: str = "",
    expires_at: datetime | None = None,
) -> str:
    """A new token of the user, shown only here; without a role it may what its user may.

    Raises RefusedFieldError for an unknown scope, and for a role that may more than the user.
    """
    text = new_secret()
    grant_token(user, TokenTerms(scope, name, role, expires_at), digest(text), hint(text), now)
    return text


def grant_token(user: User, terms: TokenTerms, digest: str, hint: str, now: datetime) -> None:
    """Lets the secret of that digest speak for the user from now on.

    Raises RefusedFieldError for an unknown scope, and for a role that may more than the user.
    """
    _check_token(user, terms.scope, terms.role)
    _check_number(user, now)
    facts = {"scope": terms.scope, "role": terms.role, "name": terms.name}
    ApiToken.objects.create(
        user=user,
        digest=digest,
        hint=hint,
        created_at=now,
        expires_at=terms.expires_at,
        **facts,
    )
    until = terms.expires_at.isoformat() if terms.expires_at else ""
    record("token.create", f"API token {hint}… of {user.username}", until=until, **facts)


def _check_token(user: User, scope: str, role: str) -> None:
    if scope not in SCOPES:
        raise RefusedFieldError(
            f"unknown scope {scope!r}; there is {', '.join(SCOPES)}", field="scope"
        )
    if role and role not in WITHIN[role_of(user)]:
        raise RefusedFieldError(f"{user.username} may not what {role!r} may", field="role")


def _check_number(user: User, now: datetime) -> None:
    in_force = ApiToken.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)
    if in_force.filter(user=user).count() >= MAX_TOKENS:
        raise RefusedFieldError(
            f"a person has at most {MAX_TOKENS} tokens: revoke one first", field="name"
        )


def authenticate_api_token(text: str, now: datetime, *, scope: str = READ) -> User | None:
    """The active user that the token speaks for, with the token, which bounds what he may; None
    when it is unknown, expired, revoked or made for less than `scope`.
    """
    token = (
        ApiToken.objects.filter(
            Q(expires_at__isnull=True) | Q(expires_at__gt=now),
            digest=digest(text),
            revoked_at__isnull=True,
            user__is_active=True,
        )
        .select_related("user")
        .first()
    )
    if token is None or scope not in (READ, token.scope):
        return None
    if token.last_used_at is None or now - token.last_used_at >= LAST_USE_RESOLUTION:
        token.last_used_at = now
        token.save(update_fields=["last_used_at"])
    token.user.token = token
    return token.user


@transaction.atomic
def revoke_api_token(token_id: int, now: datetime) -> None:
    """Ends the token at once; one that was revoked before keeps its time."""
    token = ApiToken.objects.filter(pk=token_id, revoked_at=None).select_related("user").first()
    if token is None:
        return
    token.revoked_at = now
    token.save(update_fields=["revoked_at"])
    record("token.revoke", f"API token {token.hint}… of {token.user.username}")


@transaction.atomic
def ensure_admin(password: str | None) -> str | None:
    """The password of the admin account when this call made it, else None.

    Without a password a random one of 128 bits is made; the caller shows it once.
    An instance that already has a user who may administer is left alone.
    """
    if User.objects.filter(Q(role=User.Role.ADMIN) | Q(is_superuser=True), is_active=True).exists():
        return None
    chosen = password or secrets.token_urlsafe(16)
    user, _ = User.objects.get_or_create(username__iexact=ADMIN, defaults={"username": ADMIN})
    user.role = User.Role.ADMIN
    user.is_active = True
    user.set_password(chosen)
    user.save(update_fields=["role", "is_active", "password"])
    record("person.first_admin", user.username)
    return chosen


def ensure_teams(slugs: set[str]) -> dict[str, int]:
    """Slug -> team id; teams that are new are made with the slug as their name."""
    ids = dict(Team.objects.filter(slug__in=slugs).values_list("slug", "id"))
    if missing := slugs - ids.keys():
        # sorted: two batches that name the same new teams wait for each other and do not deadlock
        Team.objects.bulk_create(
            [Team(slug=slug, name=slug) for slug in sorted(missing)], ignore_conflicts=True
        )
        ids = dict(Team.objects.filter(slug__in=slugs).values_list("slug", "id"))
    return ids


@transaction.atomic
def set_organisation(*, name: str, time_zone: ZoneInfo) -> None:
    """The organisation's name and zone.

    Another zone moves the cuts of the ledger: the caller has its hours posted again.
    """
    Organisation.objects.update_or_create(pk=1, defaults={"name": name, "time_zone": time_zone.key})
    record("organisation.set", name, time_zone=time_zone.key)
