"""Labelled cases for detectors and benchmarks: what one job's GPUs show, and what a perfect
diagnosis would say of it. Pure.

Parameters for tuning come from the ranges of the table; held-out ones leave them by up to 30 %, so
that thresholds are not simply echoed. Mixtures are for judging only.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agent.readings import Event, GPUInfo
from agent.sources.simulated.archetype import Archetype
from agent.sources.simulated.archetypes import ARCHETYPES, BY_NAME
from agent.sources.simulated.card import GPM_COLUMNS, card
from agent.sources.simulated.hardware import Range
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import Signal
from agent.sources.simulated.spec import Spec
from agent.sources.simulated.traits import Draw
from agent.sources.simulated.troubles import OMENS
from fleetwatch.demo.signals import Part, Span
from fleetwatch.demo.truth import GPU_FAULT, UNOBSERVED, causes
from fleetwatch.demo.window_columns import JOB_COLUMNS, Columns, draw

HELD_OUT_SPREAD = 0.3
SATURATED = 0.93
# 2026-11-07 00:00 UTC; cases begin at some hour of that week
FIRST_MS, WEEKS_HOURS = 1_794_009_600_000, 168
CELL_MS, SECOND_MS, HOUR_MS = 300_000, 1000, 3_600_000
WINDOW_S = 10
AGE_MS = 900_000  # a steady case begins so long after its job did: past every warm-up
UTILISATION_ONLY = ("util_", "memory_used_bytes", "memory_reserved_bytes", "process_count")
GPM = {*GPM_COLUMNS, "sm_active_max", "memory_util_mean"}
SENSORS = ("all", "no_gpm", "no_host", "utilisation_only")


class HeldOutDraw(Draw):
    """Lets each number leave its range by up to HELD_OUT_SPREAD of itself."""

    def number(self, low_high: Range) -> float:
        return super().number(low_high) * self.rng.uniform(
            1.0 - HELD_OUT_SPREAD, 1.0 + HELD_OUT_SPREAD
        )

    def ratio(self, low_high: Range) -> float:
        """A saturated signal keeps its place: a resident kernel reads 100 %, a loader short of
        cores uses all.
        """
        return self.rng.uniform(*low_high) if low_high[0] >= SATURATED else super().ratio(low_high)


class OutsideDraw(HeldOutDraw):
    """Makes each number leave its range, below or above it, by up to HELD_OUT_SPREAD of itself."""

    def number(self, low_high: Range) -> float:
        edge = self.rng.randrange(2)
        beyond = self.rng.uniform(0.0, HELD_OUT_SPREAD)
        return low_high[edge] * (1.0 + (-1, 1)[edge] * beyond)


@dataclass(frozen=True, slots=True)
class Case:
    """A job on the GPUs of one node over whole cells of five minutes.

    `columns` has for each GPU an array per wire column, one value per window, NaN where it was not
    read; a column that the sensors do not have is absent. `observed_ms` is per GPU and window.
    `host` has the node's columns. `truth` has for each GPU the cause of each cell; where several
    would be right they are joined by `|`.
    """

    name: str
    seed: int
    sensors: str
    start_ms: int
    window_s: int
    starts_ms: NDArray[np.int64]
    gpus: tuple[GPUInfo, ...]
    columns: tuple[Columns, ...]
    observed_ms: tuple[NDArray[np.int64], ...]
    host: Columns
    # each holds all the GPUs from its start to its end; two of one key are one job that changes
    jobs: tuple[SimulatedJob, ...]
    events: tuple[Event, ...]
    truth: tuple[tuple[str, ...], ...]

    @property
    def job(self) -> SimulatedJob:
        """The job whose behaviour is judged, the first of several."""
        return self.jobs[0]


def draw_case(
    archetype: str,
    seed: int,
    *,
    held_out: bool = False,
    is_outside: bool = False,
    sensors: str = "all",
    minutes: int = 30,
    model: str = "H100",
) -> Case:
    """The case of that archetype (of NAMES, EXTRAS or MIXTURES) and seed, always the same. Raises
    KeyError for another name.

    Held out, a number is up to HELD_OUT_SPREAD more or less than one of its range; `is_outside`: so
    far below or above the range.
    """
    rng = random.Random(f"{archetype}/{seed}/{held_out}")
    kinds = (
        (MIXTURES | EXTRAS)[archetype] if archetype in MIXTURES | EXTRAS else (BY_NAME[archetype],)
    )
    start_ms = FIRST_MS + rng.randrange(WEEKS_HOURS) * HOUR_MS
    end_ms = start_ms + minutes // 5 * CELL_MS
    smallest, largest = max(kind.sizes[0] for kind in kinds), min(kind.sizes[1] for kind in kinds)
    size = rng.randint(smallest, max(smallest, largest))
    parts = _parts(
        archetype,
        kinds,
        rng,
        start_ms=start_ms,
        end_ms=end_ms,
        size=size,
        held_out=held_out,
        is_outside=is_outside,
    )
    cards = [
        card(Spec(size, model, seed), node=f"case-{archetype}-{seed}", index=index)
        for index in range(size)
    ]
    count = (end_ms - start_ms) // (WINDOW_S * SECOND_MS)
    span = Span(start_ms // SECOND_MS, count * WINDOW_S, WINDOW_S)
    drawn = draw(cards, parts, span, seed=seed)
    case = Case(
        name=archetype,
        seed=seed,
        sensors="all",
        start_ms=start_ms,
        window_s=WINDOW_S,
        starts_ms=start_ms + np.arange(count, dtype=np.int64) * WINDOW_S * SECOND_MS,
        gpus=tuple(one.info for one in cards),
        columns=tuple(drawn.gpus),
        observed_ms=tuple(np.full(count, WINDOW_S * SECOND_MS) for _ in cards),
        host=drawn.host,
        jobs=tuple(part.job for part in parts),
        events=(),
        truth=tuple(_truth(parts, gpu, range(start_ms, end_ms, CELL_MS)) for gpu in range(size)),
    )
    return with_sensors(TROUBLES[archetype](case, rng) if archetype in TROUBLES else case, sensors)


def with_sensors(case: Case, sensors: str) -> Case:
    """The case (drawn with all of them) with these sensors of SENSORS alone.

    Raises KeyError for another name.
    """
    columns = tuple(_sensed(one, sensors) for one in case.columns)
    return replace(
        case,
        sensors=sensors,
        columns=columns,
        host=case.host if sensors in ("all", "no_gpm") else {},
    )


def _parts(
    name: str,
    kinds: Sequence[Archetype],
    rng: random.Random,
    *,
    start_ms: int,
    end_ms: int,
    size: int,
    held_out: bool,
    is_outside: bool,
) -> list[Part]:
    """The jobs of the case: one, two side by side, or (half-way) one that turns into another in the
    middle cell.
    """
    changes = name.startswith("half_way")
    draw = OutsideDraw if is_outside else HeldOutDraw if held_out else Draw
    seed = f"{name}/{rng.random()}"
    parts = []
    for place, kind in enumerate(kinds):
        number = 1 if changes else 1 + place
        job = SimulatedJob(
            number, "bench", kind.names[0], "ann", "lab", kind, tuple(range(size)), start_ms,
            end_ms + AGE_MS, f"{seed}/{place}", draw,
        )  # fmt: skip
        job = replace(job, start_ms=start_ms if name == "warm_up" else _began_ms(job, rng))
        parts.append(Part(job, job.start_ms, job.end_ms))
    if not changes:
        return parts
    middle_ms = start_ms + (end_ms - start_ms) // (2 * CELL_MS) * CELL_MS
    return [replace(parts[0], end_ms=middle_ms), replace(parts[1], start_ms=middle_ms)]


def _began_ms(job: SimulatedJob, rng: random.Random) -> int:
    """When the job began, so that the case shows what it is: past its warm-up; one that hangs does
    so at the case's start or before.
    """
    if job.archetype.hangs_after_s is None:
        return job.start_ms - AGE_MS - rng.randrange(3600) * SECOND_MS
    traits = Signal(job).traits
    return (
        job.start_ms
        - int(traits.warmup_s + traits.hangs_after_s) * SECOND_MS
        - rng.choice((AGE_MS, 0))
    )


def _truth(parts: Sequence[Part], gpu: int, cells: Sequence[int]) -> tuple[str, ...]:
    by_cell = []
    for start_ms in cells:
        holding = [
            _most(part, gpu, start_ms)
            for part in parts
            if part.start_ms < start_ms + CELL_MS and part.end_ms > start_ms
        ]
        by_cell.append("|".join(dict.fromkeys(holding)))
    return tuple(by_cell)


def _most(part: Part, gpu: int, start_ms: int) -> str:
    """What holds on that GPU for most of a cell."""
    spans = [
        (min(end, start_ms + CELL_MS) - max(begin, start_ms), cause)
        for begin, end, cause in causes(part.job, gpu)
    ]
    return max(spans)[1]


def _lost(case: Case, rng: random.Random) -> Case:
    """The job's first GPU falls off the bus in the first third of the case, after hours of memory
    errors.
    """
    lost_ms = (
        case.start_ms + rng.randrange(len(case.truth[0]) * CELL_MS // 3 // SECOND_MS) * SECOND_MS
    )
    uuid = case.gpus[0].uuid
    omens = [Event(lost_ms - before_ms, "xid", uuid, code, text) for before_ms, code, text in OMENS]
    events = (
        *omens,
        Event(lost_ms, "xid", uuid, 79, "GPU has fallen off the bus"),
        Event(lost_ms, "gpu_lost", uuid, None, "GPU is lost"),
    )
    truth = tuple(
        GPU_FAULT if case.start_ms + (place + 1) * CELL_MS > lost_ms else cause
        for place, cause in enumerate(case.truth[0])
    )
    return replace(
        _unread(case, (0,), lost_ms, 2**62), events=events, truth=(truth, *case.truth[1:])
    )


def _silent(case: Case, rng: random.Random) -> Case:
    """The agent reads nothing for 3 to 40 minutes of the case."""
    begin_ms = (
        case.start_ms + rng.randrange(len(case.truth[0]) * CELL_MS // 2 // SECOND_MS) * SECOND_MS
    )
    end_ms = begin_ms + rng.randrange(180, 2400) * SECOND_MS
    cells = range(case.start_ms, case.start_ms + len(case.truth[0]) * CELL_MS, CELL_MS)
    truth = tuple(
        UNOBSERVED if min(end_ms, start + CELL_MS) - max(begin_ms, start) > 0.4 * CELL_MS else cause
        for start, cause in zip(cells, case.truth[0], strict=True)
    )
    return replace(
        _unread(case, range(len(case.gpus)), begin_ms, end_ms), truth=(truth,) * len(case.gpus)
    )


def _unread(case: Case, gpus: Sequence[int], begin_ms: int, end_ms: int) -> Case:
    """The case with nothing read of those GPUs' windows that touch [begin, end)."""
    gone = (case.starts_ms + WINDOW_S * SECOND_MS > begin_ms) & (case.starts_ms < end_ms)
    columns, observed = list(case.columns), list(case.observed_ms)
    for gpu in gpus:
        columns[gpu] = {
            name: np.where(gone, np.nan, values) for name, values in columns[gpu].items()
        }
        observed[gpu] = np.where(gone, 0, observed[gpu])
    return replace(case, columns=tuple(columns), observed_ms=tuple(observed))


def _sensed(columns: Columns, sensors: str) -> Columns:
    """The columns that remain with these sensors."""
    if sensors == "all":
        return columns
    if sensors == "no_gpm":
        return {name: values for name, values in columns.items() if name not in GPM}
    if sensors == "no_host":
        return {name: values for name, values in columns.items() if name not in JOB_COLUMNS}
    if sensors == "utilisation_only":
        return {
            name: values for name, values in columns.items() if name.startswith(UTILISATION_ONLY)
        }
    raise KeyError(sensors)


def _starved_and_saving() -> Archetype:
    """A data loader that can't keep up, in a job that also waits for its checkpoints."""
    saving = BY_NAME["checkpoint_stall"]
    return replace(
        BY_NAME["data_starved_cpu"], name="starved_and_saving",
        truth="data_starved|checkpoint_stall",
        pause=saving.pause, onset=saving.onset, pause_load=saving.pause_load,
        pause_every_s=saving.pause_every_s, pause_share=saving.pause_share, onset_s=saving.onset_s,
        sizes=(1, 8),
    )  # fmt: skip


# Never used for tuning: a job that is starved and saves, two jobs on one GPU, and a cause that
# starts half-way.
MIXTURES: dict[str, tuple[Archetype, ...]] = {
    "starved_and_saving": (_starved_and_saving(),),
    "two_services": (BY_NAME["bursty_service"], BY_NAME["bursty_service"]),
    "service_and_small_batch": (BY_NAME["bursty_service"], BY_NAME["small_batch"]),
    "half_way_starved": (BY_NAME["healthy_llm"], BY_NAME["data_starved_cpu"]),
    "half_way_small_batch": (BY_NAME["healthy_vision"], BY_NAME["small_batch"]),
    "half_way_throttled": (BY_NAME["healthy_llm"], BY_NAME["throttled"]),
    "half_way_checkpoints": (BY_NAME["healthy_llm"], BY_NAME["checkpoint_stall"]),
}
# Healthy jobs at times that must not be held against them.
EXTRAS: dict[str, tuple[Archetype, ...]] = dict.fromkeys(
    ("warm_up", "gpu_fault", "agent_outage"), (BY_NAME["healthy_llm"],)
)
TROUBLES: dict[str, Callable[[Case, random.Random], Case]] = {
    "gpu_fault": _lost,
    "agent_outage": _silent,
}
NAMES = tuple(archetype.name for archetype in ARCHETYPES if archetype.is_allocated)
