"""Geometry of state bars and state bands: pure, in percent, for SVG attributes.

SVG attributes and not style attributes, because the page's security policy forbids inline styles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from fleetwatch.budgets.month_end import MonthEnd
from fleetwatch.budgets.selectors import BudgetLine
from fleetwatch.dashboard import numbers, words

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """One rectangle: its state, where it starts and how wide it is, in percent of the bar."""

    state: str
    x: str
    width: str
    title: str


@dataclass(frozen=True, slots=True)
class Stretches:
    """Columns: GPU time of a run in one state, spread over the run's [start_ms, end_ms); of each
    GPU in order of time.
    """

    gpu: Ints  # a place in a list of GPUs
    start_ms: Ints
    end_ms: Ints
    state: Ints  # place in words.NAMES
    ms: Ints
    run_ms: Ints  # of all states of the run


def state_bar(amounts: Mapping[str, Decimal | int]) -> list[Segment]:
    """Segments that fill the bar, in the order of the states; empty when there is nothing."""
    total = sum((Decimal(amount) for amount in amounts.values()), Decimal(0))
    segments: list[Segment] = []
    if total <= 0:
        return segments
    before = Decimal(0)
    for state in words.SHOWN:
        share = Decimal(amounts.get(state.name, 0)) / total
        if share > 0:
            title = f"{state.label} {numbers.percent(share)}"
            segments.append(Segment(state.name, _percent(before), _percent(share), title))
        before += share
    return segments


@dataclass(frozen=True, slots=True)
class SpendBar:
    """Spent, expected and the range up to its upper end, on one scale with the budget; percent of
    the bar, "" = not there.
    """

    spent: str
    expected_x: str
    expected: str
    range_x: str
    range: str
    budget_x: str
    label: str


def bar_of(line: BudgetLine) -> SpendBar | None:
    """A team's month, or the fleet's, as spend_bar()."""
    return spend_bar(
        line.spent_usd, line.budget_usd, line.end, at_run_rate_usd=line.at_run_rate_usd
    )


def spend_bar(
    spent_usd: Decimal,
    budget_usd: Decimal | None,
    end: MonthEnd | None,
    *,
    at_run_rate_usd: Decimal | None = None,
) -> SpendBar | None:
    """None where there is nothing to draw: what was spent alone would always be a full bar. Without
    an `end` the month at the run rate is expected, without a range.
    """
    if end is None and budget_usd is None:
        return None
    spent = float(spent_usd)
    budget = float(budget_usd or 0)
    expected, low, high = _expected(spent if at_run_rate_usd is None else at_run_rate_usd, end)
    top = _top(spent, budget, expected, high)
    if top <= 0:
        return None
    of_bar = partial(_share_of, top)
    return SpendBar(
        spent=of_bar(spent),
        expected_x=of_bar(spent),
        expected=of_bar(max(expected - spent, 0)),
        range_x=of_bar(low),
        range=of_bar(max(min(high, top) - low, 0)),
        budget_x="" if budget_usd is None else of_bar(budget),
        label=_label(spent_usd, budget_usd, end, at_run_rate_usd),
    )


def _top(spent: float, budget: float, expected: float, high: float) -> float:
    """What the whole bar stands for: room for all, of a range far above the rest for a part."""
    return max(spent, min(high, 2 * max(expected, budget)), budget) * 1.02


def _share_of(top: float, usd: float) -> str:
    return _percent(Decimal(usd / top))


def _expected(otherwise: Decimal | float, end: MonthEnd | None) -> tuple[float, float, float]:
    """By the month's end, with its lower and upper end."""
    if end is None:
        return (float(otherwise),) * 3
    return end.end.expected_usd, end.end.low_usd, end.end.high_usd


def _label(
    spent_usd: Decimal,
    budget_usd: Decimal | None,
    end: MonthEnd | None,
    at_run_rate_usd: Decimal | None,
) -> str:
    """What the bar shows, in words."""
    parts = [f"{numbers.usd(spent_usd)} spent"]
    if end is not None:
        last = end.end
        parts.append(
            f"{numbers.about(last.expected_usd)} expected at the month's end"
            f" ({numbers.about_range(last.low_usd, last.high_usd)})"
        )
    elif at_run_rate_usd is not None:
        parts.append(f"{numbers.about(at_run_rate_usd)} at the month's end at the run rate")
    if budget_usd is not None:
        parts.append(f"budget {numbers.usd(budget_usd)}")
    return ", ".join(parts)


def cells(runs: Stretches, *, gpus: int, start_ms: int, end_ms: int, count: int) -> Ints:
    """GPUs x `count` equal cells: the state that holds most of each, as a place in words.NAMES; -1
    where no run is known.

    A run's states are spread evenly over its length: within a run of active windows the order of
    useful and stalled milliseconds is not kept. Of states with as much the first one stays.
    """
    row, cell, overlap_ms = _touched(runs, start_ms, (end_ms - start_ms) / count, count)
    keys, begin, place = np.unique(
        (runs.gpu[row] * count + cell) * len(words.NAMES) + runs.state[row],
        return_index=True,
        return_inverse=True,
    )
    weight = np.bincount(place, overlap_ms * runs.ms[row] / runs.run_ms[row], len(keys))
    at, state = np.divmod(keys, len(words.NAMES))
    shown = np.full(gpus * count, -1, dtype=np.int64)
    # the last one written stays
    order = np.lexsort((-begin, weight))
    shown[at[order]] = state[order]
    return shown.reshape(gpus, count)


def _touched(
    runs: Stretches, start_ms: int, width_ms: float, count: int
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Each cell that a stretch touches: which stretch, which cell, and for how long."""
    first = np.maximum(runs.start_ms - start_ms, 0)
    last = np.minimum(runs.end_ms - start_ms, width_ms * count)
    low = (first / width_ms).astype(np.int64)
    high = np.minimum(count, (last / width_ms).astype(np.int64) + 1)
    row, cell = _counted(low, (high - low) * ((runs.run_ms > 0) & (first < last)))
    overlap_ms = np.minimum(last[row], (cell + 1) * width_ms) - np.maximum(
        first[row], cell * width_ms
    )
    touched = overlap_ms > 0
    return row[touched], cell[touched], overlap_ms[touched]


def _counted(low: Ints, several: Ints) -> tuple[Ints, Ints]:
    """Of each row so many numbers from its lowest on: of which row, and the number."""
    row = np.repeat(np.arange(len(low)), several)
    return row, low[row] + np.arange(len(row)) - np.repeat(np.cumsum(several) - several, several)


def band(states: Sequence[int]) -> list[Segment]:
    """Equal cells, each with its state as a place in words.SHOWN, as segments, neighbours of one
    state joined; a cell of -1 stays empty.
    """
    segments: list[Segment] = []
    begin = 0
    for place, neighbours in groupby(states):
        count = len(list(neighbours))
        if place >= 0:
            state = words.SHOWN[place]
            x = _percent(Decimal(begin) / len(states))
            width = _percent(Decimal(count) / len(states))
            segments.append(Segment(state.name, x, width, state.label))
        begin += count
    return segments


def _percent(share: Decimal) -> str:
    return f"{share * 100:.3f}%"
