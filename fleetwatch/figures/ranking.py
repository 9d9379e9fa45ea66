"""The largest of very many groups, and the others as one line. Pure.

Groups are ordered by whole micro-dollars, worked out in floats: order is all that these decide.
Every figure is summed from integers and rates, as everywhere (cells.py), so that shown lines and
the rest are the whole, exactly.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from fleetwatch.figures.cells import by_line, summed
from fleetwatch.figures.packed_spans import Ints, numbered, sums
from fleetwatch.figures.priced_columns import Columns
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import HEADLINE_TIERS, Group, Totals
from fleetwatch.lib.intervals import HOUR_MS

WASTE = "waste"
COST = "cost"
TIME = "time"
GPUS = "gpus"
WASTED_MS = "wasted_ms"
SORTS = (WASTE, COST, TIME, GPUS)
# by waste alone: who wasted as much and cost more comes first
_THEN = {WASTE: (WASTED_MS, COST)}
MICRO = 1_000_000
AHEAD = 2**61  # more than any figure

# of a group in the order: what it is sorted by (micro-dollars or milliseconds), and its key
Place = tuple[int, int]


Values = Callable[[Ints], Ints]  # of each id


@dataclass(frozen=True, slots=True)
class Order:
    """By one of SORTS, or by what `values` gives, the largest first; groups with the ids that are
    `ahead` come before all others.
    """

    sort: str = WASTE
    values: Values | None = None
    ahead: Collection[int] = ()


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
    """Every team; the users and jobs that wasted most."""

    teams: list[Group]
    users: Ranked
    jobs: Ranked
    unallocated: Group | None = None  # what no job held


Names = Callable[[Collection[int]], Mapping[int, tuple[str, str]]]  # key and label of each id


def ranked(
    columns: Columns[Kind],
    group_by: str,
    names: Names,
    *,
    sort: str | Order,
    start: int | Place,
    size: int,
) -> Ranked:
    """`size` groups from the one at position `start` on, or from after that place.

    By wasted dollars then dollars then wasted time (waste), by dollars, time or number of GPUs, the
    largest first; equal ones by key.
    """
    order = _ordered(columns, group_by, sort if isinstance(sort, Order) else Order(sort))
    first = start if isinstance(start, int) else order.up_to(start)
    return _window(columns, order, names, min(first, len(order.ids)), size)


def largest(columns: Columns[Kind], group_by: str, sort: str, size: int) -> list[int]:
    """The ids of the first `size` groups in the order of ranked()."""
    return list(map(int, _ordered(columns, group_by, Order(sort)).ids[:size]))


def _window(columns: Columns[Kind], order: "_Order", names: Names, first: int, size: int) -> Ranked:
    shown = order.ids[first : first + size].tolist()
    # two lines more than are shown: what comes before them, and what after; each span is summed
    # once
    cells = by_line(columns, np.clip(order.at - first + 1, 0, len(shown) + 1))
    lines = names(shown)
    groups = [Group(*lines[key], summed(cells[line])) for line, key in enumerate(shown, 1)]
    last = first + len(shown)
    return Ranked(
        groups,
        Rest(first, summed(cells[0])),
        Rest(len(order.ids) - last, summed(cells[len(shown) + 1])),
        summed(chain.from_iterable(cells.values())),
        order.place(last - 1) if shown else None,
    )


@dataclass(frozen=True, slots=True)
class _Order:
    """Groups, the first ones ahead; `at`: of each span, its group's place among them."""

    ids: Ints
    values: Ints  # what they are sorted by
    at: Ints

    def place(self, position: int) -> Place:
        """The one at that position."""
        return int(self.values[position]), int(self.ids[position])

    def up_to(self, place: Place) -> int:
        """How many groups come up to that place, it included."""
        value, key = place
        is_before = (self.values > value) | ((self.values == value) & (self.ids <= key))
        return int(np.count_nonzero(is_before))


def _ordered(columns: Columns[Kind], group_by: str, wanted: Order) -> _Order:
    groups, group = numbered(columns.by[group_by].at)
    ids = columns.by[group_by].ids[groups]
    by = [wanted.values(ids)] if wanted.values else _figures(wanted.sort, columns, group, len(ids))
    by[-1] = by[-1] + AHEAD * np.isin(ids, list(wanted.ahead))
    order = np.lexsort((ids, *(-each for each in by)))  # by the last one first
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return _Order(ids[order], by[-1][order], place[group])


def _figures(sort: str, columns: Columns[Kind], group: Ints, count: int) -> list[Ints]:
    """Of each group what it is sorted by, the last one first."""
    return [_figure(name, columns, group, count) for name in (*_THEN.get(sort, ()), sort)]


def _figure(name: str, columns: Columns[Kind], group: Ints, count: int) -> Ints:
    """Of each group what it may be sorted by: whole micro-dollars (waste, cost), milliseconds
    (time, wasted_ms), GPUs.
    """
    if name == GPUS:
        return gpus(columns, group, count)
    gpu_ms = columns.figures["gpu_ms"]
    if name in (WASTE, WASTED_MS):
        is_wasted = columns.labelled(lambda kind: kind.tier in HEADLINE_TIERS)
        gpu_ms = np.where(is_wasted, gpu_ms, 0)
    if name in (TIME, WASTED_MS):
        return sums(group, gpu_ms, count)
    micro_usd = gpu_ms * columns.rates() * (MICRO / HOUR_MS)
    return np.rint(np.bincount(group, micro_usd, count)).astype(np.int64)


def gpus(columns: Columns[Kind], group: Ints, count: int) -> Ints:
    """On how many GPUs each group has time.

    Raises ValueError where the columns were not read by GPU: one may stand for others of its price.
    """
    if "gpu" not in columns.by:
        raise ValueError("GPUs are counted of what was read by gpu")
    ids, gpu = numbered(columns.gpu)
    size = max(1, len(ids))
    pairs, _ = numbered(group * size + gpu)
    return np.bincount(pairs // size, minlength=count)
