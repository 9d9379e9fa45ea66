"""Windows that the same rule decided, put together for people: a line per rule, and in it the
stretches of time. Pure.

Two windows are decided alike when the words of their rules differ in numbers alone; what these
ranged over is shown in their place. A time of day is no such number: it names a run, and two runs
are two lines.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter

from fleetwatch.dashboard.column_values import ranged
from fleetwatch.dashboard.shown_states import shown_state
from fleetwatch.ledger.explain import Stretch
from fleetwatch.ledger.judgement.column_words import label
from fleetwatch.ledger.policy import SHOWN_STATES

# a number by itself: not a part of a name (xid_79), nor of a time of day (08:10:20)
_VALUE = re.compile(r"((?<![\w.:])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w:]))")
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
    def measured(self) -> list[tuple[str, str]]:
        """Each value's name and range in words."""
        values = self.values or {}
        return [(label(name), ranged(name, *ends)) for name, ends in values.items()]

    @property
    def what(self) -> str:
        """What it decided, one or several: windows, or times without any."""
        name = "gap without windows" if self.values is None else "window"
        if self.count == 1:
            return name
        return name.replace("gap", "gaps") if self.values is None else f"{name}s"

    @property
    def shown(self) -> Sequence[Time]:
        """The first stretches of time."""
        return self.times[:MAX_STRETCHES]

    @property
    def left_off(self) -> int:
        return len(self.times) - len(self.shown)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What several rules decided together: how many windows, and their GPU time by state."""

    count: int
    parts: Mapping[str, int]

    @classmethod
    def of(cls, lines: Sequence[Decided]) -> "Decisions":
        parts = _summed(line.parts for line in lines)
        return cls(
            sum(line.count for line in lines),
            {state: parts[state] for state in SHOWN_STATES if state in parts},
        )

    @property
    def gpu_ms(self) -> int:
        return sum(self.parts.values())


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


@dataclass(frozen=True, slots=True)
class _Worded:
    """A stretch, and each sentence of its rule in parts: words and values in turn."""

    stretch: Stretch
    sentences: Sequence[tuple[str, ...]]

    @property
    def decided_by(self) -> tuple[object, ...]:
        """What is the same of stretches that one rule decided."""
        words = tuple(parts[::2] for parts in self.sentences)
        states = frozenset(map(shown_state, self.stretch.parts))
        return words, states, self.stretch.values is None


def _worded(lane: Iterable[Stretch]) -> Iterator[_Worded]:
    @cache  # windows say the same again and again
    def parted(sentence: str) -> tuple[str, ...]:
        return tuple(_VALUE.split(sentence))

    for stretch in lane:
        yield _Worded(stretch, list(map(parted, stretch.rule)))


def _lines(lane: Iterable[Stretch]) -> list[Decided]:
    """The lines of one GPU and holder, whose stretches come in order of time."""
    by_words: dict[tuple[object, ...], list[list[_Worded]]] = defaultdict(list)
    for words, neighbours in groupby(_worded(lane), key=attrgetter("decided_by")):
        by_words[words].append(list(neighbours))
    return [_line(rows) for rows in by_words.values()]


def _line(rows: Sequence[Sequence[_Worded]]) -> Decided:
    whole = [each.stretch for row in rows for each in row]
    rules = zip(*(each.sentences for row in rows for each in row), strict=True)
    parts = _summed({shown_state(part): part.gpu_ms} for each in whole for part in each.parts)
    return Decided(
        start_ms=whole[0].start_ms,
        end_ms=whole[-1].end_ms,
        job_id=whole[0].job_id,
        count=len(whole),
        rule=[_ranged(sentences) for sentences in rules],
        parts=parts,
        values=_ranges(whole),
        times=[_time(row) for row in rows],
    )


def _summed(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """GPU time by state of all of these."""
    sums: dict[str, int] = defaultdict(int)
    for parts in several:
        for state, gpu_ms in parts.items():
            sums[state] += gpu_ms
    return dict(sums)


def _time(row: Sequence[_Worded]) -> Time:
    return Time(row[0].stretch.start_ms, row[-1].stretch.end_ms, len(row))


def _ranged(sentences: Sequence[Sequence[str]]) -> str:
    """One sentence for all, each in parts: where their numbers differ, the smallest to the
    largest.
    """
    values = zip(*(parts[1::2] for parts in sentences), strict=True)
    whole = list(sentences[0])
    whole[1::2] = map(_range, values)
    return "".join(whole)


def _range(several: Iterable[str]) -> str:
    distinct = dict.fromkeys(several)
    low = min(distinct, key=float)
    high = max(distinct, key=float)
    return low if float(low) == float(high) else f"{low} to {high}"


def _ranges(several: Sequence[Stretch]) -> dict[str, tuple[float, float]] | None:
    """Smallest and largest of each value, where it was read."""
    read: dict[str, list[float]] = defaultdict(list)
    for names, alike in groupby((stretch.values for stretch in several), key=_names):
        if names is None:
            return None
        # of windows in a row the same was read: column by column, not value by value
        columns = zip(*(each.values() for each in alike if each is not None), strict=True)
        for name, values in zip(names, columns, strict=True):
            read[name] += values
    return {name: (min(values), max(values)) for name, values in read.items()}


def _names(values: dict[str, float] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
