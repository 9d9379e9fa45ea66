"""What every figure is a sum of: GPU time of one state and tier under one rate. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, localcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetwatch.figures import pricing
from fleetwatch.figures.packed_spans import Ints
from fleetwatch.figures.priced_columns import Columns, Price, summed_by
from fleetwatch.figures.state_spans import Kind
from fleetwatch.figures.totals import HEADLINE_TIERS, Totals
from fleetwatch.ledger.policy import STATES, TIERS

# what totals have beside each state and each tier of waste
_ALL = "all"
_BUSY_ONLY = "busy only"
_WAITING = "waiting"
_UNPRICED = "unpriced"
_ENERGY = "energy was read"


class Cell(NamedTuple):
    """GPU time of one kind at one price, and its energy; None = nobody read it."""

    kind: Kind
    price: Price
    gpu_ms: int
    energy_j: float | None
    energy_ms: int


def summed(cells: Iterable[Cell]) -> Totals:
    """The totals of cells: each dollar figure is divided once, from its own exact sum."""
    # one pass: a month has tens of thousands of jobs of a few cells each
    ms: defaultdict[str, int] = defaultdict(int)
    usd_ms: defaultdict[str, Decimal] = defaultdict(Decimal)  # dollars x milliseconds
    energy_j: float | None = None
    has_example_rates = False
    with localcontext(pricing.EXACT):
        for kind, (rate, is_example), gpu_ms, joules, energy_ms in cells:
            dollars = gpu_ms * (rate or 0)
            for part in _parts(kind):
                ms[part] += gpu_ms
                usd_ms[part] += dollars
            if rate is None:
                ms[_UNPRICED] += gpu_ms
            ms[_ENERGY] += energy_ms
            if joules is not None and gpu_ms:
                energy_j = (energy_j or 0.0) + joules
            has_example_rates |= bool(is_example and gpu_ms)
    return replace(_totals(ms, usd_ms), has_example_rates=has_example_rates, energy_j=energy_j)


class Waste(NamedTuple):
    """What Totals have of waste, in dollars x milliseconds, exactly: what was wasted, what nobody
    saw, and whether some of the time has no rate.
    """

    wasted_usd_ms: Decimal
    unseen_usd_ms: Decimal
    is_unpriced: bool


def waste(cells: Iterable[Cell]) -> Waste:
    """Of cells, for who asks of ten thousand groups whether one is above a bound."""
    wasted = unseen = Decimal(0)
    is_unpriced = False
    with localcontext(pricing.EXACT):
        for kind, (rate, _), gpu_ms, _, _ in cells:
            is_unpriced |= rate is None and gpu_ms > 0
            if kind.tier in HEADLINE_TIERS:
                wasted += gpu_ms * (rate or 0)
            elif kind.state == "unobserved":
                unseen += gpu_ms * (rate or 0)
    return Waste(wasted, unseen, is_unpriced)


def _totals(ms: defaultdict[str, int], usd_ms: Mapping[str, Decimal]) -> Totals:
    """Of milliseconds, and of dollars x milliseconds, by part."""
    usd = defaultdict(Decimal, {part: pricing.divided(usd_ms[part]) for part in usd_ms})
    return Totals(
        capacity_ms=ms[_ALL],
        states={state: ms[state] for state in STATES},
        cost_usd=usd[_ALL],
        cost_by_state={state: usd[state] for state in STATES},
        waste_ms={tier: ms[tier] for tier in TIERS},
        waste_usd={tier: usd[tier] for tier in TIERS},
        unpriced_ms=ms[_UNPRICED],
        has_example_rates=False,
        energy_j=None,
        energy_ms=ms[_ENERGY],
        busy_only_ms=ms[_BUSY_ONLY],
        busy_only_usd=usd[_BUSY_ONLY],
        waiting_ms=ms[_WAITING],
        waiting_usd=usd[_WAITING],
    )


@cache
def _parts(kind: Kind) -> list[str]:
    """What of the totals such time is in."""
    parts = [_ALL, kind.state]
    if kind.tier:
        parts.append(kind.tier)
    if kind.is_busy_only:
        parts.append(_BUSY_ONLY)
    if kind.shown == "waiting":
        parts.append(_WAITING)
    return parts


def everything(columns: Columns[Kind]) -> list[Cell]:
    """All spans, those with all in common as one cell."""
    return by_line(columns, np.zeros(len(columns.label), dtype=np.int64))[0]


def by_groups(columns: Columns[Kind], *names: str) -> dict[tuple[int, ...], list[Cell]]:
    """The cells of spans that are in the same group of each of these kinds, by the groups' ids."""
    keys = [columns.by[name] for name in names]
    shape = [max(1, len(key.ids)) for key in keys]
    cells = by_line(columns, np.ravel_multi_index([key.at for key in keys], shape))
    places = np.unravel_index(np.array(list(cells), dtype=np.int64), shape)
    ids = [key.ids[place].tolist() for key, place in zip(keys, places, strict=True)]
    return dict(zip(zip(*ids, strict=True), cells.values(), strict=True))


def by_line(columns: Columns[Kind], line: Ints) -> defaultdict[int, list[Cell]]:
    """The spans of each line (a number from 0 on), those with all in common as one cell."""
    cells: defaultdict[int, list[Cell]] = defaultdict(list)
    for number, label, price, gpu_ms, joules, reads, energy_ms in zip(
        *_figures(columns, line), strict=True
    ):
        energy_j = joules if reads else None
        cell = Cell(columns.labels[label], columns.prices[price], gpu_ms, energy_j, energy_ms)
        cells[number].append(cell)
    return cells


def _figures(columns: Columns[Kind], line: Ints) -> Iterator[list[Any]]:
    """Of the cells one by one: line, label, price, milliseconds, joules, how many spans have any,
    and milliseconds in which they were read.
    """
    together = summed_by(columns, line)
    count = len(together.line)
    energy_j = columns.figures["energy_j"]
    at = together.at
    was_read = ~np.isnan(energy_j)
    if not was_read.all():
        at = at[was_read]
        energy_j = energy_j[was_read]
    figures: tuple[NDArray[Any], ...] = (
        together.line,
        together.label,
        together.price,
        together.of(columns.figures["gpu_ms"]),
        np.bincount(at, energy_j, count),
        np.bincount(at, minlength=count),
        together.of(columns.figures["energy_ms"]),
    )
    return (figure.tolist() for figure in figures)
