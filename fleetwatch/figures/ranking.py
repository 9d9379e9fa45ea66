"""The largest of very many groups, and the others as one line. Pure.

Groups are ordered by whole micro-dollars, worked out in floats: order is all that these decide.
Every figure is summed from integers and rates, as everywhere (cells.py), so that shown lines and
the rest are the whole, exactly.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from fleetwatch.figures.cells import Cell, by_line, summed
from fleetwatch.figures.packed_spans import Ints, numbered, sums
from fleetwatch.figures.priced_columns import Columns
from fleetwatch.figures.pricing import HOUR_MS
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import HEADLINE_TIERS, Group, Totals

WASTE, COST, TIME, WASTED_MS = "waste", "cost", "time", "wasted_ms"
SORTS = (WASTE, COST, TIME)
MICRO = 1_000_000

# of a group in the order: what it is sorted by (micro-dollars or milliseconds), and its key
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rest:
    """Groups that are not shown, as one."""

    groups: int
    totals: Totals


@dataclass(frozen=True, slots=True)
class Ranked:
    """Some groups in a row out of an order, those before them and those after them; together they
    are the whole.
    """

    groups: list[Group]
    before: Rest
    after: Rest
    totals: Totals  # of all
    last: Place | None  # of the last one shown; None when none is

    @property
    def count(self) -> int:
        """How many groups there are in all."""
        return self.before.groups + len(self.groups) + self.after.groups


@dataclass(frozen=True, slots=True)
class Wasters:
    """Everything; every team; the users and jobs that wasted most.

    What no job held is in the totals alone.
    """

    totals: Totals
    teams: list[Group]
    users: Ranked
    jobs: Ranked


@dataclass(frozen=True, slots=True)
class Cut:
    """Keys of shown groups in order, and the cells of all: by shown key, of those before and of
    those after.
    """

    keys: list[int]
    cells: dict[int, list[Cell]]
    before: tuple[int, list[Cell]]
    after: tuple[int, list[Cell]]
    last: Place | None


def cut(told: Columns[Kind], group_by: str, sort: str, *, start: int | Place, size: int) -> Cut:
    """`size` groups from the one at position `start` on, or from after that place.

    By wasted dollars then dollars then wasted time (waste), by dollars or by time, the largest
    first; equal ones by key.
    """
    groups, inverse = numbered(told.by[group_by].at)
    keys = told.by[group_by].ids[groups]
    by = [_figure(name, told, inverse, len(keys)) for name in (*_THEN[sort], sort)]
    order = np.lexsort((keys, *(-each for each in by)))  # by the last one first
    value, place = by[-1][order], keys[order]
    first = start if isinstance(start, int) else _after(value, place, start)
    shown = place[first : first + size].tolist()
    # two lines more than are shown: what comes before them, and what after; each span is summed
    # once
    line = np.full(len(order), len(shown) + 1, dtype=np.int64)
    line[order[:first]], line[order[first : first + size]] = len(shown), np.arange(len(shown))
    cells = by_line(told, line[inverse])
    return Cut(
        keys=shown,
        cells={key: cells[number] for number, key in enumerate(shown)},
        before=(min(first, len(order)), cells.get(len(shown), [])),
        after=(max(0, len(order) - first - size), cells.get(len(shown) + 1, [])),
        last=(int(value[first + len(shown) - 1]), shown[-1]) if shown else None,
    )


def ranked(found: Cut, groups: list[Group]) -> Ranked:
    """The cut with its groups by name."""
    (count_before, before), (count_after, after) = found.before, found.after
    everything = chain(before, *found.cells.values(), after)
    return Ranked(
        groups,
        Rest(count_before, summed(before)),
        Rest(count_after, summed(after)),
        summed(everything),
        found.last,
    )


# by waste alone: who wasted as much and cost more is told first
_THEN: dict[str, tuple[str, ...]] = {WASTE: (WASTED_MS, COST), COST: (), TIME: ()}


def _figure(name: str, told: Columns[Kind], inverse: Ints, count: int) -> Ints:
    """Of each group what it may be sorted by: whole micro-dollars (waste, cost), milliseconds
    (time, wasted_ms).
    """
    gpu_ms = told.figures["gpu_ms"]
    if name in (WASTE, WASTED_MS):
        is_wasted = told.labelled(lambda kind: kind.tier in HEADLINE_TIERS)
        gpu_ms = np.where(is_wasted, gpu_ms, 0)
    if name in (TIME, WASTED_MS):
        return sums(inverse, gpu_ms, count)
    micro_usd = gpu_ms * told.rates() * (MICRO / HOUR_MS)
    return np.rint(np.bincount(inverse, micro_usd, count)).astype(np.int64)


def _after(values: Ints, keys: Ints, place: Place) -> int:
    """How many groups come up to that place, it included."""
    value, key = place
    return int(np.count_nonzero((values > value) | ((values == value) & (keys <= key))))
