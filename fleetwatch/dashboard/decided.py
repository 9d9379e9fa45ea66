"""Windows that the same rule decided, put together for people: a line per rule, and in it the
stretches of time. Pure.

Two windows are decided alike when the words of their rules differ in numbers and times of day
alone; what these ranged over is shown in their place.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fleetwatch.ledger.explain import Stretch

# a time of day (08:10:20), or a number by itself: not a part of a name (xid_79)
_VALUE = re.compile(r"\d\d:\d\d:\d\d|(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
MAX_STRETCHES = 50  # shown of one rule


@dataclass(frozen=True, slots=True)
class Time:
    """Windows one after the other that one rule decided."""

    start_ms: int
    end_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class Decided:
    """What one rule decided for one holder of a GPU: how many windows and when, their GPU time by
    state, the range of each value.
    """

    start_ms: int
    end_ms: int
    job_id: int | None
    count: int
    rule: Sequence[str]
    parts: Mapping[str, int]
    values: Mapping[str, tuple[float, float]] | None  # None: no window covers it
    times: Sequence[Time]

    @property
    def shown(self) -> Sequence[Time]:
        """The first stretches of time."""
        return self.times[:MAX_STRETCHES]

    @property
    def left_off(self) -> int:
        return len(self.times) - len(self.shown)


def by_rule(stretches: Iterable[Stretch]) -> list[Decided]:
    """One line per GPU, holder and rule, the one with most GPU time first; of several holders each
    has its own.
    """
    lanes: dict[tuple[int, int | None], list[Stretch]] = defaultdict(list)
    for stretch in stretches:
        lanes[stretch.gpu_id, stretch.job_id].append(stretch)
    lines = [line for lane in lanes.values() for line in _lines(lane)]
    return sorted(
        lines, key=lambda line: (-sum(line.parts.values()), line.start_ms, line.job_id or 0)
    )


def _lines(lane: Sequence[Stretch]) -> list[Decided]:
    """The lines of one GPU and holder, whose stretches come in order of time."""
    by_words: dict[tuple[object, ...], list[list[Stretch]]] = defaultdict(list)
    for words, neighbours in groupby(lane, key=_decided_by):
        by_words[words].append(list(neighbours))
    return [_line(rows) for rows in by_words.values()]


def _line(rows: Sequence[Sequence[Stretch]]) -> Decided:
    whole = [stretch for row in rows for stretch in row]
    rules = zip(*(stretch.rule for stretch in whole), strict=True)
    parts: dict[str, int] = defaultdict(int)
    for stretch in whole:
        for part in stretch.parts:
            parts[part.state] += part.gpu_ms
    return Decided(
        start_ms=whole[0].start_ms,
        end_ms=whole[-1].end_ms,
        job_id=whole[0].job_id,
        count=len(whole),
        rule=[_ranged(sentences) for sentences in rules],
        parts=dict(parts),
        values=_ranges(whole),
        times=[Time(row[0].start_ms, row[-1].end_ms, len(row)) for row in rows],
    )


def _decided_by(stretch: Stretch) -> tuple[object, ...]:
    """What is the same of stretches that one rule decided."""
    template = tuple(_VALUE.sub("#", words) for words in stretch.rule)
    return template, frozenset(part.state for part in stretch.parts), stretch.values is None


def _ranged(sentences: Sequence[str]) -> str:
    """One sentence for all: where their numbers or times differ, the smallest to the largest."""
    values = zip(*(_VALUE.findall(words) for words in sentences), strict=True)
    texts = iter([_range(several) for several in values])
    return _VALUE.sub(lambda _: next(texts), sentences[0])


def _range(several: Sequence[str]) -> str:
    low = min(several, key=_size)
    high = max(several, key=_size)
    return low if _size(low) == _size(high) else f"{low} to {high}"


def _size(text: str) -> float:
    """A number, or a time of day in seconds."""
    if ":" not in text:
        return float(text)
    hours, minutes, seconds = map(int, text.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def _ranges(several: Sequence[Stretch]) -> dict[str, tuple[float, float]] | None:
    """Smallest and largest of each value, where it was read."""
    read: dict[str, list[float]] = defaultdict(list)
    for stretch in several:
        if stretch.values is None:
            return None
        for name, value in stretch.values.items():
            read[name].append(value)
    return {name: (min(values), max(values)) for name, values in read.items()}
