"""Geometry of state bars and state bands: pure, in percent, for SVG attributes.

SVG attributes and not style attributes, because the page's security policy forbids inline styles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.budgets.month_end import MonthEnd
from fleetwatch.dashboard import numbers, words


@dataclass(frozen=True, slots=True)
class Segment:
    """One rectangle: its state, where it starts and how wide it is, in percent of the bar."""

    state: str
    x: str
    width: str
    title: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """GPU time of one run: [start_ms, end_ms) and its milliseconds by state."""

    start_ms: int
    end_ms: int
    state_ms: Mapping[str, int]


def state_bar(amounts: Mapping[str, Decimal | int]) -> list[Segment]:
    """Segments that fill the bar, in the order of the states; empty when there is nothing."""
    total = sum((Decimal(amount) for amount in amounts.values()), Decimal(0))
    segments: list[Segment] = []
    if total <= 0:
        return segments
    before = Decimal(0)
    for state in words.STATES:
        share = Decimal(amounts.get(state.name, 0)) / total
        if share > 0:
            title = f"{state.label} {numbers.percent(share)}"
            segments.append(Segment(state.name, _percent(before), _percent(share), title))
        before += share
    return segments


@dataclass(frozen=True, slots=True)
class SpendBar:
    """Spent, expected and the range up to its upper end, on one scale with the budget; percent of the bar, "" = not there."""

    spent: str
    expected_x: str
    expected: str
    range_x: str
    range: str
    budget_x: str
    label: str


def spend_bar(spent_usd: Decimal, budget_usd: Decimal | None, end: MonthEnd | None) -> SpendBar | None:
    """None where there is nothing to draw."""
    spent = float(spent_usd)
    expected, low, high = (spent, spent, spent) if end is None else (end.end.expected_usd, end.end.low_usd, end.end.high_usd)
    top = max(spent, min(high, 2 * max(expected, float(budget_usd or 0))), float(budget_usd or 0)) * 1.02
    if top <= 0:
        return None
    parts = [f"{numbers.usd(spent_usd)} spent"]
    if end is not None:
        parts.append(f"{numbers.about(expected)} expected at the month's end ({numbers.about(low)} to {numbers.about(high)})")
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


def cells(stretches: Sequence[Stretch], *, start_ms: int, end_ms: int, count: int) -> list[str | None]:
    """The state that holds most of each of `count` equal cells; None where no run is known.

    A run's states are spread evenly over its length: within a run of active windows
    the order of useful and stalled milliseconds is not kept.
    """
    weights: list[dict[str, float]] = [{} for _ in range(count)]
    width = (end_ms - start_ms) / count
    for stretch in stretches:
        total = sum(stretch.state_ms.values())
        first, last = max(stretch.start_ms, start_ms), min(stretch.end_ms, end_ms)
        if not total or first >= last:
            continue
        for index in range(int((first - start_ms) / width), min(count, int((last - start_ms) / width) + 1)):
            overlap = min(last, start_ms + (index + 1) * width) - max(first, start_ms + index * width)
            if overlap <= 0:
                continue
            for state, ms in stretch.state_ms.items():
                weights[index][state] = weights[index].get(state, 0.0) + overlap * ms / total
    return [max(weight, key=lambda state: weight[state]) if weight else None for weight in weights]


def band(states: Sequence[str | None]) -> list[Segment]:
    """Equal cells as segments, neighbours of one state joined; a cell without a state stays empty."""
    segments: list[Segment] = []
    begin = 0
    for index in range(1, len(states) + 1):
        if index < len(states) and states[index] == states[begin]:
            continue
        name = states[begin]
        if name is not None:
            share = Decimal(index - begin) / len(states)
            segments.append(Segment(name, _percent(Decimal(begin) / len(states)), _percent(share), words.BY_NAME[name].label))
        begin = index
    return segments


def _percent(share: Decimal) -> str:
    return f"{share * 100:.3f}%"
