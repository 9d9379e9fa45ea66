"""What simulated jobs do, sample by sample and second by second, in numpy. Pure.

The formulas are the live simulated agents' own (agent.sources.simulated), given arrays in the place
of numbers. A job's ranks move together, so that this is done once per job and not once per GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.sources.simulated import card, waves
from agent.sources.simulated.card import Shown
from agent.sources.simulated.hardware import Hardware
from agent.sources.simulated.hosting import Guest
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import Shares, Signal, hot_c
from agent.sources.simulated.source import SAMPLES_PER_S

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
    """The time of windows: readings at whole seconds from one before its start to its end, both
    included.
    """

    start_s: int
    seconds: int
    window_s: int

    @property
    def readings(self) -> int:
        """How many readings that are."""
        return self.seconds + 2

    @property
    def windows(self) -> int:
        """How many windows that are."""
        return self.seconds // self.window_s

    def places(self, part: Part) -> slice:
        """The readings in which that part of a job is on its GPUs."""
        first, last = (
            min(max(-(-at_ms // 1000) - self.start_s + 1, 0), self.readings)
            for at_ms in (part.start_ms, part.end_ms)
        )
        return slice(first, last)

    def held(self, values: Floats) -> Floats:
        """Readings by window, as each holds to the next; the last axis is readings of the span."""
        return values[..., 1:-1].reshape(*values.shape[:-1], -1, self.window_s)

    def back(self, values: Floats) -> Floats:
        """Readings by window, as they hold back to the one before."""
        return values[..., 2:].reshape(*values.shape[:-1], -1, self.window_s)


def mean(by_window: Floats) -> Floats:
    """Means of windows, as a product with a vector: three times as fast as numpy's mean over a
    short axis.
    """
    count = by_window.shape[-1]
    means: Floats = by_window @ np.full(count, 1.0 / count)
    return means


class Track:
    """One part of a job within a span: how it moves between its levels, alike for all its ranks."""

    def __init__(self, part: Part, span: Span) -> None:
        self.signal = Signal(part.job)
        self.span = span
        self.places = span.places(part)
        self.count = self.places.stop - self.places.start
        first_s = span.start_s - 1 + self.places.start
        self.at_s = np.arange(first_s, first_s + self.count, dtype=np.float64)

    @cached_property
    def by_sample(self) -> Shares:
        """Shares of each of the driver's samples, by level."""
        return self._shares(SAMPLES_PER_S)

    @cached_property
    def by_second(self) -> Shares:
        """Shares of the second before each reading, by level."""
        return self._shares(1)

    @cached_property
    def by_window(self) -> Shares:
        """Shares of whole windows, 0 where the job is not there."""
        return tuple(self.window_mean(share) for share in self.by_second)

    @cached_property
    def here(self) -> Floats:
        """The part of each window in which it is there."""
        return self.window_mean(1.0)

    @cached_property
    def hot_c(self) -> Floats:
        """The temperature in the middle of each window of a job that a thermal limit throttles;
        NaN of others, and where it is not there.
        """
        span = self.span
        middle_s = span.start_s + span.window_s * (np.arange(span.windows) + 0.5)
        is_hot = (self.here > 0.5) & (self.signal.traits.thermal_share > 0)
        return np.where(is_hot, hot_c(self.signal.traits, middle_s - self.signal.start_s), np.nan)

    @property
    def guest(self) -> Guest:
        """What the host sees of it, by window."""
        return Guest(self.signal, self.by_window)

    def _shares(self, per_second: int) -> Shares:
        edges_s = np.arange(self.count * per_second + 1) / per_second + (self.at_s[0] - 1.0)
        hours = int(edges_s[0] // waves.HOUR_S), int(edges_s[-1] // waves.HOUR_S)
        return self.signal.shares_between(
            edges_s[:-1], edges_s[1:], hours=hours, interpolate=np.interp
        )

    def window_mean(self, values: Any) -> Floats:
        """Means of whole windows of what a reading says of the second before it, 0 where the job is
        not there.
        """
        full = np.zeros(self.span.readings)
        full[self.places] = values
        return mean(self.span.back(full))

    def shown(self, hardware: Hardware, role: str) -> Shown:
        """What a rank of that role makes a usual board of that model show, by reading."""
        return card.shown(
            hardware, self.signal, role, self.by_second, start_s=self.at_s - 1.0, end_s=self.at_s
        )

    def utilisation(self, role: str) -> Any:
        """The utilisation of each sample before it is rounded; a number where it is the same for
        all.
        """
        levels = {level.util for level in self.signal.traits.levels_of(role)}
        if len(levels) == 1:
            return levels.pop()
        first = round(self.at_s[0] - 1.0) * SAMPLES_PER_S + 1
        numbers = np.arange(first, first + self.count * SAMPLES_PER_S, dtype=np.float64)
        return card.utilisation(self.signal, role, self.by_sample, numbers)
