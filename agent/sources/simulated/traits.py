"""The numbers that one job drew from its archetype's ranges."""

import random
from dataclasses import dataclass
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from agent.sources.simulated.archetype import Archetype, Level, Load
from agent.sources.simulated.hardware import MIB, Range

NEVER_S = 1e9
NO_PAUSES_S = 1e9
WARMING_UP = Level(power=(0.07, 0.09))
WARMUP_LOAD = Load(
    cpu=(0.06, 0.15), main_thread=(0.5, 1.0), read_mib_s=(100, 600), io_stall=(0.15, 0.40)
)
SATURATED, HARDLY_WAITS = 0.93, 0.90
MAX_MEMORY = 0.985  # the rest is context and fragments
BUSY, CULPRIT, IDLE = "busy", "culprit", "idle"  # roles of a job's ranks
HIGH, LOW, PAUSE, ONSET, WARMUP = range(5)  # places in every tuple of levels, loads and shares


class DrawnLevel(NamedTuple):
    """A level with this job's own numbers; ratios 0 to 1, bytes per second."""

    util: float
    power: float
    sm: float
    tensor: float
    dram: float
    fp32: float
    fp64: float
    rx_bytes_s: float
    tx_bytes_s: float
    nvlink_bytes_s: float
    clock: float


class DrawnLoad(NamedTuple):
    """A load with this job's own numbers; bytes per second and GPU."""

    cpu: float
    main_thread: float
    read_bytes_s: float
    write_bytes_s: float
    nic_bytes_s: float
    io_stall: float


def mixed(shares: Sequence[Any], drawn: Sequence[Tuple[float, ...]]) -> List[Any]:
    """The mean of levels or loads over these shares of a time; floats or arrays."""
    return [sum(share * value for share, value in zip(shares, values)) for values in zip(*drawn)]


@dataclass(frozen=True)
class Traits:
    """The numbers that one job drew.

    `levels` and `loads` are in the order HIGH, LOW, PAUSE, ONSET, WARMUP.
    """

    levels: Tuple[DrawnLevel, ...]
    loads: Tuple[DrawnLoad, ...]
    culprit: Optional[DrawnLevel]
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

    def role(self, rank: int) -> str:
        """What that rank of the job does: BUSY, CULPRIT (the others wait for it) or IDLE."""
        if rank >= self.busy_count:
            return IDLE
        return CULPRIT if self.culprit is not None and rank == self.culprit_rank else BUSY

    def levels_of(self, role: str) -> Tuple[DrawnLevel, ...]:
        """The levels that a rank of that role shows; an idle one never leaves its context."""
        if role == IDLE:
            return (NO_WORK,) * len(self.levels)
        if role == CULPRIT and self.culprit is not None:
            return (self.culprit, self.culprit, *self.levels[PAUSE:])
        return self.levels


NO_WORK = DrawnLevel(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.97)


class Draw:
    """Draws a job's numbers; `spread` lets each leave its range by up to that part of itself,
    `is_outside` makes each leave it.
    """

    def __init__(self, seed: str, spread: float, *, is_outside: bool) -> None:
        self._rng, self._spread, self._is_outside = random.Random(seed), spread, is_outside

    def value(self, low_high: Range, *, most: float = NEVER_S) -> float:
        """A number of the range, times 1 +- spread; or one below or above it, by a part of it up to
        the spread. At most `most`.
        """
        if self._is_outside:
            edge = self._rng.randrange(2)
            return min(
                low_high[edge] * (1.0 + (-1, 1)[edge] * self._rng.uniform(0.0, self._spread)), most
            )
        drawn = self._rng.uniform(*low_high)
        if self._spread:
            drawn *= self._rng.uniform(1.0 - self._spread, 1.0 + self._spread)
        return min(drawn, most)

    def ratio(self, low_high: Range) -> float:
        """As value, at most 1.

        A saturated signal keeps its place: a resident kernel reads 100 %, a loader short of cores
        uses all.
        """
        if low_high[0] >= SATURATED:
            return self._rng.uniform(*low_high)
        return self.value(low_high, most=1.0)

    def duty(self, low_high: Range) -> float:
        """The part of a period at `high`, at most 0.97; of a job that hardly ever waits it is the
        waiting that varies.
        """
        if low_high == (1.0, 1.0):
            return 1.0
        if low_high[0] >= HARDLY_WAITS:
            return 1.0 - self.value((1.0 - low_high[1], 1.0 - low_high[0]))
        return self.value(low_high, most=0.97)

    def whole(self, low_high: Range) -> int:
        """A whole number of the range, the same with any spread."""
        return self._rng.randint(int(low_high[0]), int(low_high[1]))

    def chance(self) -> float:
        """A number from 0 to 1."""
        return self._rng.random()

    def level(self, level: Level) -> DrawnLevel:
        """The level with numbers."""
        ratios = (
            level.util,
            level.power,
            level.sm,
            level.tensor,
            level.dram,
            level.fp32,
            level.fp64,
        )
        traffic = (level.rx_mib_s, level.tx_mib_s, level.nvlink_mib_s)
        return DrawnLevel._make(
            [
                *map(self.ratio, ratios),
                *(self.value(rate) * MIB for rate in traffic),
                self.ratio(level.clock),
            ]
        )

    def load(self, load: Load) -> DrawnLoad:
        """The load with numbers."""
        traffic = (load.read_mib_s, load.write_mib_s, load.nic_mib_s)
        ratios = (self.ratio(load.cpu), self.ratio(load.main_thread))
        return DrawnLoad._make(
            [*ratios, *(self.value(rate) * MIB for rate in traffic), self.ratio(load.io_stall)]
        )


def draw_traits(
    kind: Archetype, seed: str, *, ranks: int, spread: float = 0.0, is_outside: bool = False
) -> Traits:
    """The numbers of the job of that seed on so many GPUs, always the same for the same seed."""
    draw = Draw(seed + "/traits", spread, is_outside=is_outside)
    levels = tuple(
        draw.level(level) for level in (kind.high, kind.low, kind.pause, kind.onset, WARMING_UP)
    )
    working = draw.load(kind.load)
    resting = (
        draw.load(kind.pause_load)
        if kind.pause_load
        else working._replace(cpu=working.cpu / 4, main_thread=working.main_thread / 4)
    )
    return Traits(
        levels=levels,
        loads=(working, working, resting, resting, draw.load(WARMUP_LOAD)),
        culprit=draw.level(kind.culprit) if kind.culprit else None,
        culprit_rank=int(draw.chance() * ranks),
        period_s=draw.value(kind.period_s),
        duty=draw.duty(kind.duty),
        jitter=draw.value(kind.jitter),
        warmup_s=draw.value(kind.warmup_s),
        pause_every_s=draw.value(kind.pause_every_s) if kind.pause_every_s else NO_PAUSES_S,
        pause_share=draw.value(kind.pause_share),
        onset_s=kind.onset_s,
        hangs_after_s=draw.value(kind.hangs_after_s) if kind.hangs_after_s else NEVER_S,
        mean_gap_s=draw.value(kind.gap_s) if kind.burst_s else 0.0,
        thermal_share=draw.value(kind.thermal, most=0.95) if kind.thermal else 0.0,
        thermal_period_s=draw.value((40.0, 160.0)),
        thermal_peak_c=86.0 + 4.0 * draw.chance(),
        memory_share=draw.value(kind.memory, most=MAX_MEMORY),
        cores_per_gpu=draw.whole((8, 16)),
        workers=draw.whole(kind.workers),
        busy_count=min(ranks, max(1, round(ranks * draw.value(kind.busy_ranks))))
        if kind.busy_ranks != (1.0, 1.0)
        else ranks,
        idle_ranks_have_context=draw.chance() < 0.5,
        rank_factors=tuple(1.0 + 0.02 * (2.0 * draw.chance() - 1.0) for _ in range(ranks)),
    )
