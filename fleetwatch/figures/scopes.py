"""A scope as ids and words that rows are compared with."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.visibility import narrowed
from fleetwatch.figures.others_names import meant
from fleetwatch.figures.totals import NOBODY, OWNERS, UNALLOCATED, UNMAPPED, WHY, Scope
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.inventory.selectors import gpus_of
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.selectors import job_ids
from fleetwatch.jobs.visible_jobs import own_ids
from fleetwatch.lib.memo import read_once

OWNED = ("team_id", "has_team", "project", "cost_centre", "is_named")  # asks whose a job's time is
HELD = ("user_name", "is_allocated", *OWNED)  # asks whose it is, or whether anybody's
# groups and limits that ask which job it was
OF_HOLDERS = {"job", "user", *OWNERS, "seen", "job_id", "job_ids", *HELD}
NAMES = (
    "seen",
    "node_id",
    "gpu_ids",
    "gpu_model_id",
    "has_gpu_model",
    "job_id",
    "job_ids",
    "states",
    "shown",
    *HELD,
)
# fields of a Scope that name a holder
_HOLDER_FIELDS = ("user", "job", *OWNERS)
FEW_JOBS = 20
# an id that no row has: a name that nothing bears finds nothing, not everything
_NO_ROW = -1
Limits = dict[str, Any]  # by NAMES; None = all


class Seen(NamedTuple):
    """Whose time is looked at by who does not see everything: of any of these teams or jobs."""

    team_ids: frozenset[int]
    job_ids: list[int]


def limits_of(scope: Scope) -> Limits:
    """What is looked at: what all of the scope says holds for.

    What no job held is of no user, team or job that is named beside it, and of no reader who does
    not see everything. A pseudonym is the name that it stands for, and a name that has one nothing.
    """
    limits: Limits = dict.fromkeys(NAMES) | _of_time(scope)
    reader = narrowed()
    if reader is not None:
        limits["seen"] = Seen(reader.team_ids, own_ids(reader))
    for field, limit in _LIMITS.items():
        value = getattr(scope, field)
        if value is not None and (value or field not in _HOLDER_FIELDS):
            name = meant(field, value)
            limits |= {"job_id": _NO_ROW} if name is None else limit(name)
    if UNALLOCATED in [getattr(scope, field) for field in _HOLDER_FIELDS]:
        limits |= {"job_id": _NO_ROW} if scope.is_allocated else {"is_allocated": False}
    return limits


def _of_time(scope: Scope) -> Limits:
    """What is asked of the time itself, and of what its jobs are."""
    return {
        "states": None if scope.states is None else list(scope.states),
        "shown": scope.shown,
        "is_allocated": scope.is_allocated,
        "job_ids": _jobs(scope),
    }


def _jobs(scope: Scope) -> list[int] | None:
    """The ids of the jobs that are what the scope says of jobs; None = of any."""
    of_facts = job_ids(kind=scope.kind, cluster=scope.cluster, label=scope.label)
    if scope.jobs is None or of_facts is None:
        return of_facts if scope.jobs is None else list(scope.jobs)
    return sorted({*scope.jobs} & {*of_facts})


def named_jobs(limits: Limits) -> list[int] | None:
    """The ids of the one or few jobs that are looked at: where they were is soon found; None = of
    more, or of any.
    """
    if limits["job_id"] is not None:
        return [limits["job_id"]]
    ids: list[int] | None = limits["job_ids"]
    return None if ids is None or len(ids) > FEW_JOBS else ids


def with_instances(gpu_ids: Sequence[int]) -> list[int]:
    """The GPUs and their MIG instances."""
    return [*gpu_ids, *GPU.objects.filter(parent__in=gpu_ids).values_list("pk", flat=True)]


def _owner(field: str, name: str) -> Limits:
    """The jobs of that team (project, cost centre), or those without one for the reason of that
    key.
    """
    if name in WHY:
        nothing = {"has_team": False} if field == "team" else {field: ""}
        return nothing | {"is_allocated": True, "is_named": name == UNMAPPED}
    return {"team_id": _id(Team, slug=name)} if field == "team" else {field: name}


@read_once
def _id(model: type[Node | GPUModel | Team | Job], **name: str) -> int:
    pk: int | None = model._default_manager.filter(**name).values_list("pk", flat=True).first()
    return _NO_ROW if pk is None else pk


# field of a Scope -> what it asks for; "" of what names a holder asks for what nobody held
_LIMITS: dict[str, Callable[[str], Limits]] = {
    "node": lambda name: {"node_id": _id(Node, name=name)},
    "gpu": lambda uuid: {"gpu_ids": with_instances(gpus_of(uuid) or [_NO_ROW])},
    "gpu_model": lambda name: (
        {"has_gpu_model": False} if name == NOBODY else {"gpu_model_id": _id(GPUModel, name=name)}
    ),
    "user": lambda name: {"user_name": "" if name == NOBODY else name},
    "job": lambda key: {"job_id": _id(Job, key=key)},
    **{owner: partial(_owner, owner) for owner in ("team", "project", "cost_centre")},
}
