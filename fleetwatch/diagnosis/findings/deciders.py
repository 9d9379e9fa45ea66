"""Who decided about findings and whom they are given to, as the reader may know them
(accounts.colleagues).
"""

from collections.abc import Iterable

from fleetwatch.accounts.colleagues import people_shown, person_shown, show_people
from fleetwatch.diagnosis.findings.deciding import ASSIGNED_TO, NOBODY
from fleetwatch.diagnosis.models import Finding, Said


def with_assignees(findings: Iterable[Finding]) -> None:
    """Each of the findings, in memory alone, is given to whom the reader may know."""
    show_people(findings, "assignee")


def with_deciders(decisions: list[Said]) -> list[Said]:
    """What was said, in memory alone, by whom the reader may know, and of whom."""
    names = [each.by.username for each in decisions if each.by is not None]
    public = people_shown([*names, *map(_assigned_to, decisions)])
    for each in decisions:
        each.by = person_shown(each.by, public)
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
