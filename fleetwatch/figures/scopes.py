"""A scope as ids and words that rows are compared with."""

from collections.abc import Sequence
from typing import Any

from fleetwatch.accounts.models import Team
from fleetwatch.figures.totals import NOBODY, UNALLOCATED, UNMAPPED, WHY, Scope
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.inventory.selectors import gpus_of
from fleetwatch.jobs.models import Job

OWNED = ("team_id", "has_team", "project", "cost_centre", "is_named")  # asks whose a job's time is
HELD = ("user_name", "is_allocated", *OWNED)  # asks whose it is, or whether anybody's
NAMES = ("node_id", "gpu_ids", "gpu_model_id", "has_gpu_model", "job_id", "states", *HELD)
# an id that no row has: a name that nothing bears finds nothing, not everything
_NO_ROW = -1
Limits = dict[str, Any]  # by NAMES; None = all


def limits_of(scope: Scope) -> Limits:
    """What is looked at: what all of the scope says holds for.

    What no job held is of no user, team or job that is named beside it.
    """
    limits: Limits = dict.fromkeys(NAMES)
    limits |= {
        "states": None if scope.states is None else list(scope.states),
        "is_allocated": scope.is_allocated,
    }
    if scope.node is not None:
        limits["node_id"] = _id(Node, name=scope.node)
    if scope.gpu is not None:
        limits["gpu_ids"] = with_instances(gpus_of(scope.gpu) or [_NO_ROW])
    if scope.gpu_model is not None:
        limits |= (
            {"has_gpu_model": False}
            if scope.gpu_model == NOBODY
            else {"gpu_model_id": _id(GPUModel, name=scope.gpu_model)}
        )
    if scope.user:
        limits["user_name"] = "" if scope.user == NOBODY else scope.user
    if scope.job:
        limits["job_id"] = _id(Job, key=scope.job)
    if scope.team:
        limits |= _without("has_team", scope.team, False) or {"team_id": _id(Team, slug=scope.team)}
    for field, name in (("project", scope.project), ("cost_centre", scope.cost_centre)):
        if name:
            limits |= _without(field, name, "") or {field: name}
    if UNALLOCATED in (scope.job, scope.user, scope.team, scope.project, scope.cost_centre):
        limits |= {"job_id": _NO_ROW} if scope.is_allocated else {"is_allocated": False}
    return limits


def with_instances(gpu_ids: Sequence[int]) -> list[int]:
    """The GPUs and their MIG instances."""
    return [*gpu_ids, *GPU.objects.filter(parent__in=gpu_ids).values_list("pk", flat=True)]


def _without(field: str, name: str, nothing: str | bool) -> Limits:
    """What finds the jobs without a team (project, cost centre) for the reason of that key; nothing
    for other keys.
    """
    return (
        {"is_allocated": True, field: nothing, "is_named": name == UNMAPPED} if name in WHY else {}
    )


def _id(model: type[Node | GPUModel | Team | Job], **name: str) -> int:
    found = model._default_manager.filter(**name).values_list("pk", flat=True).first()
    return _NO_ROW if found is None else found
