"""Labelled cases as diagnosis sees them, without a database: the simulator's windows, judged by the
ledger, laid out as lanes. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.idle_watts import idle_power_w
from benchmarks.cases import CELL_MS, HOUR_MS, Case
from fleetwatch.diagnosis.judgement import cell_figures, lane_figures
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.lanes import STATES, Lanes, warm_up
from fleetwatch.diagnosis.judgement.verdicts import UNDETERMINED, WASTEFUL
from fleetwatch.diagnosis.judgement.window_places import Grid
from fleetwatch.ledger.judgement import cell_states, states
from fleetwatch.ledger.judgement.observations import Capacity, NodeContext, Outage, Question
from fleetwatch.ledger.policy import Policy

HEALTHY = "healthy"
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Windows:
    """A case's windows, by GPU and time; GPUs are numbered from 1."""

    gpu_id: Ints
    start_ms: Ints
    end_ms: Ints
    observed_ms: Ints
    boot_start_ms: Ints
    sequence: Ints
    columns: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class HostSamples:
    start_ms: Ints
    columns: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Holding:
    gpu_id: int
    job_id: int
    kind: str
    share: float | None
    spans: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Source:
    kind: str
    ok: bool
    spans: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Held:
    """One of the case's jobs: two parts of one key are one job that changes."""

    job_id: int
    kind: str
    start_ms: int
    is_serving: bool
    life_ms: int | None = None  # it goes on after the case


def lanes_of(case: Case) -> Lanes:
    """The case's lanes, one row per job and GPU, as fleetwatch.diagnosis.lane_rows makes them from
    rows.
    """
    windows, jobs = _windows(case), _jobs(case)
    gpus, count = len(case.gpus), len(case.truth[0])
    board = case.gpus[0]
    idle_w, limit_w, memory = (
        idle_power_w(board.model),
        board.power_limit_w,
        float(board.memory_total_bytes),
    )
    made = cell_figures.cells(
        windows,
        [HostSamples(case.starts_ms, case.host)],
        Grid(
            gpu_ids=np.arange(1, gpus + 1),
            host_of=np.zeros(gpus, dtype=np.int64),
            memory_bytes=np.full(gpus, memory),
            holders=np.full((gpus, count), jobs[0].job_id),
            start_ms=case.start_ms,
        ),
    )
    rows = [(job, gpu) for job in jobs for gpu in range(gpus)]
    at = [gpu for _, gpu in rows]
    shares = _states(case, windows, jobs, limit_w=limit_w, idle_w=idle_w)
    age = np.array([(case.start_ms - job.start_ms) // CELL_MS for job, _ in rows]).reshape(
        -1, 1
    ) + np.arange(count)
    return Lanes(
        gpu_id=np.array(at) + 1,
        job_id=np.array([job.job_id for job, _ in rows]),
        kind=np.array([job.kind for job, _ in rows]),
        is_serving=np.array([job.is_serving for job, _ in rows]),
        idle_w=np.full(len(rows), np.nan if idle_w is None else idle_w),
        limit_w=np.full(len(rows), np.nan if limit_w is None else limit_w),
        memory_bytes=np.full(len(rows), memory),
        sevenths=np.full(len(rows), 7),
        start_ms=case.start_ms,
        held=np.ones((len(rows), count), dtype=bool),
        held_ms=np.full((len(rows), count), float(CELL_MS)),
        shared=np.full((len(rows), count), len(jobs) > 1),
        age=age,
        ran_s=(age + 1.0) * CELL_MS / 1000,
        warm_up=np.array([warm_up(job.life_ms) for job, _ in rows]),
        is_over=np.array([job.life_ms is not None for job, _ in rows]),
        failures=np.zeros(len(rows), dtype=np.int64),
        cheaper=((),) * len(rows),
        figures=lane_figures.of({name: values[at] for name, values in made.items()}),
        states=shares,
    )


def truth_of(case: Case, lanes: Lanes) -> list[tuple[str, ...]]:
    """The truth of each row of lanes_of.

    What works well and wastes more than what is well may waste is to be told undetermined.
    """
    told = [case.truth[gpu] for _ in _jobs(case) for gpu in range(len(case.gpus))]
    wasted = np.nan_to_num(Features(lanes, 1)["wasted_of_cell"]) > WASTEFUL
    return [
        tuple(_strict(truth, is_over) for truth, is_over in zip(*row, strict=True))
        for row in zip(told, wasted.tolist(), strict=True)
    ]


def _strict(truth: str, is_wasteful: bool) -> str:
    return f"{truth}|{UNDETERMINED}" if is_wasteful and truth == HEALTHY else truth


def _jobs(case: Case) -> list[Held]:
    by_key = {job.key: job for job in reversed(case.jobs)}
    return [
        Held(1 + place, job.archetype.kind, job.start_ms, job.archetype.process == "vllm")
        for place, job in enumerate(sorted(by_key.values(), key=lambda job: job.number))
    ]


def _windows(case: Case) -> Windows:
    gpus, count = len(case.gpus), len(case.starts_ms)
    start_ms = np.tile(case.starts_ms, gpus)
    nothing = np.zeros(gpus * count, dtype=np.int64)
    return Windows(
        gpu_id=np.repeat(np.arange(1, gpus + 1), count),
        start_ms=start_ms,
        end_ms=start_ms + case.window_s * 1000,
        observed_ms=np.concatenate(case.observed_ms),
        boot_start_ms=nothing,
        sequence=nothing,
        columns={
            name: np.concatenate([one[name] for one in case.columns]).astype(np.float64)
            for name in case.columns[0]
        },
    )


def _states(
    case: Case,
    windows: Windows,
    jobs: Sequence[Held],
    *,
    idle_w: float | None,
    limit_w: float | None,
) -> dict[str, Floats]:
    """The share of each cell in each of STATES as the ledger judges it; NaN where it says
    nothing.
    """
    gpus, count = len(case.gpus), len(case.truth[0])
    first, end_ms = case.start_ms // HOUR_MS * HOUR_MS, case.start_ms + count * CELL_MS
    node = NodeContext(
        capacities=[
            Capacity(gpu, case.start_ms, end_ms, True, None, 1.0, idle_w, limit_w)
            for gpu in range(1, gpus + 1)
        ],
        holdings=[
            Holding(gpu, job.job_id, job.kind, None, [(job.start_ms, end_ms)])
            for job in jobs
            for gpu in range(1, gpus + 1)
        ],
        sources=[Source("slurm", True, [(case.start_ms, end_ms)])],
        outages={
            _gpu(case, event.uuid): [Outage(event.at_ms, end_ms, event.kind)]
            for event in case.events
            if event.kind == "gpu_lost"
        },
    )
    cuts = np.arange(first, end_ms + HOUR_MS, HOUR_MS)
    question = Question(windows, [node], cuts, (first, end_ms), Policy())
    table = states.judge(question).cells
    at = (
        (table["job_id"] - 1) * gpus + table["gpu_id"] - 1,
        (table["start_ms"] - case.start_ms) // CELL_MS,
    )
    total = sum(table[name] for name in cell_states.NAMES)
    found = {state: np.full((len(jobs) * gpus, count), np.nan) for state in STATES}
    for state, shares in found.items():
        shares[at] = (
            sum(
                table[name]
                for name, label in zip(cell_states.NAMES, cell_states.LABELS, strict=True)
                if label[0] == state
            )
            / total
        )
    return found


def _gpu(case: Case, uuid: str | None) -> int:
    return 1 + next(place for place, gpu in enumerate(case.gpus) if gpu.uuid == uuid)
