"""What simulated jobs do, sample by sample and second by second, in numpy. Pure.

The live simulated agents evaluate the same formulas (agent.sources.simulated.signal) one reading at
a time; here a whole span is one array. A job's ranks move together, so that this is done once per
job and not once per GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.sources.simulated import waves
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import (
    PROCESS_AFTER_MS,
    Progress,
    Shares,
    Signal,
    bursts_of,
    filled,
    progress,
    shares,
)
from agent.sources.simulated.source import JITTER, SAMPLES_PER_S, STEADY_ABOVE, STEADY_BELOW

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """A job as far as it shows: from start_ms to end_ms of its own time."""

    job: SimulatedJob
    start_ms: int
    end_ms: int


def whole(jobs: Sequence[SimulatedJob]) -> list[Part]:
    """Each job from its start to its end."""
    return [Part(job, job.start_ms, job.end_ms) for job in jobs]


@dataclass(frozen=True, slots=True)
class Span:
    """A time that is told: readings at whole seconds from one before its start to its end, both
    included.
    """

    start_s: int
    seconds: int

    @property
    def readings(self) -> int:
        """How many readings that are."""
        return self.seconds + 2

    def places(self, part: Part) -> slice:
        """The readings in which that part of a job is on its GPUs."""
        first = -(-part.start_ms // 1000) - self.start_s + 1
        last = -(-part.end_ms // 1000) - self.start_s + 1
        return slice(min(max(first, 0), self.readings), min(max(last, 0), self.readings))


class Track:
    """One part of a job within a span: how it moves between its levels, the same for all
    its ranks.
    """

    def __init__(self, part: Part, span: Span) -> None:
        self.signal = Signal(part.job)
        self.places = span.places(part)
        self.count = self.places.stop - self.places.start
        self.at_s = np.arange(
            span.start_s - 1 + self.places.start,
            span.start_s - 1 + self.places.stop,
            dtype=np.float64,
        )

    @cached_property
    def by_sample(self) -> Shares:
        """Shares of each of the driver's samples, by level; a number where it is the same
        for all.
        """
        return self._shares(SAMPLES_PER_S)

    @cached_property
    def by_second(self) -> Floats:
        """Shares of the second before each reading: levels x readings."""
        return np.stack(
            [np.broadcast_to(np.maximum(share, 0.0), self.at_s.shape) for share in self._shares(1)]
        )

    def _shares(self, per_second: int) -> Shares:
        """Shares of spans of which so many make a second."""
        edges_s = np.arange(self.count * per_second + 1) / per_second + (self.at_s[0] - 1.0)
        traits, since_s = self.signal.traits, edges_s - self.signal.start_s
        is_settled = bool(
            since_s[0] >= traits.warmup_s and since_s[-1] <= traits.warmup_s + traits.hangs_after_s
        )
        ends = progress(traits, since_s, is_settled=is_settled)
        before, after = _but(ends, slice(None, -1)), _but(ends, slice(1, None))
        if not traits.mean_gap_s:
            return shares(before, after)
        done_s = np.interp(edges_s, *self._bursts)
        return shares(before, after, working=(done_s[1:] - done_s[:-1]) * per_second)

    @cached_property
    def _bursts(self) -> tuple[Floats, Floats]:
        return _burst_curve(self.signal, float(self.at_s[0]) - 1.0, float(self.at_s[-1]))

    @cached_property
    def flicker(self) -> Floats:
        """What power and activity differ by from one reading to the next."""
        flicker: Floats = 1.0 + JITTER * waves.noise(self.at_s, self.signal.job.number)
        return flicker

    @cached_property
    def has_process(self) -> Floats:
        """1 where the job's processes are there, by reading."""
        return (self.at_s * 1000 >= self.signal.job.start_ms + PROCESS_AFTER_MS).astype(np.float64)

    @cached_property
    def filled(self) -> Floats:
        """The part of its memory that the job has filled, by reading."""
        part: Floats = (
            np.broadcast_to(
                filled(self.signal.traits, self.at_s - self.signal.start_s), self.at_s.shape
            )
            * self.has_process
        )
        return part

    def mixed(self, values: Sequence[float]) -> Floats:
        """The mean of a value per level, by reading."""
        means: Floats = np.asarray(values) @ self.by_second
        return means

    def utilisation(self, levels: Sequence[float]) -> Floats:
        """The utilisation of each sample before it is rounded: samples that are neither empty nor
        full flicker.
        """
        if len(set(levels)) == 1:
            return np.full(self.count * SAMPLES_PER_S, levels[0])
        util = np.zeros(self.count * SAMPLES_PER_S)
        for share, level in zip(self.by_sample, levels, strict=True):
            if level:
                util += share * level
        flickers = np.flatnonzero((util > STEADY_BELOW) & (util < STEADY_ABOVE))
        if len(flickers):
            first = round(self.at_s[0] - 1.0) * SAMPLES_PER_S + 1
            util[flickers] *= 1.0 + JITTER * waves.noise(
                (flickers + first).astype(np.float64), self.signal.job.number
            )
        return np.clip(util, 0.0, 1.0)


def _but(ends: Progress, kept: slice) -> Progress:
    """All but the last or the first of the times; counts that are one and the same stay so."""
    cut = {
        id(values): values[kept] if isinstance(values, np.ndarray) else values for values in ends
    }
    return Progress(*(cut[id(values)] for values in ends))


def _burst_curve(signal: Signal, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """Seconds of bursts done by then, as a line through (edge, seconds)."""
    hours = range(int(start_s // waves.HOUR_S), int(end_s // waves.HOUR_S) + 1)
    warm_s = signal.start_s + signal.traits.warmup_s
    bursts = [
        (max(begin, warm_s), end)
        for hour in hours
        for begin, end in bursts_of(signal.job, signal.traits, hour)
        if end > warm_s
    ]
    edges = np.array(
        [
            hours[0] * waves.HOUR_S - 1.0,
            *(edge for burst in bursts for edge in burst),
            end_s + waves.HOUR_S,
        ]
    )
    lengths = np.zeros(len(edges))
    lengths[2:-1:2] = edges[2:-1:2] - edges[1:-2:2]
    return edges, np.cumsum(lengths)


def window_means(values: Any, *, window_s: int) -> Floats:
    """Means over windows of what holds back from each reading to the one before; the last axis is
    readings of a span.
    """
    return _means(values[..., 2:], window_s)


def held_means(values: Any, *, window_s: int) -> Floats:
    """Means over windows of what holds from each reading to the next."""
    return _means(values[..., 1:-1], window_s)


def _means(values: Any, window_s: int) -> Floats:
    """As a product with a vector: three times as fast as numpy's mean over a short axis."""
    means: Floats = values.reshape(*values.shape[:-1], -1, window_s) @ np.full(
        window_s, 1.0 / window_s
    )
    return means
