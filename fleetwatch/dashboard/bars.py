"""Geometry of state bars and state bands: pure, in percent, for SVG attributes.

SVG attributes and not style attributes, because the page's security policy forbids inline styles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

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
