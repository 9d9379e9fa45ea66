"""The largest of very many groups, and the others as one line. Pure.

Groups are ordered by whole micro-dollars, worked out in floats: order is all that these decide. Every figure is
summed from integers and rates, as everywhere (cells.py), so that shown lines and the rest are the whole, exactly.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.costs.cells import Cell, summed
from fleetwatch.costs.pricing import HOUR_MS
from fleetwatch.costs.totals import HEADLINE_TIERS, Group, Totals

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WASTE, COST, TIME = "waste", "cost", "time"
SORTS = (WASTE, COST, TIME)
MICRO = 1_000_000
NO_KEY = 0  # of time that no job held: ids begin with 1

Place = tuple[int, int]  # of a group in the order: what it is sorted by (micro-dollars or milliseconds), and its key


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of packed_cells.sql: cells without figures, and of each span which of these it is, its key and its figures."""

    common: list[Cell]
    row: Ints  # position in common
    keys: Ints
    gpu_ms: Ints
    energy_j: Floats  # NaN = not read
    energy_ms: Ints
    users: list[str]  # whose job it is of; empty where nobody asked


@dataclass(frozen=True, slots=True)
class Rest:
    """Groups that are not shown, as one."""

    groups: int
    totals: Totals


@dataclass(frozen=True, slots=True)
class Ranked:
    """Some groups in a row out of an order, those before them and those after them; together they are the whole."""

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
    """Everything; every team; the users and jobs that wasted most. What no job held is in the totals alone."""

    totals: Totals
    teams: list[Group]
    users: Ranked
    jobs: Ranked


@dataclass(frozen=True, slots=True)
class Cut:
    """Keys of shown groups in order, and the cells of all: by shown key, of those before and of those after."""

    keys: list[int]
    cells: dict[int, list[Cell]]
    before: tuple[int, list[Cell]]
    after: tuple[int, list[Cell]]
    last: Place | None


def columns(rows: Sequence[Sequence[Any]]) -> Columns:
    """The rows of packed_cells.sql as columns."""
    common = [_without_figures(row) for row in rows]
    packed = [[np.frombuffer(row[9 + column], dtype=kind) for row in rows] for column, kind in enumerate((">i8", ">i8", ">f8", ">i8"))]
    keys, gpu_ms, energy_j, energy_ms = (np.concatenate(parts) if parts else np.zeros(0) for parts in packed)
    lengths = [len(part) for part in packed[0]]
    return Columns(
        common=common,
        row=np.repeat(np.arange(len(common)), lengths),
        keys=keys.astype(np.int64),
        gpu_ms=gpu_ms.astype(np.int64),
        energy_j=energy_j.astype(np.float64),
        energy_ms=energy_ms.astype(np.int64),
        users=[user for row in rows for user in row[13] or ()],
    )


def only(told: Columns, keys: Collection[int]) -> Columns:
    """The spans of these keys alone."""
    return _some(told, np.isin(told.keys, list(keys)))


def held(told: Columns) -> Columns:
    """The spans of jobs alone."""
    return _some(told, told.keys != NO_KEY)


def by_user(told: Columns) -> tuple[Columns, list[str]]:
    """The spans with a number of the user in place of the job; and the users, the first with the number 1."""
    numbers: dict[str, int] = {}
    keys = [numbers.setdefault(user, len(numbers) + 1) for user in told.users]
    return replace(told, keys=np.array(keys, dtype=np.int64)), list(numbers)


def whole(told: Columns) -> list[Cell]:
    """The cells of everything, whatever their key."""
    return _together(told, told.keys >= NO_KEY)


def cut(told: Columns, sort: str, *, start: int | Place, size: int) -> Cut:
    """`size` groups from the one at position `start` on, or from after that place.

    By wasted dollars then dollars then wasted time (waste), by dollars or by time, the largest first; equal ones by key.
    """
    keys, inverse = np.unique(told.keys, return_inverse=True)
    by = _figures(told, inverse, len(keys))
    order = np.lexsort((keys, *(-by[name] for name in _THEN[sort]), -by[sort]))
    value, place = by[sort][order], keys[order]
    first = start if isinstance(start, int) else _after(value, place, start)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    at = rank[inverse]
    shown = place[first : first + size].tolist()
    return Cut(
        keys=shown,
        cells={key: _together(told, told.keys == key) for key in shown},
        before=(min(first, len(order)), _together(told, at < first)),
        after=(max(0, len(order) - first - size), _together(told, at >= first + size)),
        last=(int(value[first + len(shown) - 1]), shown[-1]) if shown else None,
    )


def ranked(found: Cut, groups: list[Group]) -> Ranked:
    """The cut with its groups by name."""
    (count_before, before), (count_after, after) = found.before, found.after
    everything = chain(before, *found.cells.values(), after)
    return Ranked(groups, Rest(count_before, summed(before)), Rest(count_after, summed(after)), summed(everything), found.last)


# by waste alone: who wasted as much and cost more is told first
_THEN: dict[str, tuple[str, ...]] = {WASTE: ("wasted_ms", COST), COST: (), TIME: ()}


def _figures(told: Columns, inverse: Ints, count: int) -> dict[str, Ints]:
    """Of each group what it may be sorted by: whole micro-dollars, milliseconds."""
    wasted = np.array([cell.tier in HEADLINE_TIERS for cell in told.common], dtype=bool)[told.row]
    rate = np.array([float(cell.usd_per_gpu_hour or 0) for cell in told.common])[told.row]
    usd = told.gpu_ms * rate * (MICRO / HOUR_MS)
    return {
        WASTE: np.rint(np.bincount(inverse, np.where(wasted, usd, 0), count)).astype(np.int64),
        COST: np.rint(np.bincount(inverse, usd, count)).astype(np.int64),
        TIME: np.bincount(inverse, told.gpu_ms, count).astype(np.int64),
        "wasted_ms": np.bincount(inverse, np.where(wasted, told.gpu_ms, 0), count).astype(np.int64),
    }


def _after(values: Ints, keys: Ints, place: Place) -> int:
    """How many groups come up to that place, it included."""
    value, key = place
    return int(np.count_nonzero((values > value) | ((values == value) & (keys <= key))))


def _together(told: Columns, chosen: NDArray[np.bool_]) -> list[Cell]:
    """The chosen spans, those with all in common as one."""
    index = np.flatnonzero(chosen)
    index = index[np.argsort(told.row[index], kind="stable")]
    rows, first = np.unique(told.row[index], return_index=True)
    bounds = pairwise([*first.tolist(), len(index)])
    return [
        _with_figures(told.common[row], told.gpu_ms[some], told.energy_j[some], told.energy_ms[some])
        for row, some in zip(rows.tolist(), (index[start:end] for start, end in bounds), strict=True)
    ]


def _some(told: Columns, chosen: NDArray[np.bool_]) -> Columns:
    users = [user for user, is_chosen in zip(told.users, chosen.tolist(), strict=True) if is_chosen] if told.users else []
    return Columns(
        told.common, told.row[chosen], told.keys[chosen], told.gpu_ms[chosen], told.energy_j[chosen], told.energy_ms[chosen], users
    )


def _without_figures(row: Sequence[Any]) -> Cell:
    is_held, team_id, owner_text, is_named, state, tier, is_busy_only, rate, is_example = row[:9]
    rate = None if rate is None else Decimal(rate)
    return Cell(None, None, None, is_held, team_id, owner_text, is_named, state, tier, is_busy_only, rate, is_example, 0, None, 0)


def _with_figures(cell: Cell, gpu_ms: Ints, energy_j: Floats, energy_ms: Ints) -> Cell:
    was_read = ~np.isnan(energy_j)
    energy = float(energy_j[was_read].sum()) if was_read.any() else None
    return cell._replace(gpu_ms=int(gpu_ms.sum()), energy_j=energy, energy_ms=int(energy_ms.sum()))
