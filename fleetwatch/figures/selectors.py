"""Reads of costs: the ledger in GPU time and dollars, by whatever it is grouped.

Figures are of exactly the interval: sums of ledger entries, which are cut at UTC hours and at the
organisation's midnight, and of a cut at the interval's end the part that lies in it (edges.py).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain

import numpy as np
from django.db.models import Subquery

from fleetwatch.accounts.selectors import zone
from fleetwatch.figures import boundaries, engine, pricing, ranking
from fleetwatch.figures.breakdown import Traced, terms
from fleetwatch.figures.cells import Cell, by_groups, by_line, everything, summed
from fleetwatch.figures.group_names import lines_of
from fleetwatch.figures.ledger_time import LedgerTime
from fleetwatch.figures.priced_columns import NO_KEY, Columns
from fleetwatch.figures.ranking import Place, Ranked, Wasters
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import (
    EVERYTHING,
    NOBODY,
    OWNERS,
    UNALLOCATED,
    UNMAPPED,
    Bucket,
    Group,
    Line,
    Scope,
    Series,
    Totals,
    rank,
    without,
)
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger import retention
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.lib.memo import read_once

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
    "Parts",
    "Ranked",
    "Scope",
    "Series",
    "Totals",
    "Traced",
    "Wasters",
    "breakdown",
    "cost_of_jobs",
    "dollars_over_time",
    "held_by_job",
    "held_by_owner",
    "largest_over_time",
    "ledger_began",
    "look",
    "machine",
    "over_time_by",
    "ranked",
    "some_gpus",
    "totals",
    "totals_and_steps",
    "totals_by",
    "traced",
    "wasters",
    "without",
]

GROUPS = (*OWNERS, "user", "job", "node", "gpu", "gpu_model")
RANKED = ("job", "gpu")  # of which there are so many that a page shows a few
STEPS = ("hour", "day")


def totals(interval: Interval, *, scope: Scope = EVERYTHING) -> Totals:
    """GPU time and dollars of the interval."""
    return look(interval, scope=scope).totals()


@read_once
def ledger_began() -> datetime | None:
    """Since when there are figures; None where there are none yet. Of the first hour that is since
    its first window: nobody saw a GPU before.
    """
    seen = GPU.objects.exclude(first_ms=None).order_by("first_ms").values("first_ms")[:1]
    row = Entry.objects.order_by("start").values_list("start", Subquery(seen)).first()
    if row is None:
        return None
    first, seen_ms = row
    is_within = seen_ms is not None and 0 < seen_ms - to_ms(first) < HOUR_MS
    return from_ms(seen_ms) if is_within else first


def not_recorded_before(start: datetime, now: datetime) -> datetime | None:
    """Since when there are figures, where that is later than the start: of what was before nothing
    is known. None where all of it was recorded, and where what is missing went by its age.
    """
    first = ledger_began()
    if first is None or first <= start or first < retention.horizon(now) + timedelta(days=1):
        return None
    return first


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

    columns: Columns[Kind]

    def totals(self) -> Totals:
        """totals() of what was read."""
        return summed(everything(self.columns))

    def by(self, group_by: str) -> list[Group]:
        """totals_by() of what was read."""
        groups = by_groups(self.columns, group_by)
        lines = self.lines(group_by, [key for (key,) in groups])
        return sorted(
            (Group(*lines[key], summed(cells)) for (key,), cells in groups.items()), key=rank
        )

    def together(self, group_by: str, name_of: Callable[[str], str]) -> dict[str, Totals]:
        """The totals of the groups whose keys have the same name, by name."""
        groups = self.columns.by[group_by]
        ids = groups.ids.tolist()
        lines = self.lines(group_by, ids)
        names = [name_of(lines[key][0]) for key in ids]
        number = {name: place for place, name in enumerate(dict.fromkeys(names))}
        line = np.array([number[name] for name in names], dtype=np.int64)
        cells = by_line(self.columns, line[groups.at])
        return {name: summed(cells[place]) for name, place in number.items() if place in cells}

    def steps(self, group_by: str) -> dict[int, dict[int, list[Cell]]]:
        """By group and step (from 0 on) the cells of what was read by both; of a step in which a
        group has no time nothing.
        """
        parts: dict[int, dict[int, list[Cell]]] = defaultdict(dict)
        for (key, step), cells in by_groups(self.columns, group_by, "step").items():
            parts[key][step] = cells
        return parts

    def breakdown(self, group_by: str) -> Breakdown:
        """breakdown() of what was read."""
        return Breakdown(self.by(group_by), self.totals())

    def ranked(
        self,
        group_by: str,
        size: int,
        *,
        sort: str | ranking.Order = ranking.WASTE,
        start: int | Place = 0,
    ) -> Ranked:
        """ranked() of what was read."""
        names = partial(self.lines, group_by)
        return ranking.ranked(self.columns, group_by, names, sort=sort, start=start, size=size)

    def gpus(self, group_by: str) -> dict[int, int]:
        """On how many GPUs each group has time, by its id; it was read by gpu."""
        keys = self.columns.by[group_by]
        counts = ranking.gpus(self.columns, keys.at, len(keys.ids)).tolist()
        return dict(zip(keys.ids.tolist(), counts, strict=True))

    def lines(self, group_by: str, ids: Collection[int]) -> dict[int, Line]:
        """Key and label of each of these groups."""
        return lines_of(group_by, self.columns.by[group_by], ids)

    def of(self, group_by: str, ids: Collection[int] | None) -> "Look":
        """The time of these groups alone; None = of all."""
        return self if ids is None else Look(self.columns.only(group_by, ids))

    def but(self, group_by: str, ids: Collection[int]) -> "Look":
        """The time of all other groups."""
        return Look(self.columns.but(group_by, ids))

    def buckets(self, starts: Sequence[datetime]) -> list[Bucket]:
        """What was read in each of the steps that begin then; none where nothing was read."""
        cells = {step: part for (step,), part in by_groups(self.columns, "step").items()}
        return _buckets(cells, starts) if cells else []

    def within(self, states: Collection[str]) -> "Look":
        """The time in these states."""
        return Look(self.columns.where(self.columns.labelled(lambda kind: kind.state in states)))

    def shown_as(self, state: str) -> "Look":
        """The time in this state, as Totals.shown_states tell them."""
        return Look(self.columns.where(self.columns.labelled(lambda kind: kind.shown == state)))

    def held(self, group_by: str = "job") -> "Look":
        """The time that jobs held (of another grouping: that is in a group); it was read by it."""
        return Look(self.columns.held(group_by))

    def unheld(self) -> "Look":
        """The time that no job held; it was read by job."""
        return self.of("job", [NO_KEY])

    def each(self, group_by: str) -> dict[str, "Look"]:
        """What was read of each group alone, by its key."""
        ids = self.columns.by[group_by].ids.tolist()
        lines = self.lines(group_by, ids)
        return {lines[key][0]: self.of(group_by, [key]) for key in ids}


def look(
    interval: Interval, *groups: str, scope: Scope = EVERYTHING, step: str | None = None
) -> Look:
    """GPU time and dollars of the interval by all of these groups, and by step where it is said.

    Raises ValueError for one that is none.
    """
    for group_by in groups:
        if group_by not in GROUPS:
            raise ValueError(f"can't group by {group_by!r}; there is {', '.join(GROUPS)}")
    if step not in (None, *STEPS):
        raise ValueError(f"step is hour or day, not {step!r}")
    return Look(engine.read(LedgerTime(), interval, by=groups, scope=scope, step=step))


def some_gpus(interval: Interval, ids: Collection[int], *, scope: Scope = EVERYTHING) -> Breakdown:
    """The lines of breakdown(gpu) of these GPUs alone, with the total of all."""
    seen = look(interval, "gpu", scope=scope)
    return Breakdown(seen.of("gpu", ids).by("gpu"), seen.totals())


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
    seen = look(interval, "gpu", "job", scope=Scope(node=node))
    by_gpu = {group.key: group.totals for group in seen.by("gpu")}
    return Machine(seen.totals(), by_gpu, seen.held().ranked("job", size))


def ranked(
    interval: Interval,
    group_by: str,
    *,
    size: int,
    scope: Scope = EVERYTHING,
    sort: str = ranking.WASTE,
    start: int | Place = 0,
) -> Ranked:
    """`size` lines of totals_by(job or gpu) from that position or place in the order on.

    Raises ValueError for another group_by or sort.
    """
    if group_by not in RANKED or sort not in ranking.SORTS:
        raise ValueError(
            f"can't rank {group_by!r} by {sort!r}; there is {', '.join(RANKED)} by"
            f" {', '.join(ranking.SORTS)}"
        )
    counted = {"gpu"} if sort == ranking.GPUS else set()
    seen = look(interval, *({group_by} | counted), scope=scope)
    return seen.ranked(group_by, size, sort=sort, start=start)


def wasters(interval: Interval, size: int, *, scope: Scope = EVERYTHING) -> Wasters:
    """The teams, and the users and jobs that wasted most, in one look at the ledger."""
    every = look(interval, "team", "user", "job", scope=scope)
    held = every.held()
    teams = [group for group in held.by("team") if group.key]
    users = held.ranked("user", size)
    # equal ones by what the reader is told: ranked() has them by the names behind it
    users = replace(users, groups=sorted(users.groups, key=rank))
    unallocated = next((group for group in every.by("team") if not group.key), None)
    return Wasters(teams, users, held.ranked("job", size), unallocated)


def totals_since(
    interval: Interval, since: datetime | None, *, scope: Scope = EVERYTHING
) -> tuple[Totals, Totals | None]:
    """totals(), and in the same look what of them is of the days from `since` on, where one begins
    that the interval touches; None where none is said.
    """
    seen = look(interval, scope=scope, step="day" if since else None)
    newest = _since(seen, _starts(interval, "day").index(since)) if since else None
    return seen.totals(), newest


def _since(seen: Look, first: int) -> Totals:
    """The totals of that step and those after it."""
    steps = by_groups(seen.columns, "step").items()
    return summed(chain.from_iterable(cells for (step,), cells in steps if step >= first))


def traced(
    interval: Interval, *, size: int, scope: Scope = EVERYTHING, start: int | Place = 0
) -> Traced:
    """What totals() of the same interval and scope is made of, with `size` of its parts, the
    dearest first.

    The parts are jobs (key "": what no job held); of one job, and of what none held, GPUs.
    """
    parts_by = "job" if scope.job is None else "gpu"
    seen = look(interval, parts_by, "gpu_model", scope=scope)
    parts = seen.ranked(parts_by, size, sort=ranking.COST, start=start)
    cells = by_groups(seen.columns, "gpu_model")
    models = seen.lines("gpu_model", [number for (number,) in cells])
    by_model = ((models[number][1], of_model) for (number,), of_model in cells.items())
    return Traced(parts.totals, terms(by_model), parts_by, parts)


def held_by_owner(interval: Interval, owner: str) -> dict[int, dict[Line, tuple[int, Decimal]]]:
    """Job id -> key and label of its team (project, cost centre) -> GPU time and dollars."""
    seen = look(interval, "job", owner).held()
    lines = seen.lines(owner, ())
    held: dict[int, dict[Line, tuple[int, Decimal]]] = defaultdict(dict)
    for (job, number), cells in by_groups(seen.columns, "job", owner).items():
        if amount := _amount(cells):
            held[job][lines[number]] = amount
    return dict(held)


def held_by_job(interval: Interval, scope: Scope) -> dict[int, tuple[int, Decimal]]:
    """Job id -> GPU time and dollars, of jobs in the scope that held any."""
    seen = look(interval, "job", scope=scope).held()
    amounts = {job: _amount(cells) for (job,), cells in by_groups(seen.columns, "job").items()}
    return {job: amount for job, amount in amounts.items() if amount}


def cost_of_jobs(interval: Interval, job_ids: Collection[int]) -> dict[int, Decimal]:
    """Job id -> dollars, of those of these jobs all of whose time has a rate."""
    seen = look(interval, "job", scope=Scope(jobs=tuple(job_ids))).held()
    groups = {job: summed(cells) for (job,), cells in by_groups(seen.columns, "job").items()}
    return {
        job: totals.cost_usd
        for job, totals in groups.items()
        if totals.capacity_ms and not totals.unpriced_ms
    }


def _amount(cells: Sequence[Cell]) -> tuple[int, Decimal] | None:
    """GPU time and dollars; None without time."""
    gpu_ms = sum(cell.gpu_ms for cell in cells)
    dollars = pricing.price((cell.gpu_ms, cell.price.usd_per_gpu_hour) for cell in cells)
    return (gpu_ms, dollars) if gpu_ms else None


def dollars_over_time(interval: Interval, step: str, *, scope: Scope = EVERYTHING) -> list[Bucket]:
    """Every step that the interval touches, in order: UTC clock hours, or days of the
    organisation's zone (23 to 25 h).

    Of the first and the last one what lies in the interval.

    Raises ValueError for another step.
    """
    return totals_and_steps(interval, step, scope=scope)[1]


def totals_and_steps(
    interval: Interval, step: str, *, scope: Scope = EVERYTHING
) -> tuple[Totals, list[Bucket]]:
    """totals() and dollars_over_time(), in one look."""
    starts = _starts(interval, step)
    seen = look(interval, scope=scope, step=step)
    return seen.totals(), seen.buckets(starts) or _buckets({}, starts)


def over_time_by(
    interval: Interval, group_by: str, step: str, *, scope: Scope = EVERYTHING
) -> list[Series]:
    """dollars_over_time() of each line of totals_by(), by key.

    Raises ValueError for another group_by or step.
    """
    seen = look(interval, group_by, scope=scope, step=step)
    parts = seen.steps(group_by)
    lines = seen.lines(group_by, parts)
    starts = _starts(interval, step)
    return sorted(
        (Series(*lines[key], _buckets(part, starts)) for key, part in parts.items()),
        key=lambda series: (series.key, series.label),
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything over time, and what of it is whose: the groups that cost most, the dearest first,
    what is in no group (no job held it), and all others as one; of what there is not, no bucket.
    """

    whole: list[Bucket]
    largest: list[Series]
    unallocated: list[Bucket]
    others: list[Bucket]


def largest_over_time(
    interval: Interval, group_by: str, step: str, size: int, *, scope: Scope = EVERYTHING
) -> Parts:
    """dollars_over_time(), taken apart by `size` groups.

    Raises ValueError for another group_by or step.
    """
    seen = look(interval, group_by, scope=scope, step=step)
    starts = _starts(interval, step)
    held = seen.held(group_by)
    ids = ranking.largest(held.columns, group_by, ranking.COST, size)
    parts = held.of(group_by, ids).steps(group_by)
    lines = seen.lines(group_by, ids)
    return Parts(
        seen.buckets(starts),
        [Series(*lines[key], _buckets(parts[key], starts)) for key in ids],
        seen.of(group_by, [NO_KEY]).buckets(starts),
        held.but(group_by, ids).buckets(starts),
    )


def _starts(interval: Interval, step: str) -> list[datetime]:
    organisation_zone = zone()
    whole = boundaries.outward(interval, organisation_zone)
    return boundaries.steps(whole, step, organisation_zone)


def _buckets(parts: dict[int, list[Cell]], starts: Sequence[datetime]) -> list[Bucket]:
    return [Bucket(start, summed(parts.get(place, ()))) for place, start in enumerate(starts)]
