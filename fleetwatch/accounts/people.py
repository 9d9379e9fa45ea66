"""Writes of people: accounts, invitations, teams and names in other systems.

Each refuses with a RefusedFieldError: which field is wrong and what to do.
"""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from fleetwatch.accounts.audit import record
from fleetwatch.accounts.models import (
    ApiToken,
    Identity,
    Invitation,
    Membership,
    NameRule,
    Team,
    User,
)
from fleetwatch.accounts.names.name_rules import ClusterName, names_by
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.services import digest, new_secret
from fleetwatch.lib.refusal import RefusedFieldError, is_name

INVITATION_TTL = timedelta(days=7)
MAX_NAME = 255
MAX_CLUSTER = 128
MAX_CLAIMS = 50  # of one person: whoever is logged in may claim some
IS_ADMIN = Q(role=User.Role.ADMIN) | Q(is_superuser=True)


@dataclass(frozen=True, slots=True)
class NewPerson:
    """An account to be made; without a password it is entered by other ways alone (a provider, a
    directory, an invitation).
    """

    username: str
    email: str = ""
    role: str = User.Role.ENGINEER
    team: Team | None = None
    password: str | None = None
    chose_name: bool = False  # then it says nothing of who he is elsewhere


@transaction.atomic
def create_person(new: NewPerson, *, now: datetime) -> User:
    """The account, in its team from now on. Raises RefusedFieldError."""
    name = User.normalize_username(new.username.strip())
    user = User(username=name, email=new.email.strip(), role=new.role, chose_name=new.chose_name)
    _check_person(user)
    if new.password is None:
        user.set_unusable_password()
    else:
        set_password(user, new.password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise RefusedFieldError(
            f"there is a {user.username!r} already", field="username"
        ) from error
    record("person.create", user.username, role=user.role, email=user.email)
    if new.team is not None:
        join(user, new.team, since=now)
    follow_rules(user, list(NameRule.objects.all()), now=now)
    return user


def _check_role(role: str) -> None:
    if role not in User.Role.values:
        raise RefusedFieldError(f"there is no role {role!r}", field="role")


def _check_person(user: User) -> None:
    """Raises RefusedFieldError for a name, an address or a role that none can have."""
    _check_role(user.role)
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise RefusedFieldError(messages[0], field=field) from error
    # at the log-in large and small letters are one: two such accounts would shut each other out
    if User.objects.filter(username__iexact=user.username).exclude(pk=user.pk).exists():
        raise RefusedFieldError(f"there is a {user.username!r} already", field="username")


def set_password(user: User, password: str) -> None:
    """Sets it on the account, which is not saved.

    Raises RefusedFieldError for one that is too weak.
    """
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise RefusedFieldError(" ".join(error.messages), field="password") from error
    user.set_password(password)


@transaction.atomic
def give_password(user: User) -> str:
    """A random password of 128 bits, shown only here; sessions of before end.

    Raises RefusedFieldError for a person who is out.
    """
    if not user.is_active:
        raise RefusedFieldError(f"{user.username} may not log in: let the person in first")
    password = secrets.token_urlsafe(16)
    user.set_password(password)
    user.save(update_fields=["password"])
    record("person.password", user.username)
    return password


@transaction.atomic
def set_email(user: User, email: str) -> None:
    """Where the person is written to from now on. Raises RefusedFieldError for no address."""
    user.email = email.strip()
    _check_person(user)
    user.save(update_fields=["email"])
    record("person.email", user.username, email=user.email)
    follow_rules(user, list(NameRule.objects.all()), now=timezone.now())


@transaction.atomic
def set_role(user: User, role: str) -> None:
    """The role, and with it Django's superuser flag where that would give more.

    Raises RefusedFieldError where nobody could administer any more.
    """
    _check_role(role)
    if role != User.Role.ADMIN:
        _keep_an_admin(user)
    before = role_of(user)
    user.role = role
    user.is_superuser = user.is_superuser and role == User.Role.ADMIN
    user.save(update_fields=["role", "is_superuser"])
    record("person.role", user.username, before=before, role=role)


@transaction.atomic
def deactivate(user: User, *, now: datetime) -> None:
    """Ends the person's sessions, password and tokens at once, and the time in teams; what was done
    stays. Without the password no session of before lives again with the account.

    Raises RefusedFieldError where nobody could administer any more.
    """
    _keep_an_admin(user)
    user.is_active = False
    user.left_directory_at = None
    user.set_unusable_password()
    user.save(update_fields=["is_active", "left_directory_at", "password"])
    ended = _revoke_tokens(user, now)
    Membership.objects.filter(user=user, valid_until=None, valid_from__lt=now).update(
        valid_until=now
    )
    Membership.objects.filter(user=user, valid_until=None).delete()
    record("person.deactivate", user.username, tokens=ended)


def _revoke_tokens(user: User, now: datetime) -> int:
    """How many of the person's API tokens that ended."""
    return ApiToken.objects.filter(user=user, revoked_at=None).update(revoked_at=now)


@transaction.atomic
def sign_out(user: User, *, now: datetime) -> None:
    """Ends the person's sessions, log-ins that wait for a second factor, and tokens, everywhere;
    the password stays.
    """
    user.signed_out_at = now
    user.save(update_fields=["signed_out_at"])
    record("person.sign_out", user.username, tokens=_revoke_tokens(user, now))


@transaction.atomic
def leave_directory(user: User, *, now: datetime) -> None:
    """Ends the account of who has no entry in the directory any more, until the entry is back; of
    the last admin sessions and tokens alone, once.
    """
    before = user.left_directory_at
    try:
        deactivate(user, now=now)
    except RefusedFieldError:
        if before is not None:
            return
        sign_out(user, now=now)
    user.left_directory_at = now
    user.save(update_fields=["left_directory_at"])
    record("person.leave_directory", user.username)


@transaction.atomic
def activate(user: User) -> None:
    """Lets the person log in again, with a new password; tokens and teams of before stay ended.
    Names are what the rules of today say.
    """
    user.is_active = True
    user.left_directory_at = None
    user.save(update_fields=["is_active", "left_directory_at"])
    record("person.activate", user.username)
    follow_rules(user, list(NameRule.objects.all()), now=timezone.now())


def _keep_an_admin(user: User) -> None:
    """Of two admins who do so to each other at the same moment the second waits and is refused."""
    admins = User.objects.select_for_update().filter(IS_ADMIN, is_active=True).order_by("pk")
    if [each.pk for each in admins] == [user.pk]:
        raise RefusedFieldError("somebody has to stay admin: make another one first", field="role")


@transaction.atomic
def join(user: User, team: Team, *, since: datetime) -> None:
    """Puts the person into the team; where he is in it already nothing changes."""
    _, is_new = Membership.objects.get_or_create(
        user=user, team=team, valid_until=None, defaults={"valid_from": since}
    )
    if is_new:
        record(
            "person.join", user.username, team=team.slug, since=since.isoformat(timespec="seconds")
        )


@transaction.atomic
def leave(user: User, team: Team, *, at: datetime) -> None:
    """Ends the person's time in the team; where he is not in it nothing changes.

    Raises RefusedFieldError for a moment before he joined.
    """
    membership = Membership.objects.filter(user=user, team=team, valid_until=None).first()
    if membership is None:
        return
    if at <= membership.valid_from:
        raise RefusedFieldError(
            f"{user.username} joined {team.slug} at {membership.valid_from:%Y-%m-%d %H:%M} UTC",
            field="at",
        )
    membership.valid_until = at
    membership.save(update_fields=["valid_until"])
    record("person.leave", user.username, team=team.slug, at=at.isoformat(timespec="seconds"))


def teams_of(user: User, at: datetime) -> list[Team]:
    """The person's teams at that moment, by slug."""
    return list(
        Team.objects.filter(
            Q(memberships__valid_until=None) | Q(memberships__valid_until__gt=at),
            memberships__user=user,
            memberships__valid_from__lte=at,
        )
        .distinct()
        .order_by("slug")
    )


def teams_led(user: User, at: datetime) -> list[Team]:
    """The teams that a lead is in at that moment, by slug; of who is no lead none."""
    is_lead = user.is_active and role_of(user) == User.Role.LEAD
    return teams_of(user, at) if is_lead else []


def leads(user: User, team: Team | None, at: datetime) -> bool:
    """Whether the person is a lead, and in that team at that moment."""
    return team is not None and team in teams_led(user, at)


def members(teams: Iterable[Team], at: datetime) -> QuerySet[Membership, Any]:
    """The ids of who is in one of the teams at that moment, as a query."""
    return Membership.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=at), team__in=list(teams), valid_from__lte=at
    ).values("user")


def members_by_team(at: datetime) -> dict[int, list[User]]:
    """By a team's id the people with an account that are in it at that moment, by name."""
    rows = Membership.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=at), valid_from__lte=at, user__is_active=True
    )
    by_team: dict[int, list[User]] = defaultdict(list)
    for row in rows.select_related("user").order_by("user__username"):
        by_team[row.team_id].append(row.user)
    return by_team


@dataclass(frozen=True, slots=True)
class Name:
    """A name in another system; `cluster` "" is every cluster."""

    system: str
    name: str
    cluster: str = ""


@transaction.atomic
def give_name(user: User, name: Name, *, source: str, now: datetime) -> Identity:
    """The name is the person's from now on; a claim of his own, once it is confirmed.

    Raises RefusedFieldError for a system that there is not, and for a name that is somebody else's.
    """
    if name.system not in Identity.System.values:
        raise RefusedFieldError(f"there is no system {name.system!r}", field="system")
    text = name.name.strip()
    _check_name(text, name.cluster.strip())
    if source == Identity.Source.CLAIM:
        _check_claims(user)
    identity, is_new = Identity.objects.get_or_create(
        user=user,
        system=name.system,
        cluster=name.cluster.strip(),
        name=text,
        defaults={"source": source, "created_at": now},
    )
    if is_new:
        record("name.give", user.username, system=name.system, name=text, source=source)
    if source != Identity.Source.CLAIM:
        _vouch(identity, source)
        confirm_name(identity, now=now)
    return identity


def _check_claims(user: User) -> None:
    """Claims alone are bounded: what others say of a person can't be kept out by claiming much."""
    if user.identities.filter(source=Identity.Source.CLAIM).count() >= MAX_CLAIMS:
        raise RefusedFieldError(
            f"a person claims at most {MAX_CLAIMS} names: remove one first", field="name"
        )


def _vouch(identity: Identity, source: str) -> None:
    """The name is from that source now, where it was claimed only, or given by a rule: it goes with
    who vouches for it.
    """
    is_weak = identity.confirmed_at is None or identity.source == Identity.Source.RULE
    if is_weak and identity.source != source:
        identity.source = source
        identity.save(update_fields=["source"])


def _check_name(text: str, cluster: str) -> None:
    if not text or not is_name(text, longest=MAX_NAME):
        raise RefusedFieldError("a name has 1 to 255 characters, on one line", field="name")
    check_cluster(cluster)


def check_cluster(cluster: str) -> None:
    """Raises RefusedFieldError for what no cluster is called; "" is every cluster."""
    if not is_name(cluster, longest=MAX_CLUSTER):
        raise RefusedFieldError(
            "a cluster has at most 128 characters, on one line", field="cluster"
        )


@transaction.atomic
def confirm_name(identity: Identity, *, now: datetime) -> None:
    """The name counts from now on; twice changes nothing. Raises RefusedFieldError."""
    if identity.confirmed_at is not None:
        return
    identity.confirmed_at = now
    try:
        with transaction.atomic():
            identity.save(update_fields=["confirmed_at"])
    except IntegrityError as error:
        raise RefusedFieldError(f"{identity.name!r} is somebody else’s", field="name") from error
    record("name.confirm", identity.user.username, system=identity.system, name=identity.name)


@transaction.atomic
def take_name(identity: Identity) -> None:
    """The name is nobody's any more."""
    record("name.take", identity.user.username, system=identity.system, name=identity.name)
    identity.delete()


@dataclass(frozen=True, slots=True)
class RuledName:
    """A Unix user that a rule makes a person, or can't for the reason in `refused`."""

    user: str
    cluster: str
    name: str
    refused: str = ""


@transaction.atomic
def follow_rules(user: User, rules: Sequence[NameRule], *, now: datetime) -> list[RuledName]:
    """What the rules give to the user that was not so before, and what they can't give; what they
    gave and do not any more is taken.
    """
    wanted = names_by(rules, user)
    unix = [each for each in user.identities.all() if each.system == Identity.System.UNIX]
    for identity in unix:
        if identity.source == Identity.Source.RULE and _place(identity) not in wanted:
            take_name(identity)
    standing = {_place(identity) for identity in unix if identity.confirmed_at is not None}
    return [_ruled(user, *place, now=now) for place in sorted(wanted - standing)]


def _place(identity: Identity) -> ClusterName:
    return identity.cluster, identity.name


def _ruled(user: User, cluster: str, name: str, *, now: datetime) -> RuledName:
    try:
        given = Name(Identity.System.UNIX, name, cluster)
        with transaction.atomic():
            give_name(user, given, source=Identity.Source.RULE, now=now)
    except RefusedFieldError as error:
        return RuledName(user.username, cluster, name, str(error))
    return RuledName(user.username, cluster, name)


@dataclass(frozen=True, slots=True)
class Invited:
    """What an invitation gives."""

    role: str
    email: str = ""
    team: Team | None = None


@transaction.atomic
def invite(invited: Invited, *, by: User, now: datetime) -> str:
    """The secret of the invitation's link, shown only here. Raises RefusedFieldError."""
    _check_role(invited.role)
    address = invited.email.strip()
    if address:
        _check_address(address)
    text = new_secret()
    Invitation.objects.create(
        digest=digest(text),
        email=address,
        role=invited.role,
        team=invited.team,
        by=by,
        created_at=now,
        expires_at=now + INVITATION_TTL,
    )
    record("person.invite", address, role=invited.role)
    return text


def _check_address(address: str) -> None:
    try:
        validate_email(address)
    except ValidationError as error:
        raise RefusedFieldError(f"{address[:80]} is no e-mail address", field="email") from error


def open_invitation(text: str, now: datetime) -> Invitation | None:
    """The invitation of that secret; None where there is none, it is over, used or withdrawn, or
    who made it is no admin any more.
    """
    admins = User.objects.filter(IS_ADMIN, is_active=True)
    return (
        Invitation.objects.filter(
            digest=digest(text),
            revoked_at=None,
            accepted_by=None,
            expires_at__gt=now,
            by__in=admins,
        )
        .select_related("team", "by")
        .first()
    )


@transaction.atomic
def accept(text: str, *, username: str, password: str, now: datetime) -> User:
    """The account that the invitation makes, once. Raises RefusedFieldError."""
    invitation = open_invitation(text, now)
    if invitation is None or not _is_first(invitation):
        raise RefusedFieldError("this invitation was used or is over: ask for another", field="")
    of = (invitation.email, invitation.role, invitation.team)
    new = NewPerson(username, *of, password, chose_name=True)
    user = create_person(new, now=now)
    invitation.accepted_by = user
    invitation.save(update_fields=["accepted_by"])
    record("person.accept", user.username, invited_by=invitation.by.get_username())
    return user


def _is_first(invitation: Invitation) -> bool:
    """Whether nobody else uses it at this moment."""
    unused = Invitation.objects.filter(pk=invitation.pk, accepted_by=None, revoked_at=None)
    return unused.select_for_update().exists()


@transaction.atomic
def withdraw(invitation: Invitation, *, now: datetime) -> None:
    """The link makes no account any more."""
    invitation.revoked_at = now
    invitation.save(update_fields=["revoked_at"])
    record("person.withdraw", invitation.email, role=invitation.role)
