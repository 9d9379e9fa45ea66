"""Reads of costs: the ledger in GPU time and dollars, by whatever it is grouped.

Figures are sums of ledger entries, which are cut at UTC hours and at the organisation's
midnight: an interval is widened outwards to such cuts, and covered() says to which.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from django.db import connection

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import cuts, pricing, ranking
from fleetwatch.costs.cells import Cell, summed
from fleetwatch.costs.ranking import Place, Ranked, Wasters
from fleetwatch.costs.totals import (
    EVERYTHING,
    NOBODY,
    UNALLOCATED,
    UNMAPPED,
    WHY,
    Bucket,
    Group,
    Scope,
    Series,
    SpendingNow,
    Totals,
)
from fleetwatch.inventory.models import GPU, GPUModel, Node
from fleetwatch.inventory.services import SILENT_MS
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.sql import read_statement

__all__ = [
    "NOBODY",
    "OWNERS",
    "UNALLOCATED",
    "UNMAPPED",
    "Bucket",
    "Group",
    "Line",
    "Ranked",
    "Scope",
    "Series",
    "SpendingNow",
    "Totals",
    "Wasters",
    "covered",
    "dollars_over_time",
    "held_by_owner",
    "over_time_by",
    "ranked",
    "spending_now",
    "totals",
    "totals_by",
    "totals_of_gpus",
    "wasters",
    "without",
]

OWNERS = ("team", "project", "cost_centre")  # whose a job's time is at a moment: attribution.py
GROUPS = (*OWNERS, "user", "job", "node", "gpu", "gpu_model")
RANKED = ("job", "gpu")  # of which there are so many that a page shows a few
STEPS = ("hour", "day")

# posting follows the agents by their flush and its own minute; a run that ended earlier is over
CURRENT_RUN_MS = 600_000

_SQL = Path(__file__).parent / "sql"
_SPANS = read_statement(_SQL / "spans.sql")
_CELLS = _SPANS + read_statement(_SQL / "cells.sql")
_PACKED = _SPANS + read_statement(_SQL / "packed_cells.sql")
_SPENDING_NOW = read_statement(_SQL / "spending_now.sql")
# an id that no row has: a name that nothing bears finds nothing, not everything
_NO_ROW = -1
_Parameters = dict[str, str | int | bool | datetime | list[str] | list[int] | list[datetime] | None]
_NO_LIMITS: _Parameters = dict.fromkeys(
    (
        "node_id", "gpu_ids", "gpu_model_id", "job_id", "user_name", "is_allocated", "has_gpu_model", "states",
        "team_id", "has_team", "project", "cost_centre", "is_named",
    )
)  # fmt: skip


Line = tuple[str, str]  # key and label of a group


def totals(interval: Interval, *, scope: Scope = EVERYTHING) -> Totals:
    """GPU time and dollars of covered(interval)."""
    return summed(_cells(interval, scope=scope))


def totals_by(interval: Interval, group_by: str, *, scope: Scope = EVERYTHING) -> list[Group]:
    """One line per team, project, cost centre, user, job, node, gpu or gpu_model; most wasted dollars first, then most dollars.

    The lines sum to totals() of the same interval and scope: what no job held is a line of
    its own (key "", "unallocated"), and so are jobs that name no user (key "(none)"). A team,
    project or cost centre has a job's time while rules say so; jobs without one are lines of
    their own by the reason: "(none)" names nobody, "(unmapped)" matches no rule.
    A gpu is a physical one: its MIG instances are in it.

    Raises ValueError for another group_by.
    """
    if group_by not in GROUPS:
        raise ValueError(f"can't group by {group_by!r}; there is {', '.join(GROUPS)}")
    owner, key = (group_by, None) if group_by in OWNERS else (None, group_by)
    cells = _cells(interval, scope=scope, group_by=key, owner=owner)
    label = _owner_labels(group_by, cells) if owner else _labels(group_by, cells)
    return _groups(cells, label)


def totals_of_gpus(interval: Interval, ids: Sequence[int], *, scope: Scope = EVERYTHING) -> list[Group]:
    """totals_by(gpu) of these GPUs alone: a page of them is read in a fraction of the time of all."""
    cells = _cells(interval, scope=scope, group_by="gpu", gpu_ids=list(ids))
    return _groups(cells, _labels("gpu", cells))


def ranked(
    interval: Interval,
    group_by: str,
    *,
    size: int,
    scope: Scope = EVERYTHING,
    sort: str = ranking.WASTE,
    start: int | Place = 0,
    among: Collection[int] | None = None,
) -> Ranked:
    """`size` lines of totals_by(job or gpu) from that position or place in the order on; of these ids alone where some are given.

    Raises ValueError for another group_by or sort.
    """
    if group_by not in RANKED or sort not in ranking.SORTS:
        raise ValueError(f"can't rank {group_by!r} by {sort!r}; there is {', '.join(RANKED)} by {', '.join(ranking.SORTS)}")
    told = _packed(interval, scope=scope, group_by=group_by)
    if among is not None:
        told = ranking.only(told, among)
    return _ranked(ranking.cut(told, sort, start=start, size=size), group_by)


def wasters(interval: Interval, size: int) -> Wasters:
    """The teams, and the users and jobs that wasted most, and everything, in one look at the ledger."""
    told = _packed(interval, scope=EVERYTHING, group_by="job", owner="team")
    cells = ranking.whole(told)
    held = ranking.held(told)
    by_user, users = ranking.by_user(held)
    return Wasters(
        summed(cells),
        [group for group in _groups(cells, _owner_labels("team", cells)) if group.key],
        _named(ranking.cut(by_user, ranking.WASTE, start=0, size=size), {key: _user_line(user) for key, user in enumerate(users, 1)}),
        _ranked(ranking.cut(held, ranking.WASTE, start=0, size=size), "job"),
    )


def _user_line(user: str) -> Line:
    return (user, user) if user else (NOBODY, "no user")


def _ranked(found: ranking.Cut, group_by: str) -> Ranked:
    return _named(found, {ranking.NO_KEY: (UNALLOCATED, "unallocated")} | _names(group_by, found.keys))


def _named(found: ranking.Cut, lines: dict[int, Line]) -> Ranked:
    groups = [Group(*lines[key], summed(found.cells[key])) for key in found.keys]
    return ranking.ranked(found, groups)


def held_by_owner(interval: Interval, owner: str) -> dict[int, dict[Line, tuple[int, Decimal]]]:
    """Job id -> key and label of its team (project, cost centre) -> GPU time and dollars."""
    cells = [cell for cell in _cells(interval, scope=EVERYTHING, group_by="job", owner=owner) if cell.gpu_ms and cell.key_id is not None]
    line_of = _owner_labels(owner, cells)
    held: dict[int, dict[Line, list[Cell]]] = {}
    for cell in cells:
        held.setdefault(cell.key_id or 0, {}).setdefault(line_of(cell), []).append(cell)
    return {job: {line: _amount(part) for line, part in lines.items()} for job, lines in held.items()}


def _amount(cells: Sequence[Cell]) -> tuple[int, Decimal]:
    priced = [(cell.gpu_ms, cell.usd_per_gpu_hour) for cell in cells if cell.usd_per_gpu_hour is not None]
    return sum(cell.gpu_ms for cell in cells), pricing.cost_usd(priced)


def dollars_over_time(interval: Interval, step: str, *, scope: Scope = EVERYTHING) -> list[Bucket]:
    """Every step of covered(interval) in order: UTC clock hours, or days of the organisation's zone (23 to 25 h).

    Raises ValueError for another step.
    """
    if step not in STEPS:
        raise ValueError(f"step is hour or day, not {step!r}")
    organisation_zone = zone()
    starts = cuts.steps(cuts.outward(interval, organisation_zone), step, organisation_zone)
    parts: list[list[Cell]] = [[] for _ in starts]
    for cell in _cells(interval, scope=scope, step=step):
        if cell.bucket is not None:
            # by order, not by equality: of a midnight that comes twice (clocks set back over it) Postgres names the second
            parts[bisect_right(starts, cell.bucket) - 1].append(cell)
    return [Bucket(start, summed(part)) for start, part in zip(starts, parts, strict=True)]


def over_time_by(interval: Interval, group_by: str, step: str, *, scope: Scope = EVERYTHING) -> list[Series]:
    """dollars_over_time() of each line of totals_by(), by key. Raises ValueError for another group_by or step."""
    if group_by not in GROUPS or step not in STEPS:
        raise ValueError(f"can't group by {group_by!r} and {step!r}; there is {', '.join(GROUPS)} and {', '.join(STEPS)}")
    organisation_zone = zone()
    starts = cuts.steps(cuts.outward(interval, organisation_zone), step, organisation_zone)
    owner, key = (group_by, None) if group_by in OWNERS else (None, group_by)
    cells = _cells(interval, scope=scope, group_by=key, owner=owner, step=step)
    line_of = _owner_labels(group_by, cells) if owner else _labels(group_by, cells)
    by_line: dict[Line, list[list[Cell]]] = {}
    for cell in cells:
        if cell.bucket is not None:
            by_line.setdefault(line_of(cell), [[] for _ in starts])[bisect_right(starts, cell.bucket) - 1].append(cell)
    return [
        Series(*line, [Bucket(start, summed(part)) for start, part in zip(starts, parts, strict=True)])
        for line, parts in sorted(by_line.items())
    ]


def covered(interval: Interval) -> Interval:
    """The smallest interval around this one whose ends are cuts of the ledger: what the figures really cover."""
    return cuts.outward(interval, zone())


def spending_now(now: datetime) -> SpendingNow:
    """Dollars per hour of every GPU that is not retired, and what of it is idle, by the runs of the last 10 minutes."""
    with connection.cursor() as cursor:
        cursor.execute(
            _SPENDING_NOW, {"now": now, "now_ms": to_ms(now), "since_ms": to_ms(now) - CURRENT_RUN_MS, "silent_ms": to_ms(now) - SILENT_MS}
        )
        return SpendingNow(*cursor.fetchone())


def _cells(
    interval: Interval,
    *,
    scope: Scope,
    group_by: str | None = None,
    owner: str | None = None,
    step: str | None = None,
    gpu_ids: list[int] | None = None,
) -> list[Cell]:
    wanted = _parameters(interval, scope, group_by=group_by, owner=owner, step=step)
    with connection.cursor() as cursor:
        cursor.execute(_CELLS, wanted if gpu_ids is None else wanted | {"gpu_ids": gpu_ids})
        return [Cell(*row) for row in cursor.fetchall()]


def _packed(interval: Interval, *, scope: Scope, group_by: str, owner: str | None = None) -> ranking.Columns:
    """The same cells of a group of which there are very many."""
    wanted = _parameters(interval, scope, group_by=group_by, owner=owner) | {"with_users": owner is not None}
    with connection.cursor() as cursor:
        cursor.execute(_PACKED, wanted)
        return ranking.columns(cursor.fetchall())


def _parameters(
    interval: Interval, scope: Scope, *, group_by: str | None = None, owner: str | None = None, step: str | None = None
) -> _Parameters:
    organisation_zone = zone()
    whole = cuts.outward(interval, organisation_zone)
    days = cuts.days(whole, organisation_zone)
    by_gpu = group_by == "gpu" or scope.gpu is not None
    wanted: _Parameters = {
        "group_by": group_by,
        "owner": owner,
        "by_owner": owner is not None or any(name not in (None, UNALLOCATED) for name in (scope.team, scope.project, scope.cost_centre)),
        "step": step,
        "zone": organisation_zone.key,
        "start": whole.start,
        "end": whole.end,
        "day_starts": [day.start for day in days],
        "day_ends": [day.end for day in days],
        "by_gpu": by_gpu,
        # sums of days know neither the hour nor which GPU it was
        "use_sums": not by_gpu and step != "hour",
    }
    return _NO_LIMITS | looked_at(scope) | wanted


def looked_at(scope: Scope) -> _Parameters:
    """The scope as parameters of cells.sql."""
    looked_at: _Parameters = {
        "states": None if scope.states is None else list(scope.states),
        "is_allocated": scope.is_allocated,
    }
    if scope.node is not None:
        looked_at["node_id"] = _id(Node, name=scope.node)
    if scope.gpu is not None:
        looked_at["gpu_ids"] = [_id(GPU, uuid=scope.gpu)]
    if scope.gpu_model is not None:
        looked_at |= {"has_gpu_model": False} if scope.gpu_model == NOBODY else {"gpu_model_id": _id(GPUModel, name=scope.gpu_model)}
    if scope.user is not None:
        looked_at["user_name"] = "" if scope.user == NOBODY else scope.user
    if scope.job is not None:
        looked_at["job_id"] = _id(Job, key=scope.job)
    if scope.team is not None:
        looked_at |= _without("has_team", scope.team, False) or {"team_id": _id(Team, slug=scope.team)}
    for field, name in (("project", scope.project), ("cost_centre", scope.cost_centre)):
        if name is not None:
            looked_at |= _without(field, name, "") or {field: name}
    if UNALLOCATED in (scope.job, scope.user, scope.team, scope.project, scope.cost_centre):
        looked_at |= dict.fromkeys(("job_id", "user_name", "team_id", "project", "cost_centre")) | {"is_allocated": False}
    return looked_at


def _without(field: str, name: str, nothing: str | bool) -> _Parameters:
    """What finds the jobs without a team (project, cost centre) for the reason of that key; nothing for other keys."""
    return {"is_allocated": True, field: nothing, "is_named": name == UNMAPPED} if name in WHY else {}


def _id(model: type[Node | GPU | GPUModel | Team | Job], **name: str) -> int:
    found = model._default_manager.filter(**name).values_list("pk", flat=True).first()
    return _NO_ROW if found is None else found


def _groups(cells: Iterable[Cell], line_of: Callable[[Cell], Line]) -> list[Group]:
    by_line: dict[Line, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_line[line_of(cell)].append(cell)
    groups = [Group(*line, summed(part)) for line, part in by_line.items()]
    return sorted(groups, key=lambda group: (-group.totals.wasted_usd, -group.totals.cost_usd, -group.totals.wasted_ms, group.key))


def _owner_labels(owner: str, cells: Iterable[Cell]) -> Callable[[Cell], Line]:
    """What gives a cell's team, project or cost centre; where it has none, why."""
    ids = {cell.team_id for cell in cells if cell.team_id is not None}
    teams = {pk: (slug, name or slug) for pk, slug, name in Team.objects.filter(pk__in=ids).values_list("pk", "slug", "name")}

    def line_of(cell: Cell) -> Line:
        if not cell.is_held:
            return (UNALLOCATED, "unallocated")
        if cell.team_id is not None:
            return teams[cell.team_id]
        return (cell.owner_text, cell.owner_text) if cell.owner_text else without(owner, is_named=bool(cell.is_named))

    return line_of


def without(owner: str, *, is_named: bool) -> Line:
    """Key and label of jobs without a team (project, cost centre), by the reason."""
    key = UNMAPPED if is_named else NOBODY
    return (key, f"no {owner.replace('_', ' ')}: {WHY[key]}")


def _labels(group_by: str, cells: Iterable[Cell]) -> Callable[[Cell], Line]:
    """What gives a cell's line."""
    names = _names(group_by, {cell.key_id for cell in cells if cell.key_id is not None})

    def line_of(cell: Cell) -> Line:
        if not cell.is_held:
            return (UNALLOCATED, "unallocated")
        if cell.key_id is not None:
            return names[cell.key_id]
        if cell.key_text:
            return (cell.key_text, cell.key_text)
        return (NOBODY, "unknown model" if group_by == "gpu_model" else f"no {group_by}")

    return line_of


def _names(group_by: str, ids: Collection[int]) -> dict[int, Line]:
    """Key and label of each id."""
    match group_by:
        case "job":
            return {pk: (key, name or key) for pk, key, name in Job.objects.filter(pk__in=ids).values_list("pk", "key", "name")}
        case "node":
            return {pk: (name, name) for pk, name in Node.objects.filter(pk__in=ids).values_list("pk", "name")}
        case "gpu":
            gpus = GPU.objects.filter(pk__in=ids).values_list("pk", "uuid", "node__name", "index")
            return {pk: (uuid, f"{node} GPU {'?' if index is None else index}") for pk, uuid, node, index in gpus}
        case "gpu_model":
            return {pk: (name, name) for pk, name in GPUModel.objects.filter(pk__in=ids).values_list("pk", "name")}
    return {}
