"""Timelines of one node for the pure core: windows by what they say, holders, sources; every field
defaulted.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fleetwatch.ledger.judgement import states
from fleetwatch.ledger.judgement.observations import (
    NOBODY,
    Capacity,
    Judgement,
    NodeContext,
    Outage,
    Question,
)
from fleetwatch.ledger.policy import CONDITIONS, STATES, Policy

HOUR = 3_600_000
MINUTE = 60_000
W = 10_000  # a window of 10 s
T0 = 1_794_000_000_000 // HOUR * HOUR
GIB = 2**30

QUIET = {"util_mean": 0.0, "util_max": 0.0, "memory_used_bytes": 60 * GIB, "process_count": 1}
NEARLY = QUIET | {"util_mean": 0.01, "util_max": 0.02}
BLIP = QUIET | {"util_mean": 0.02, "util_max": 0.6}
BUSY = QUIET | {"util_mean": 1.0, "util_max": 1.0}
EMPTY = {"util_mean": 0.0, "util_max": 0.0, "memory_used_bytes": 0, "process_count": 0}


@dataclass(frozen=True)
class Window:
    start_ms: int
    says: dict[str, float]
    gpu_id: int = 1
    length_ms: int = W
    observed_ms: int | None = None
    boot_start_ms: int = 0
    sequence: int = 0


@dataclass(frozen=True)
class Columns:
    gpu_id: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    observed_ms: np.ndarray
    boot_start_ms: np.ndarray
    sequence: np.ndarray
    columns: dict[str, np.ndarray]


@dataclass(frozen=True)
class Held:
    spans: Sequence[tuple[int, int]]
    gpu_id: int = 1
    job_id: int = 7
    kind: str = "batch"
    share: float | None = None
    source: str = "slurm"


@dataclass(frozen=True)
class Reported:
    spans: Sequence[tuple[int, int]]
    kind: str = "slurm"
    ok: bool = True


@dataclass(frozen=True)
class Told:
    at_ms: int
    kind: str
    gpu_id: int | None = 1
    code: int | None = None


def columns(windows: Sequence[Window]) -> Columns:
    def ints(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    names = sorted({name for window in windows for name in window.says})
    return Columns(
        gpu_id=ints([window.gpu_id for window in windows]),
        start_ms=ints([window.start_ms for window in windows]),
        end_ms=ints([window.start_ms + window.length_ms for window in windows]),
        observed_ms=ints(
            [
                window.length_ms if window.observed_ms is None else window.observed_ms
                for window in windows
            ]
        ),
        boot_start_ms=ints([window.boot_start_ms for window in windows]),
        sequence=ints([window.sequence for window in windows]),
        columns={
            name: np.array([window.says.get(name, np.nan) for window in windows], dtype=np.float64)
            for name in names
        },
    )


def row(
    *stretches: tuple[dict[str, float] | None, int],
    start_ms: int = T0,
    length_ms: int = W,
    **fields: Any,
) -> list[Window]:
    """Windows one after the other: (what they say, how many ms); None = no window."""
    found, at = [], start_ms
    for says, duration_ms in stretches:
        for offset in range(0, duration_ms, length_ms):
            if says is not None:
                found.append(Window(at + offset, says, length_ms=length_ms, **fields))
        at += duration_ms
    return found


@dataclass(frozen=True)
class Node:
    """A node of one H100 that a batch job holds all the time, under a scheduler that answers, for 4
    hours.
    """

    windows: Sequence[Window]
    hours: int = 4
    holdings: Sequence[Held] | None = None
    sources: Sequence[Reported] | None = None
    capacities: Sequence[Capacity] | None = None
    outages: dict[int, list[Outage]] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    end_ms: int | None = None

    def question(
        self, *, start: int = 0, end: int | None = None, context: int | None = None
    ) -> Question:
        """Judges hours [start, end) of the node's, with `context` hours around them
        (default: all).
        """
        end = self.hours if end is None else end
        low, high = (
            (0, self.hours)
            if context is None
            else (max(start - context, -1), min(end + context, self.hours + 1))
        )
        first, last = T0, T0 + self.hours * HOUR if self.end_ms is None else self.end_ms
        spans = [(first, last)]
        bounds = (T0 + low * HOUR, T0 + high * HOUR)
        windows = [
            one
            for one in self.windows
            if one.start_ms < bounds[1] and one.start_ms + one.length_ms > bounds[0]
        ]
        held = [Held(spans)] if self.holdings is None else self.holdings
        return Question(
            windows=columns(windows),
            nodes=[
                NodeContext(
                    capacities=[a_gpu(end_ms=last)] if self.capacities is None else self.capacities,
                    holdings=[
                        replace(one, spans=_overlapping(one.spans, bounds[0] - 1, bounds[1]))
                        for one in held
                    ],
                    sources=[Reported(spans)] if self.sources is None else self.sources,
                    outages=self.outages,
                )
            ],
            cuts=np.arange(bounds[0], bounds[1] + 1, HOUR, dtype=np.int64),
            target=(T0 + start * HOUR, T0 + end * HOUR),
            policy=self.policy,
        )

    def judge(self, **asked: Any) -> Judgement:
        return states.judge(self.question(**asked))


def _overlapping(spans: Sequence[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    return [span for span in spans if span[0] < high and span[1] > low]


def a_gpu(
    gpu_id: int = 1, *, start_ms: int = T0, end_ms: int = T0 + 4 * HOUR, **fields: Any
) -> Capacity:
    return Capacity(gpu_id, start_ms, end_ms, **({"idle_w": 70.0, "limit_w": 700.0} | fields))


def totals(judged: Judgement, *names: str) -> dict[Any, int]:
    """GPU-ms by the named fields of the entries (`state` unless told otherwise)."""
    found: Counter[Any] = Counter()
    for one in judged.entries:
        key = (
            tuple(getattr(one, name) for name in names)
            if len(names) > 1
            else getattr(one, (names or ("state",))[0])
        )
        found[key] += one.gpu_ms
    return dict(found)


@dataclass(frozen=True)
class Part:
    """One part of a run."""

    gpu_id: int
    job_id: int | None
    condition: str
    start_ms: int
    end_ms: int
    continues: bool
    state_ms: dict[str, int]


def parts(judged: Judgement) -> list[Part]:
    told = judged.parts
    columns = (
        told.gpu_id,
        told.job_id,
        told.condition,
        told.start_ms,
        told.end_ms,
        told.continues,
        told.state_ms,
    )
    return [
        Part(
            gpu,
            None if job == NOBODY else job,
            CONDITIONS[number],
            start,
            end,
            continues,
            _spent(state_ms),
        )
        for gpu, job, number, start, end, continues, state_ms in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _spent(state_ms: list[int]) -> dict[str, int]:
    return {state: ms for state, ms in zip(STATES, state_ms, strict=True) if ms}


def capacity(question: Question) -> dict[tuple[int, int], int]:
    """(physical GPU, cut) -> ms of capacity in the target."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    edges = question.cuts.tolist()
    for one in question.capacities:
        if one.parent_id is not None:
            continue
        for cut, following in itertools.pairwise(edges):
            if question.target[0] <= cut < question.target[1]:
                found[one.gpu_id, cut] += max(
                    min(one.end_ms, following) - max(one.start_ms, cut), 0
                )
    return {key: ms for key, ms in found.items() if ms}
