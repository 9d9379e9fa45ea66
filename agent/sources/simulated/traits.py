"""The numbers that one job drew from its archetype's ranges."""

import random
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple, TypeVar

from agent.sources.simulated.archetype import Archetype, Level, Load
from agent.sources.simulated.hardware import Range

NEVER_S = 1e9
WARMING_UP = Level(power=(0.07, 0.09))
WARMUP_LOAD = Load(
    cpu=(0.06, 0.15), main_thread=(0.5, 1.0), read_mib_s=(100, 600), io_stall=(0.15, 0.40)
)
HARDLY_WAITS = 0.90
MAX_MEMORY = 0.985  # the rest is context and fragments
HOST_MEMORY = (0.08, 0.60)  # of what it asked for: people ask for more than they use
# roles of a job's ranks
BUSY = "busy"
CULPRIT = "culprit"
IDLE = "idle"
HIGH, LOW, PAUSE, ONSET, WARMUP = range(5)  # places in every tuple of levels, loads and shares


Drawn = TypeVar("Drawn", Level, Load)


def mixed(shares: Sequence[Any], drawn: Sequence[Drawn]) -> Drawn:
    """The mean of levels or loads over these shares of a time; floats or arrays."""
    means = [sum([share * value for share, value in zip(shares, values)]) for values in zip(*drawn)]
    return drawn[0].__class__(*means)


@dataclass(frozen=True)
class Traits:
    """The numbers that one job drew.

    `levels` and `loads` are in the order HIGH, LOW, PAUSE, ONSET, WARMUP.
    """

    levels: Tuple[Level, ...]
    loads: Tuple[Load, ...]
    culprit: Optional[Level]
    culprit_rank: int
    period_s: float
    duty: float
    jitter: float
    warmup_s: float
    pause_every_s: float
    pause_share: float
    onset_s: float
    hangs_after_s: float
    mean_gap_s: float  # 0: no bursts
    thermal_share: float  # 0: never throttled
    thermal_period_s: float
    thermal_peak_c: float
    memory_share: float
    cores_per_gpu: int
    workers: int
    busy_count: int  # of its GPUs; the others only wait
    idle_ranks_have_context: bool
    rank_factors: Tuple[float, ...]  # what the ranks' power and activity differ by
    host_memory_share: float  # of what it asked for

    def role(self, rank: int) -> str:
        """What that rank of the job does: BUSY, CULPRIT (the others wait for it) or IDLE."""
        if rank >= self.busy_count:
            return IDLE
        return CULPRIT if self.culprit is not None and rank == self.culprit_rank else BUSY

    def levels_of(self, role: str) -> Tuple[Level, ...]:
        """The levels that a rank of that role shows; an idle one never leaves its context."""
        if role == IDLE:
            return (NO_WORK,) * len(self.levels)
        if role == CULPRIT and self.culprit is not None:
            return (self.culprit, self.culprit, *self.levels[PAUSE:])
        return self.levels


NO_WORK = Level(*[0.0] * len(Level._fields))._replace(clock=0.97)


class Draw:
    """Draws a job's numbers, always the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)

    def number(self, low_high: Range) -> float:
        """A number of the range."""
        return self.rng.uniform(*low_high)

    def value(
        self, low_high: Optional[Range], *, most: float = NEVER_S, otherwise: float = 0.0
    ) -> float:
        """A number of the range, at most `most`; `otherwise` where there is no range."""
        return otherwise if low_high is None else min(self.number(low_high), most)

    def ratio(self, low_high: Range) -> float:
        """As value, at most 1."""
        return self.value(low_high, most=1.0)

    def duty(self, low_high: Optional[Range]) -> float:
        """The part of a period at `high`, at most 0.97; of a job that hardly ever waits it is the
        waiting that varies.
        """
        if low_high is not None and low_high[0] >= HARDLY_WAITS:
            return 1.0 - self.value((1.0 - low_high[1], 1.0 - low_high[0]))
        return self.value(low_high, most=0.97, otherwise=1.0)

    def whole(self, low_high: Range) -> int:
        """A whole number of the range."""
        return self.rng.randint(int(low_high[0]), int(low_high[1]))

    def chance(self) -> float:
        """A number from 0 to 1."""
        return self.rng.random()

    def numbers(self, ranges: Drawn) -> Drawn:
        """The level or load with numbers."""
        numbers = (
            self.value(low_high) if name.endswith("_mib_s") else self.ratio(low_high)
            for name, low_high in zip(ranges._fields, ranges)
        )
        return ranges.__class__(*numbers)


def draw_traits(kind: Archetype, draw: Draw, *, ranks: int) -> Traits:
    """The numbers of a job on so many GPUs; drawn in another order they would be others."""
    levels = (kind.high, kind.low, kind.pause, kind.onset, WARMING_UP)
    return Traits(
        levels=tuple(draw.numbers(level) for level in levels),
        loads=_loads(kind, draw),
        culprit=draw.numbers(kind.culprit) if kind.culprit else None,
        culprit_rank=int(draw.chance() * ranks),
        **_course(kind, draw),
        memory_share=draw.value(kind.memory, most=MAX_MEMORY),
        cores_per_gpu=draw.whole((8, 16)),
        workers=draw.whole(kind.workers),
        busy_count=min(ranks, max(1, round(ranks * draw.value(kind.busy_ranks, otherwise=1.0)))),
        idle_ranks_have_context=draw.chance() < 0.5,
        rank_factors=tuple(1.0 + 0.02 * (2.0 * draw.chance() - 1.0) for _ in range(ranks)),
        host_memory_share=draw.number(HOST_MEMORY),
    )


def _course(kind: Archetype, draw: Draw) -> Dict[str, float]:
    """How the levels follow each other in time, by the names of Traits."""
    return {
        "period_s": draw.value(kind.period_s),
        "duty": draw.duty(kind.duty),
        "jitter": draw.value(kind.jitter),
        "warmup_s": draw.value(kind.warmup_s),
        "pause_every_s": draw.value(kind.pause_every_s, otherwise=NEVER_S),
        "pause_share": draw.value(kind.pause_share),
        "onset_s": kind.onset_s,
        "hangs_after_s": draw.value(kind.hangs_after_s, otherwise=NEVER_S),
        "mean_gap_s": draw.value(kind.gap_s),
        "thermal_share": draw.value(kind.thermal, most=0.95),
        "thermal_period_s": draw.value((40.0, 160.0)),
        "thermal_peak_c": 86.0 + 4.0 * draw.chance(),
    }


def _loads(kind: Archetype, draw: Draw) -> Tuple[Load, ...]:
    """By level; a job that says nothing of its pauses works on at a quarter in them."""
    working = draw.numbers(kind.load)
    if kind.pause_load is None:
        resting = working._replace(cpu=working.cpu / 4, main_thread=working.main_thread / 4)
    else:
        resting = draw.numbers(kind.pause_load)
    return working, working, resting, resting, draw.numbers(WARMUP_LOAD)
