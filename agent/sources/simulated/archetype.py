"""The shape of an archetype: what the rows of the table in `archetypes` are made of."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Tuple

from agent.sources.simulated.hardware import Range

NOTHING: Range = (0.0, 0.0)


class Level(NamedTuple):
    """What one level shows: ratios 0 to 1, traffic in MiB/s; `power` is the part of (limit - idle)
    above idle. Ranges of an archetype, or the numbers that one job drew from them.

    `power` 0 with a process means: just the context.
    """

    util: Any = NOTHING
    power: Any = NOTHING
    sm: Any = NOTHING
    tensor: Any = NOTHING
    dram: Any = NOTHING
    fp32: Any = NOTHING
    fp64: Any = NOTHING
    rx_mib_s: Any = NOTHING  # to the GPU, over PCIe
    tx_mib_s: Any = NOTHING
    nvlink_mib_s: Any = NOTHING  # each way
    clock: Any = (0.96, 0.98)  # part of the highest SM clock


class Load(NamedTuple):
    """What the job does to its host meanwhile: ratios 0 to 1 of its own cores, MiB/s for each of
    its GPUs. Ranges of an archetype, or the numbers that one job drew from them.
    """

    cpu: Any = (0.01, 0.03)
    main_thread: Any = (0.02, 0.08)  # the busiest one
    read_mib_s: Any = NOTHING
    write_mib_s: Any = NOTHING
    nic_mib_s: Any = NOTHING  # each way
    io_stall: Any = (0.0, 0.01)  # the host's I/O pressure, while this job is on it


RESTING = Level()
LIGHT = Load()


@dataclass(frozen=True)
class Archetype:
    """One sort of job. Times in seconds; durations of jobs are log-normal (median in hours, sigma).

    At each instant a job is at one of the levels: `high` and `low` alternate with a short period (a
    training step); `pause` interrupts them (a checkpoint, think time, a hang), beginning with
    `onset`; before all that it warms up.
    """

    name: str
    truth: str  # the cause that a perfect diagnosis would give: domain terms, never sent
    hours: Range
    names: Tuple[str, ...]
    high: Level
    kind: str = "batch"
    process: str = "python"
    memory: Range = NOTHING  # part of the GPU's memory
    low: Level = RESTING
    pause: Level = RESTING
    onset: Level = RESTING
    # one rank that others wait for: it shows this at `high` and at `low`
    culprit: Optional[Level] = None
    load: Load = LIGHT
    pause_load: Optional[Load] = None  # None: as `load`, but resting
    workers: Range = (4.0, 12.0)  # of the data loader
    period_s: Range = (1.0, 1.0)
    duty: Optional[Range] = None  # part of the period at `high`; None: all of it
    # by how much periods differ from each other (coefficient of variation)
    jitter: Range = (0.05, 0.20)
    warmup_s: Range = NOTHING
    pause_every_s: Optional[Range] = None  # regular pauses ...
    pause_share: Range = NOTHING  # ... and which part of that period they take ...
    onset_s: float = 0.0  # ... of which this much is `onset`
    burst_s: Range = NOTHING  # irregular: bursts of work ...
    gap_s: Optional[Range] = None  # ... after a pause with a mean drawn from here
    is_diurnal: bool = False  # bursts thin out at night
    hangs_after_s: Optional[Range] = None  # from then on `pause`, for ever
    thermal: Optional[Range] = None  # the part of the time for which a thermal limit holds
    busy_ranks: Optional[Range] = None  # part of its GPUs that it really uses; None: all
    has_process: bool = True
    is_allocated: bool = True
    sizes: Tuple[int, int] = (1, 8)
    in_office_hours: bool = False
