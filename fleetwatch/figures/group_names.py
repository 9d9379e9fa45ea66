"""Key and label of each line of a breakdown."""

from collections.abc import Collection
from typing import cast

from django.db.models import Model

from fleetwatch.accounts.models import Team
from fleetwatch.figures.priced_columns import NO_KEY, Keys, Owner
from fleetwatch.figures.priced_spans import OWNERS
from fleetwatch.figures.totals import NOBODY, UNALLOCATED, UNMAPPED, WHY
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.jobs.models import Job

Line = tuple[str, str]  # key and label of a group
UNHELD = (UNALLOCATED, "unallocated")
# where groups of ids have their key and, but for GPUs, their label
_STORED: dict[str, tuple[type[Model], str, str]] = {
    "team": (Team, "slug", "name"),
    "job": (Job, "key", "name"),
    "node": (Node, "name", "name"),
    "gpu_model": (GPUModel, "name", "name"),
}


def without(owner: str, *, is_named: bool) -> Line:
    """Key and label of jobs without a team (project, cost centre), by the reason."""
    key = UNMAPPED if is_named else NOBODY
    return (key, f"no {owner.replace('_', ' ')}: {WHY[key]}")


def lines_of(group_by: str, keys: Keys, ids: Collection[int]) -> dict[int, Line]:
    """Key and label of each of these groups."""
    if group_by in OWNERS:
        lines = _owners(group_by, cast("list[Owner]", keys.names))
    elif group_by == "user":
        lines = [(str(user), str(user)) if user else (NOBODY, "no user") for user in keys.names]
    else:
        nothing = (NOBODY, "unknown model") if group_by == "gpu_model" else UNHELD
        return {NO_KEY: nothing} | _names(group_by, [key for key in ids if key != NO_KEY])
    return dict(enumerate([UNHELD, *lines], NO_KEY))


def _owners(kind: str, owners: list[Owner]) -> list[Line]:
    teams = _names("team", {owner.team_id for owner in owners if owner.team_id is not None})
    return [
        teams[owner.team_id]
        if owner.team_id is not None
        else (owner.text, owner.text)
        if owner.text
        else without(kind, is_named=owner.is_named)
        for owner in owners
    ]


def _names(group_by: str, ids: Collection[int]) -> dict[int, Line]:
    """Key and label of each id; one that was deleted since the ledger was read is named as that."""
    what = group_by.replace("_", " ")
    gone = {pk: (f"(deleted {pk})", f"{what} that was deleted") for pk in ids}
    return gone | (_gpus(ids) if group_by == "gpu" else _stored(group_by, ids))


def _gpus(ids: Collection[int]) -> dict[int, Line]:
    rows = GPU.objects.filter(pk__in=ids).values_list("pk", "uuid", "node__name", "index")
    return {
        pk: (uuid, f"{node} GPU {'?' if index is None else index}")
        for pk, uuid, node, index in rows
    }


def _stored(group_by: str, ids: Collection[int]) -> dict[int, Line]:
    model, key, label = _STORED[group_by]
    rows = model._default_manager.filter(pk__in=ids).values_list("pk", key, label)
    return {pk: (name, text or name) for pk, name, text in rows}
