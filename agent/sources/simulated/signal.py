"""What one simulated job does to its GPUs, second by second."""

import random
from bisect import bisect_right
from dataclasses import dataclass
from typing import Dict, List, Tuple

from agent.sources.simulated import waves
from agent.sources.simulated.archetypes import Level
from agent.sources.simulated.schedule import SimulatedJob

NEVER_S = 1e9
NO_PAUSES_S = 1e9
NEVER_EPOCH_S = 1e12
PROCESS_AFTER_MS = 4_000  # a job's processes appear this long after its start

Shares = Tuple[float, float, float]  # of a time: at high, low, pause; they sum to 1


@dataclass(frozen=True)
class DrawnLevel:
    """A level with this job's own numbers; ratios 0 to 1."""

    util: float
    power: float
    sm: float
    tensor: float
    dram: float


@dataclass(frozen=True)
class Traits:
    """The numbers that one job drew from its archetype's ranges."""

    high: DrawnLevel
    low: DrawnLevel
    pause: DrawnLevel
    period_s: float
    duty: float
    warmup_s: float
    pause_every_s: float
    pause_share: float
    hangs_after_s: float
    mean_gap_s: float  # 0: no bursts
    memory_share: float
    busy_count: int  # of its GPUs; the others only wait
    idle_ranks_have_context: bool

    @property
    def levels(self) -> Tuple[DrawnLevel, DrawnLevel, DrawnLevel]:
        """In the order of Shares."""
        return self.high, self.low, self.pause


def _draw_level(rng: random.Random, level: Level) -> DrawnLevel:
    ranges = (level.util, level.power, level.sm, level.tensor, level.dram)
    return DrawnLevel(*(rng.uniform(*low_high) for low_high in ranges))


def draw_traits(job: SimulatedJob) -> Traits:
    """The job's own numbers, always the same for the same job."""
    kind = job.archetype
    rng = random.Random(job.seed + "/traits")
    pause_every_s = rng.uniform(*kind.pause_every_s) if kind.pause_every_s else NO_PAUSES_S
    hangs_after_s = rng.uniform(*kind.hangs_after_s) if kind.hangs_after_s else NEVER_S
    return Traits(
        high=_draw_level(rng, kind.high),
        low=_draw_level(rng, kind.low),
        pause=_draw_level(rng, kind.pause),
        period_s=rng.uniform(*kind.period_s),
        duty=rng.uniform(*kind.duty),
        warmup_s=rng.uniform(*kind.warmup_s),
        pause_every_s=pause_every_s,
        pause_share=rng.uniform(*kind.pause_share),
        hangs_after_s=hangs_after_s,
        mean_gap_s=rng.uniform(*kind.gap_s) if kind.burst_s else 0.0,
        memory_share=rng.uniform(*kind.memory),
        busy_count=max(1, round(len(job.gpus) * rng.uniform(*kind.busy_ranks))),
        idle_ranks_have_context=rng.random() < 0.5,
    )


class Signal:
    """Shares of time at each level for one job; keeps the bursts of the hours it was asked for."""

    def __init__(self, job: SimulatedJob) -> None:
        self.job = job
        self.traits = draw_traits(job)
        self._start_s = job.start_ms / 1000
        self._bursts: Dict[int, List[Tuple[float, float]]] = {}

    def is_busy(self, gpu: int) -> bool:
        """Whether the job ever works on that one of its GPUs."""
        return self.job.gpus.index(gpu) < self.traits.busy_count

    def has_context(self, gpu: int, at_ms: int) -> bool:
        """Whether a process of the job has a context on that GPU at that time."""
        if not self.job.archetype.has_process or at_ms < self.job.start_ms + PROCESS_AFTER_MS:
            return False
        return self.is_busy(gpu) or self.traits.idle_ranks_have_context

    def shares(self, gpu: int, start_s: float, end_s: float) -> Shares:
        """Which parts of [start_s, end_s), seconds since the epoch, the GPU spends at high, low and pause."""
        if not self.is_busy(gpu):
            return 0.0, 0.0, 1.0
        traits = self.traits
        working = self._working_s(start_s, end_s) / (end_s - start_s)
        if traits.duty == 1.0:
            return working, 0.0, 1.0 - working
        since_s, until_s = start_s - self._start_s, end_s - self._start_s
        high_s = waves.high_seconds(until_s, period_s=traits.period_s, duty=traits.duty) - waves.high_seconds(
            since_s, period_s=traits.period_s, duty=traits.duty
        )
        high = high_s / (end_s - start_s)
        return working * high, working * (1.0 - high), 1.0 - working

    def _working_s(self, start_s: float, end_s: float) -> float:
        """Seconds of [start_s, end_s) without a pause."""
        if self.traits.mean_gap_s:
            return self._burst_s(max(start_s, self._start_s + self.traits.warmup_s), end_s)
        return self._worked_s(end_s) - self._worked_s(start_s)

    def _worked_s(self, at_s: float) -> float:
        traits = self.traits
        worked_s = waves.working_seconds(
            at_s - self._start_s,
            warmup_s=traits.warmup_s,
            hangs_after_s=traits.hangs_after_s,
            pause_every_s=traits.pause_every_s,
            pause_share=traits.pause_share,
        )
        return float(worked_s)

    def _burst_s(self, start_s: float, end_s: float) -> float:
        """Seconds of [start_s, end_s) inside bursts."""
        total_s = 0.0
        for hour in range(int(start_s // waves.HOUR_S), int(end_s // waves.HOUR_S) + 1):
            bursts = self._hour(hour)
            for burst_start, burst_end in bursts[max(0, bisect_right(bursts, (start_s, NEVER_EPOCH_S)) - 1) :]:
                if burst_start >= end_s:
                    break
                total_s += max(0.0, min(burst_end, end_s) - max(burst_start, start_s))
        return total_s

    def _hour(self, hour: int) -> List[Tuple[float, float]]:
        """The bursts of an hour since the epoch."""
        if hour not in self._bursts:
            self._bursts = {known: bursts for known, bursts in self._bursts.items() if known >= hour - 2}
            self._bursts[hour] = bursts_of(self.job, self.traits, hour)
        return self._bursts[hour]


def bursts_of(job: SimulatedJob, traits: Traits, hour: int) -> List[Tuple[float, float]]:
    """The job's bursts (start, end), seconds since the epoch, in one hour since the epoch."""
    kind = job.archetype
    if kind.burst_s is None:
        return []
    return waves.bursts_of_hour(job.seed, hour, burst_s=kind.burst_s, gap_s=traits.mean_gap_s, is_diurnal=kind.is_diurnal)
