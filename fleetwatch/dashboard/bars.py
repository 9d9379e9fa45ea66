"""Geometry of state bars and state bands: pure, in percent, for SVG attributes.

SVG attributes and not style attributes, because the page's security policy forbids inline styles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from fleetwatch.budgets.month_end import MonthEnd
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


def spend_bar(
    spent_usd: Decimal, budget_usd: Decimal | None, end: MonthEnd | None
) -> SpendBar | None:
    """None where there is nothing to draw: what was spent alone would always be a full bar."""
    if end is None and budget_usd is None:
        return None
    spent = float(spent_usd)
    expected, low, high = (
        (spent, spent, spent)
        if end is None
        else (end.end.expected_usd, end.end.low_usd, end.end.high_usd)
    )
    top = (
        max(spent, min(high, 2 * max(expected, float(budget_usd or 0))), float(budget_usd or 0))
        * 1.02
    )
    if top <= 0:
        return None
    parts = [f"{numbers.usd(spent_usd)} spent"]
    if end is not None:
        parts.append(
            f"{numbers.about(expected)} expected at the month's end ({numbers.about(low)} to"
            f" {numbers.about(high)})"
        )
    if budget_usd is not None:
        parts.append(f"budget {numbers.usd(budget_usd)}")
    at = [_percent(Decimal(usd / top)) for usd in (spent, expected, low)]
    return SpendBar(
        spent=at[0],
        expected_x=at[0],
        expected=_percent(Decimal(max(expected - spent, 0) / top)),
        range_x=at[2],
        range=_percent(Decimal(max(min(high, top) - low, 0) / top)),
        budget_x="" if budget_usd is None else _percent(Decimal(float(budget_usd) / top)),
        label=", ".join(parts),
    )


def cells(told: Stretches, *, gpus: int, start_ms: int, end_ms: int, count: int) -> Ints:
    """GPUs x `count` equal cells: the state that holds most of each, as a place in words.NAMES; -1
    where no run is known.

    A run's states are spread evenly over its length: within a run of active windows the order of
    useful and stalled milliseconds is not kept. Of states with as much the first one stays.
    """
    width = (end_ms - start_ms) / count
    first, last = np.maximum(told.start_ms, start_ms), np.minimum(told.end_ms, end_ms)
    low = ((first - start_ms) / width).astype(np.int64)
    high = np.minimum(count, ((last - start_ms) / width).astype(np.int64) + 1)
    several = np.where((told.run_ms > 0) & (first < last), high - low, 0)
    # a row for each cell that a stretch touches
    row = np.repeat(np.arange(len(low)), several)
    cell = low[row] + np.arange(len(row)) - np.repeat(np.cumsum(several) - several, several)
    overlap = np.minimum(last[row], start_ms + (cell + 1) * width) - np.maximum(
        first[row], start_ms + cell * width
    )
    touched = overlap > 0
    row, cell, overlap = row[touched], cell[touched], overlap[touched]
    keys, begin, place = np.unique(
        (told.gpu[row] * count + cell) * len(words.NAMES) + told.state[row],
        return_index=True,
        return_inverse=True,
    )
    weight = np.bincount(place, overlap * told.ms[row] / told.run_ms[row], len(keys))
    at, state = np.divmod(keys, len(words.NAMES))
    shown = np.full(gpus * count, -1, dtype=np.int64)
    # the last one written stays
    order = np.lexsort((-begin, weight))
    shown[at[order]] = state[order]
    return shown.reshape(gpus, count)


def band(states: Sequence[str | None]) -> list[Segment]:
    """Equal cells as segments, neighbours of one state joined; a cell without a state stays
    empty.
    """
    segments: list[Segment] = []
    begin = 0
    for index in range(1, len(states) + 1):
        if index < len(states) and states[index] == states[begin]:
            continue
        name = states[begin]
        if name is not None:
            share = Decimal(index - begin) / len(states)
            segments.append(
                Segment(
                    name,
                    _percent(Decimal(begin) / len(states)),
                    _percent(share),
                    words.BY_NAME[name].label,
                )
            )
        begin = index
    return segments


def _percent(share: Decimal) -> str:
    return f"{share * 100:.3f}%"
