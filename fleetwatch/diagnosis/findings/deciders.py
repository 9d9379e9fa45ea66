"""Who decided about findings and whom they are given to, as the reader may know them: colleagues
and who runs the fleet by name, others as somebody.
"""

from collections.abc import Iterable

from django.conf import settings

from fleetwatch.accounts.models import User
from fleetwatch.accounts.permissions import role_of
from fleetwatch.accounts.visibility import LIMITED, pseudonymous, sight
from fleetwatch.diagnosis.findings.deciding import ASSIGNED_TO, NOBODY, reachable
from fleetwatch.diagnosis.models import Finding, Said
from fleetwatch.lib.pseudonyms import pseudonym

SOMEBODY = "somebody of another team"


def with_assignees(findings: Iterable[Finding]) -> None:
    """Each of the findings, in memory alone, is given to whom the reader may know."""
    given = [finding for finding in findings if finding.assignee is not None]
    public = _names_shown(finding.assignee.username for finding in given if finding.assignee)
    for finding in given:
        finding.assignee = _shown(finding.assignee, public)


def with_deciders(decisions: list[Said]) -> list[Said]:
    """What was said, in memory alone, by whom the reader may know, and of whom."""
    names = [each.by.username for each in decisions if each.by is not None]
    public = _names_shown([*names, *map(_assigned_to, decisions)])
    for each in decisions:
        each.by = _shown(each.by, public)
        name = _assigned_to(each)
        if name:
            each.note = f"{ASSIGNED_TO}{public[name]}{each.note.removeprefix(ASSIGNED_TO + name)}"
    return decisions


def _assigned_to(decision: Said) -> str:
    """The user's name that an assignment names; "" where it names nobody."""
    if decision.kind != Said.Kind.ASSIGNED or not decision.note.startswith(ASSIGNED_TO):
        return ""
    name = decision.note.removeprefix(ASSIGNED_TO).partition(":")[0]
    return "" if name == NOBODY else name


def _shown(user: User | None, public: dict[str, str]) -> User | None:
    """The user, or a nameless one in the user's place."""
    if user is None or public[user.username] == user.username:
        return user
    return User(username=public[user.username])


def _names_shown(names: Iterable[str]) -> dict[str, str]:
    """By the user's name what the reader is told."""
    every = {name for name in names if name}
    if sight() is None or not every:
        return {name: name for name in every}
    users = User.objects.filter(username__in=every)
    colleagues = set(reachable(users).values_list("username", flat=True)) | {
        user.username for user in users if role_of(user) not in LIMITED
    }
    return {name: name if name in colleagues else _somebody(name) for name in every}


def _somebody(name: str) -> str:
    if pseudonymous() is None:
        return SOMEBODY
    return pseudonym("person", name, secret=settings.SECRET_KEY)
