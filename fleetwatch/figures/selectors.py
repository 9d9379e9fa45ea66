"""Reads of costs: the ledger in GPU time and dollars, by whatever it is grouped.

Figures are of exactly the interval: sums of ledger entries, which are cut at UTC hours and at the
organisation's midnight, and of a cut at the interval's end the part that lies in it (edges.py).
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import cast

from django.db import connection
from django.db.models import Min

from fleetwatch.accounts.models import Team
from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries, engine, pricing, ranking
from fleetwatch.figures.breakdown import Traced, terms
from fleetwatch.figures.cells import Cell, by_line, everything, summed
from fleetwatch.figures.ledger_time import LedgerTime
from fleetwatch.figures.priced_columns import NO_KEY, Columns, Keys, Owner
from fleetwatch.figures.priced_spans import OWNERS
from fleetwatch.figures.ranking import Place, Ranked, Wasters
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import (
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
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.models import Entry
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.sql import read_statement

__all__ = [
    "NOBODY",
    "OWNERS",
    "UNALLOCATED",
    "UNMAPPED",
    "Breakdown",
    "Bucket",
    "Group",
    "Line",
    "Look",
    "Machine",
    "Ranked",
    "Scope",
    "Series",
    "SpendingNow",
    "Totals",
    "Traced",
    "Wasters",
    "breakdown",
    "capacity_at_most",
    "dollars_over_time",
    "held_by_owner",
    "look",
    "machine",
    "over_time_by",
    "ranked",
    "some_gpus",
    "spending_now",
    "totals",
    "totals_by",
    "traced",
    "wasters",
    "without",
]

GROUPS = (*OWNERS, "user", "job", "node", "gpu", "gpu_model")
RANKED = ("job", "gpu")  # of which there are so many that a page shows a few
STEPS = ("hour", "day")

# posting follows the agents by their flush and its own minute; a run that ended earlier is over
IDLE_PLACE = STATES.index("idle") + 1  # the database counts from 1
CURRENT_RUN_MS = 600_000

_SPENDING_NOW = read_statement("figures/sql/spending_now.sql")

Line = tuple[str, str]  # key and label of a group


def totals(interval: Interval, *, scope: Scope = EVERYTHING) -> Totals:
    """GPU time and dollars of the interval."""
    return summed(everything(engine.read(LedgerTime(), interval, scope=scope)))


def capacity_at_most(interval: Interval) -> int:
    """GPU-milliseconds: totals() of the interval have no more.

    Every GPU has each moment since the ledger began once.
    """
    first = Entry.objects.aggregate(first=Min("start"))["first"]
    if first is None or first >= interval.end:
        return 0
    return (interval.end_ms - max(interval.start_ms, to_ms(first))) * GPU.objects.filter(
        parent=None
    ).count()


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Lines and their total."""

    lines: list[Group]
    totals: Totals


def totals_by(interval: Interval, group_by: str, *, scope: Scope = EVERYTHING) -> list[Group]:
    """The lines of breakdown()."""
    return look(interval, group_by, scope=scope).by(group_by)


def breakdown(interval: Interval, group_by: str, *, scope: Scope = EVERYTHING) -> Breakdown:
    """One line per team, project, cost centre, user, job, node, gpu or gpu_model; most wasted
    dollars first, then most dollars.

    The lines sum to totals() of the same interval and scope: what no job held is a line of
    its own (key "", "unallocated"), and so are jobs that name no user (key "(none)"). A team,
    project or cost centre has a job's time while rules say so; jobs without one are lines of
    their own by the reason: "(none)" names nobody, "(unmapped)" matches no rule.
    A gpu is a physical one: its MIG instances are in it.

    Raises ValueError for another group_by.
    """
    return look(interval, group_by, scope=scope).breakdown(group_by)


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of the ledger, from which several figures are told by the groups that it was read
    by.
    """

    told: Columns[Kind]

    def totals(self) -> Totals:
        """totals() of what was read."""
        return summed(everything(self.told))

    def by(self, group_by: str) -> list[Group]:
        """totals_by() of what was read."""
        return _groups(self.told, group_by)

    def breakdown(self, group_by: str) -> Breakdown:
        """breakdown() of what was read."""
        return Breakdown(self.by(group_by), self.totals())

    def ranked(self, group_by: str, size: int) -> Ranked:
        """The first lines of ranked() of what was read."""
        return _ranked(self.told, group_by, size=size)

    def within(self, states: Collection[str]) -> "Look":
        """The time in these states."""
        return Look(self.told.where(self.told.labelled(lambda kind: kind.state in states)))

    def held(self) -> "Look":
        """The time that jobs held; it was read by job."""
        return Look(self.told.held("job"))

    def unheld(self) -> "Look":
        """The time that no job held; it was read by job."""
        return Look(self.told.only("job", [NO_KEY]))

    def each(self, group_by: str) -> dict[str, "Look"]:
        """What was read of each group alone, by its key."""
        keys = self.told.by[group_by]
        lines = _lines(group_by, keys, keys.ids.tolist())
        return {
            lines[key][0]: Look(self.told.where(keys.at == place))
            for place, key in enumerate(keys.ids.tolist())
        }


def look(interval: Interval, *groups: str, scope: Scope = EVERYTHING) -> Look:
    """GPU time and dollars of the interval by all of these groups.

    Raises ValueError for one that is none.
    """
    for group_by in groups:
        if group_by not in GROUPS:
            raise ValueError(f"can't group by {group_by!r}; there is {', '.join(GROUPS)}")
    return Look(engine.read(LedgerTime(), interval, by=groups, scope=scope))


def some_gpus(interval: Interval, ids: Collection[int], *, scope: Scope = EVERYTHING) -> Breakdown:
    """The lines of breakdown(gpu) of these GPUs alone, with the total of all."""
    told = engine.read(LedgerTime(), interval, by=("gpu",), scope=scope)
    return Breakdown(_groups(told.only("gpu", ids), "gpu"), summed(everything(told)))


@dataclass(frozen=True, slots=True)
class Machine:
    """What a node's page shows, in one look at the ledger: its GPUs by key, and the jobs that
    wasted most of it.
    """

    totals: Totals
    by_gpu: dict[str, Totals]
    jobs: Ranked


def machine(interval: Interval, node: str, *, size: int) -> Machine:
    """breakdown(gpu) of a node, and `size` lines of ranked(job) of what jobs held there."""
    told = engine.read(LedgerTime(), interval, by=("gpu", "job"), scope=Scope(node=node))
    by_gpu = {group.key: group.totals for group in _groups(told, "gpu")}
    return Machine(summed(everything(told)), by_gpu, _ranked(told.held("job"), "job", size=size))


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
    """`size` lines of totals_by(job or gpu) from that position or place in the order on; of these
    ids alone where some are given.

    Raises ValueError for another group_by or sort.
    """
    if group_by not in RANKED or sort not in ranking.SORTS:
        raise ValueError(
            f"can't rank {group_by!r} by {sort!r}; there is {', '.join(RANKED)} by"
            f" {', '.join(ranking.SORTS)}"
        )
    told = engine.read(LedgerTime(), interval, by=(group_by,), scope=scope)
    return _ranked(
        told if among is None else told.only(group_by, among),
        group_by,
        sort=sort,
        start=start,
        size=size,
    )


def wasters(interval: Interval, size: int) -> Wasters:
    """The teams, and the users and jobs that wasted most, and everything, in one look at the
    ledger.
    """
    told = engine.read(LedgerTime(), interval, by=("team", "user", "job"))
    held = told.held("job")
    return Wasters(
        summed(everything(told)),
        [group for group in _groups(told, "team") if group.key],
        _ranked(held, "user", size=size),
        _ranked(held, "job", size=size),
    )


def traced(interval: Interval, *, size: int, scope: Scope = EVERYTHING, start: int = 0) -> Traced:
    """What totals() of the same interval and scope is made of, with `size` of its parts, the
    dearest first.

    The parts are jobs (key "": what no job held); of one job, and of what none held, GPUs.
    """
    parts_by = "job" if scope.job is None else "gpu"
    told = engine.read(LedgerTime(), interval, by=(parts_by,), scope=scope)
    parts = _ranked(told, parts_by, sort=ranking.COST, start=start, size=size)
    return Traced(parts.totals, terms(everything(told)), parts_by, parts)


def _ranked(
    told: Columns[Kind],
    group_by: str,
    *,
    size: int,
    sort: str = ranking.WASTE,
    start: int | Place = 0,
) -> Ranked:
    found = ranking.cut(told, group_by, sort, start=start, size=size)
    lines = _lines(group_by, told.by[group_by], found.keys)
    return ranking.ranked(
        found, [Group(*lines[key], summed(found.cells[key])) for key in found.keys]
    )


def held_by_owner(interval: Interval, owner: str) -> dict[int, dict[Line, tuple[int, Decimal]]]:
    """Job id -> key and label of its team (project, cost centre) -> GPU time and dollars."""
    told = engine.read(LedgerTime(), interval, by=("job", owner)).held("job")
    jobs, owners = told.by["job"], told.by[owner]
    lines = _lines(owner, owners, owners.ids.tolist())
    held: dict[int, dict[Line, tuple[int, Decimal]]] = defaultdict(dict)
    for number, cells in by_line(told, jobs.at * len(owners.ids) + owners.at).items():
        job, place = divmod(number, len(owners.ids))
        if amount := _amount(cells):
            held[int(jobs.ids[job])][lines[int(owners.ids[place])]] = amount
    return dict(held)


def _amount(cells: Sequence[Cell]) -> tuple[int, Decimal] | None:
    """GPU time and dollars; None without time."""
    gpu_ms = sum(cell.gpu_ms for cell in cells)
    dollars = pricing.price((cell.gpu_ms, cell.usd_per_gpu_hour) for cell in cells)
    return (gpu_ms, dollars) if gpu_ms else None


def dollars_over_time(interval: Interval, step: str, *, scope: Scope = EVERYTHING) -> list[Bucket]:
    """Every step that the interval touches, in order: UTC clock hours, or days of the
    organisation's zone (23 to 25 h).

    Of the first and the last one what lies in the interval.

    Raises ValueError for another step.
    """
    if step not in STEPS:
        raise ValueError(f"step is hour or day, not {step!r}")
    told = engine.read(LedgerTime(), interval, scope=scope, step=step)
    return _buckets(by_line(told, told.by["step"].at), _starts(interval, step))


def over_time_by(
    interval: Interval, group_by: str, step: str, *, scope: Scope = EVERYTHING
) -> list[Series]:
    """dollars_over_time() of each line of totals_by(), by key.

    Raises ValueError for another group_by or step.
    """
    if group_by not in GROUPS or step not in STEPS:
        raise ValueError(
            f"can't group by {group_by!r} and {step!r}; there is {', '.join(GROUPS)} and"
            f" {', '.join(STEPS)}"
        )
    starts = _starts(interval, step)
    told = engine.read(LedgerTime(), interval, by=(group_by,), scope=scope, step=step)
    keys = told.by[group_by]
    parts: dict[int, dict[int, list[Cell]]] = defaultdict(dict)
    for number, cells in by_line(told, keys.at * len(starts) + told.by["step"].at).items():
        place, bucket = divmod(number, len(starts))
        parts[int(keys.ids[place])][bucket] = cells
    lines = _lines(group_by, keys, list(parts))
    return sorted(
        (Series(*lines[key], _buckets(part, starts)) for key, part in parts.items()),
        key=lambda series: (series.key, series.label),
    )


def _starts(interval: Interval, step: str) -> list[datetime]:
    organisation_zone = zone()
    return boundaries.steps(
        boundaries.outward(interval, organisation_zone), step, organisation_zone
    )


def _buckets(parts: dict[int, list[Cell]], starts: Sequence[datetime]) -> list[Bucket]:
    return [Bucket(start, summed(parts.get(place, ()))) for place, start in enumerate(starts)]


def spending_now(now: datetime) -> SpendingNow:
    """Dollars per hour of every GPU that is not retired, and what of it is idle, by the runs of the
    last 10 minutes.
    """
    now_ms = to_ms(now)
    asked: dict[str, datetime | int] = {
        "now": now,
        "now_ms": now_ms,
        "since_ms": now_ms - CURRENT_RUN_MS,
        "live_since_ms": now_ms - CURRENT_RUN_MS,
        "idle": IDLE_PLACE,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SPENDING_NOW, asked)
        return SpendingNow(*cursor.fetchone())


def _groups(told: Columns[Kind], group_by: str) -> list[Group]:
    keys = told.by[group_by]
    parts = {int(keys.ids[place]): cells for place, cells in by_line(told, keys.at).items()}
    lines = _lines(group_by, keys, list(parts))
    groups = [Group(*lines[key], summed(cells)) for key, cells in parts.items()]
    return sorted(
        groups,
        key=lambda group: (
            -group.totals.wasted_usd,
            -group.totals.cost_usd,
            -group.totals.wasted_ms,
            group.key,
        ),
    )


def without(owner: str, *, is_named: bool) -> Line:
    """Key and label of jobs without a team (project, cost centre), by the reason."""
    key = UNMAPPED if is_named else NOBODY
    return (key, f"no {owner.replace('_', ' ')}: {WHY[key]}")


def _lines(group_by: str, keys: Keys, ids: Collection[int]) -> dict[int, Line]:
    """Key and label of each of these groups."""
    nothing = {
        NO_KEY: (
            (NOBODY, "unknown model") if group_by == "gpu_model" else (UNALLOCATED, "unallocated")
        )
    }
    if group_by in OWNERS:
        owners = cast("Sequence[Owner]", keys.names)
        teams = _names("team", {owner.team_id for owner in owners if owner.team_id is not None})
        return nothing | {
            number: _line_of(group_by, owner, teams) for number, owner in enumerate(owners, 1)
        }
    if group_by == "user":
        return nothing | {
            number: (user, user) if user else (NOBODY, "no user")
            for number, user in enumerate(map(str, keys.names), 1)
        }
    return nothing | _names(group_by, [key for key in ids if key != NO_KEY])


def _line_of(group_by: str, owner: Owner, teams: dict[int, Line]) -> Line:
    if owner.team_id is not None:
        return teams[owner.team_id]
    return (owner.text, owner.text) if owner.text else without(group_by, is_named=owner.is_named)


def _names(group_by: str, ids: Collection[int]) -> dict[int, Line]:
    """Key and label of each id; one that was deleted since the ledger was read is told as that."""
    gone = {pk: (f"(deleted {pk})", f"{group_by.replace('_', ' ')} that was deleted") for pk in ids}
    return gone | _known(group_by, ids)


def _known(group_by: str, ids: Collection[int]) -> dict[int, Line]:
    match group_by:
        case "team":
            return {
                pk: (slug, name or slug)
                for pk, slug, name in Team.objects.filter(pk__in=ids).values_list(
                    "pk", "slug", "name"
                )
            }
        case "job":
            return {
                pk: (key, name or key)
                for pk, key, name in Job.objects.filter(pk__in=ids).values_list("pk", "key", "name")
            }
        case "node":
            return {
                pk: (name, name)
                for pk, name in Node.objects.filter(pk__in=ids).values_list("pk", "name")
            }
        case "gpu":
            gpus = GPU.objects.filter(pk__in=ids).values_list("pk", "uuid", "node__name", "index")
            return {
                pk: (uuid, f"{node} GPU {'?' if index is None else index}")
                for pk, uuid, node, index in gpus
            }
        case "gpu_model":
            return {
                pk: (name, name)
                for pk, name in GPUModel.objects.filter(pk__in=ids).values_list("pk", "name")
            }
    return {}
