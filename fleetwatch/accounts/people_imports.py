"""People by the file: all of it or nothing, and what it would change before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from fleetwatch.accounts import people, people_csv
from fleetwatch.accounts.models import Identity, Membership, Team, User
from fleetwatch.accounts.people_csv import Row
from fleetwatch.lib.csv_files.csv_rows import Fault, refuse
from fleetwatch.lib.refusal import RefusedFieldError

Key = tuple[int, str, str, str]  # user, system, cluster, name


@dataclass(frozen=True, slots=True)
class Change:
    """What a line does to a user: `kind` is account, role, email, team or name."""

    line: int
    user: str
    kind: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ImportedPeople:
    """How many users of a file were changed, how many stood already so, and each change."""

    set: int
    stood: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class PeopleDryRun:
    """What a file would change."""

    would: ImportedPeople


@dataclass(frozen=True, slots=True)
class _Standing:
    """What there is, as the lines so far left it."""

    now: datetime
    users: dict[str, User]
    teams: dict[str, Team]
    names: set[Key]
    members: set[tuple[int, str]]
    given: dict[tuple[int, str], Row] = field(default_factory=dict)  # by user and column


def dry_run(content: bytes, *, now: datetime) -> PeopleDryRun:
    """What import_people would change: it is the import itself, taken back.

    Raises RefusedError as it does.
    """
    with transaction.atomic():
        would = import_people(content, now=now)
        transaction.set_rollback(True)
    return PeopleDryRun(would)


@transaction.atomic
def import_people(content: bytes, *, now: datetime) -> ImportedPeople:
    """Gives each line's user what it says; an account that is not there is made, without a
    password. Twice is once: what stands is left alone, and what is not in the file stays.

    Raises RefusedError with every bad line and field; then nothing was written.
    """
    rows, faults = people_csv.read(content)
    standing = _standing(rows, now)
    changes: list[Change] = []
    for row in rows:
        try:
            with transaction.atomic():
                changes += _apply(row, standing)
        except RefusedFieldError as error:
            column = "user" if error.field in ("", "username") else error.field
            faults.append(Fault(row.line, column, str(error)))
    refuse(faults)
    changed = {change.user.casefold() for change in changes}
    stood = {row.user.casefold() for row in rows} - changed
    return ImportedPeople(len(changed), len(stood), tuple(changes))


def _standing(rows: list[Row], now: datetime) -> _Standing:
    names = Identity.objects.filter(name__in={row.name for row in rows}, confirmed_at__isnull=False)
    members = Membership.objects.filter(valid_until=None, team__slug__in={row.team for row in rows})
    return _Standing(
        now=now,
        # names that differ in case alone are one: so they are at the log-in
        users={user.username.casefold(): user for user in User.objects.order_by("-pk")},
        teams={
            team.slug: team for team in Team.objects.filter(slug__in={row.team for row in rows})
        },
        names=set(names.values_list("user", "system", "cluster", "name")),
        members=set(members.values_list("user", "team__slug")),
    )


def _apply(row: Row, standing: _Standing) -> list[Change]:
    """What the line changed. Raises RefusedFieldError."""
    user = standing.users.get(row.user.casefold())
    if user is None:
        user, changes = _make(row, standing)
    elif not user.is_active:
        raise RefusedFieldError(f"{user.username} is out: let the person in first", field="user")
    else:
        changes = _set(user, row, "role", people.set_role, standing)
        changes += _set(user, row, "email", people.set_email, standing)
    for column in ("role", "email"):
        if getattr(row, column):
            standing.given[user.pk, column] = row
    changes += _join(user, row, standing) + _name(user, row, standing)
    standing.users[row.user.casefold()] = user
    return changes


def _make(row: Row, standing: _Standing) -> tuple[User, list[Change]]:
    new = people.NewPerson(row.user, row.email, row.role or User.Role.ENGINEER)
    user = people.create_person(new, now=standing.now)
    return user, [Change(row.line, user.username, "account", "", user.role)]


def _set(
    user: User, row: Row, column: str, write: Callable[[User, str], None], standing: _Standing
) -> list[Change]:
    """Role or address, where the line gives another one. Raises RefusedFieldError."""
    before = getattr(user, column)
    after = getattr(row, column)
    if not after or after == before:
        return []
    other = standing.given.get((user.pk, column))
    if other is not None:
        raise RefusedFieldError(
            f"line {other.line} says {getattr(other, column)!r} of the same user", field=column
        )
    write(user, after)
    return [Change(row.line, user.username, column, before, after)]


def _join(user: User, row: Row, standing: _Standing) -> list[Change]:
    if not row.team or (user.pk, row.team) in standing.members:
        return []
    team = standing.teams.get(row.team)
    if team is None:
        raise RefusedFieldError(f"there is no team {row.team!r}", field="team")
    people.join(user, team, since=standing.now)
    standing.members.add((user.pk, row.team))
    return [Change(row.line, user.username, "team", "", team.name)]


def _name(user: User, row: Row, standing: _Standing) -> list[Change]:
    if not row.name or (user.pk, row.system, row.cluster, row.name) in standing.names:
        return []
    name = people.Name(row.system, row.name, row.cluster)
    people.give_name(user, name, source=Identity.Source.CSV, now=standing.now)
    standing.names.add((user.pk, row.system, row.cluster, row.name))
    where = f" on {row.cluster}" if row.cluster else ""
    words = f"{row.name}{where}, {Identity.System(row.system).label}"
    return [Change(row.line, user.username, "name", "", words)]
