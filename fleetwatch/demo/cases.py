"""Labelled cases for detectors and benchmarks: what one job's GPUs show, and what a perfect diagnosis would say of it. Pure.

Detectors never import this: only tests and benchmarks do. Parameters for tuning come from the ranges of the table;
held-out ones leave them by up to 30 %, so that thresholds are not simply echoed. Mixtures are for judging only.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from agent.reading import GPUInfo
from agent.sources.simulated.archetype import Archetype
from agent.sources.simulated.archetypes import ARCHETYPES, BY_NAME
from agent.sources.simulated.card import GPM_COLUMNS, card
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import Signal
from agent.sources.simulated.spec import Spec
from fleetwatch.demo.columns import JOB_COLUMNS, Columns, draw
from fleetwatch.demo.tracks import Part

HELD_OUT_SPREAD = 0.3
START_MS = 1_794_009_600_000  # 2026-11-07 00:00 UTC
CELL_MS = 300_000
WINDOW_S = 10
AGE_MS = 900_000  # a steady case begins so long after the job did: past every warm-up
UTILISATION_ONLY = ("util_", "memory_used_bytes", "memory_reserved_bytes", "process_count")
GPM = {*GPM_COLUMNS, "sm_active_max", "memory_util_mean"}

SENSORS = ("all", "no_gpm", "no_host", "utilisation_only")


@dataclass(frozen=True, slots=True)
class Case:
    """One job on the GPUs of one node over whole cells of five minutes.

    `columns` has for each GPU an array per wire column, one value per window, NaN where it was not read; a column that
    the sensors do not have is absent. `truth` has for each GPU the cause of each cell. `host` is the node's columns.
    """

    name: str
    seed: int
    start_ms: int
    window_s: int
    gpus: tuple[GPUInfo, ...]
    columns: tuple[Columns, ...]
    host: Columns
    jobs: tuple[SimulatedJob, ...]
    truth: tuple[tuple[str, ...], ...]
    sensors: str = "all"
    starts_ms: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def job(self) -> SimulatedJob:
        """The job whose behaviour is judged: it holds all the case's GPUs for the whole case."""
        return self.jobs[0]


def draw_case(archetype: str, seed: int, *, held_out: bool = False, sensors: str = "all", minutes: int = 30, model: str = "H100") -> Case:
    """The case of that archetype (or mixture) and seed, always the same. Raises KeyError for an unknown name."""
    name = archetype
    kinds = MIXTURES[name] if name in MIXTURES else (BY_NAME[name],)
    rng = random.Random(f"{name}/{seed}/{held_out}")
    spread = HELD_OUT_SPREAD if held_out else 0.0
    end_ms = START_MS + minutes * 60_000 + AGE_MS
    size = rng.randint(max(one.sizes[0] for one in kinds), max(*(one.sizes[0] for one in kinds), min(one.sizes[1] for one in kinds)))
    jobs = tuple(
        _job(kind, f"{name}/{seed}/{held_out}/{place}", number=1 + place, size=size, end_ms=end_ms, spread=spread)
        for place, kind in enumerate(kinds)
    )
    jobs = tuple(_aged(job, rng, minutes=minutes) for job in jobs)
    middle_ms = START_MS + minutes // 10 * CELL_MS
    parts = _parts(name, jobs, middle_ms)
    cards = [card(Spec(size, model, seed), node=f"case-{name}-{seed}", index=index) for index in range(size)]
    count = minutes * 60 // WINDOW_S
    drawn = draw(cards, parts, start_ms=START_MS, count=count, window_s=WINDOW_S, seed=seed)
    return Case(
        name=name,
        seed=seed,
        start_ms=START_MS,
        window_s=WINDOW_S,
        gpus=tuple(one.info for one in cards),
        columns=tuple(_sensed(one, sensors) for one in drawn.gpus),
        host=drawn.host if sensors in ("all", "no_gpm") else {},
        jobs=jobs,
        truth=tuple(_truth(parts, gpu, minutes) for gpu in range(size)),
        sensors=sensors,
        starts_ms=START_MS + np.arange(count, dtype=np.int64) * WINDOW_S * 1000,
    )


def _job(kind: Archetype, seed: str, *, number: int, size: int, end_ms: int, spread: float) -> SimulatedJob:
    return SimulatedJob(number, "bench", kind.names[0], "ann", "lab", kind, tuple(range(size)), START_MS - AGE_MS, end_ms, seed, spread)


def _aged(job: SimulatedJob, rng: random.Random, *, minutes: int) -> SimulatedJob:
    """The job begun so early that the case shows its archetype: past its warm-up, its hang begun before or within."""
    traits = Signal(job).traits
    if job.archetype.hangs_after_s is None:
        return replace(job, start_ms=job.start_ms - rng.randrange(3_600) * 1000)
    hang_ms = int(traits.warmup_s + traits.hangs_after_s) * 1000
    return replace(job, start_ms=START_MS - hang_ms + rng.choice((-AGE_MS, 0)))


def _parts(name: str, jobs: Sequence[SimulatedJob], middle_ms: int) -> list[Part]:
    if name.startswith("half_way"):
        return [Part(jobs[0], jobs[0].start_ms, middle_ms), Part(jobs[1], middle_ms, jobs[1].end_ms)]
    return [Part(job, job.start_ms, job.end_ms) for job in jobs]


def _truth(parts: Sequence[Part], gpu: int, minutes: int) -> tuple[str, ...]:
    """The cause of each cell: of mixtures on one GPU the accepted ones, joined by `|`."""
    told = []
    for cell in range(minutes // 5):
        at_ms = START_MS + cell * CELL_MS
        causes = [cause_at(part.job, at_ms) for part in parts if part.start_ms < at_ms + CELL_MS and part.end_ms > at_ms]
        told.append("|".join(dict.fromkeys(cause for one in causes for cause in one.split("|"))) or "free")
    return tuple(told)


def cause_at(job: SimulatedJob, at_ms: int) -> str:
    """What a perfect diagnosis would say of that job then."""
    traits = Signal(job).traits
    running_s = (at_ms - job.start_ms) / 1000 - traits.warmup_s
    if job.archetype.hangs_after_s is not None and running_s < traits.hangs_after_s:
        return "healthy"
    return job.archetype.truth


def _sensed(columns: Columns, sensors: str) -> Columns:
    """The columns that remain with these sensors."""
    if sensors == "all":
        return columns
    if sensors == "no_gpm":
        return {name: values for name, values in columns.items() if name not in GPM}
    if sensors == "no_host":
        return {name: values for name, values in columns.items() if name not in JOB_COLUMNS}
    if sensors == "utilisation_only":
        return {name: values for name, values in columns.items() if name.startswith(UTILISATION_ONLY)}
    raise KeyError(sensors)


def _starved_and_saving() -> Archetype:
    """A data loader that can't keep up, in a job that also waits for its checkpoints."""
    saving = BY_NAME["checkpoint_stall"]
    return replace(
        BY_NAME["data_starved_cpu"], name="starved_and_saving", truth="data_starved|checkpoint_stall",
        pause=saving.pause, onset=saving.onset, pause_load=saving.pause_load,
        pause_every_s=saving.pause_every_s, pause_share=saving.pause_share, onset_s=saving.onset_s, sizes=(1, 8),
    )  # fmt: skip


# Never used for tuning: a job that is starved and saves, two jobs on one GPU, and a cause that starts half-way.
MIXTURES: dict[str, tuple[Archetype, ...]] = {
    "starved_and_saving": (_starved_and_saving(),),
    "two_services": (BY_NAME["bursty_service"], BY_NAME["bursty_service"]),
    "service_and_small_batch": (BY_NAME["bursty_service"], BY_NAME["small_batch"]),
    "half_way_starved": (BY_NAME["healthy_llm"], BY_NAME["data_starved_cpu"]),
    "half_way_small_batch": (BY_NAME["healthy_vision"], BY_NAME["small_batch"]),
    "half_way_throttled": (BY_NAME["healthy_llm"], BY_NAME["throttled"]),
    "half_way_checkpoints": (BY_NAME["healthy_llm"], BY_NAME["checkpoint_stall"]),
}
NAMES = tuple(archetype.name for archetype in ARCHETYPES if archetype.is_allocated)
