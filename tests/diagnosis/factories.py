"""Lanes and evidence by hand: what is not given was not read."""

import numpy as np

from fleetwatch.diagnosis.judgement import cell_figures, pauses
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.lane_figures import of as of_arrays
from fleetwatch.diagnosis.judgement.lanes import STATES, Lanes, shared

NAMES = {
    *cell_figures.MEANS,
    *cell_figures.DIPS,
    *cell_figures.PEERS,
    *pauses.FIGURES,
    cell_figures.SEEN_MS,
    cell_figures.CLOCK_RATIO,
    cell_figures.WINDOW_LOW,
    cell_figures.MEMORY_DROPS,
}
NAMES |= {cell_figures.MEMORY_ERRORS, cell_figures.BUSIEST_MINUTE, cell_figures.ENGINES}
NAMES |= {f"{name}_max" for name in cell_figures.MAXIMA} | {
    f"host_{name}" for name in cell_figures.HOST_MEANS
}


def lanes(
    *,
    jobs: list[int] | None = None,
    gpus: list[int] | None = None,
    held=None,
    states=None,
    kind="batch",
    age=100,
    ran_s=None,
    warm_up=2,
    is_over=False,
    held_ms=300_000.0,
    failures=0,
    cheaper=(),
    sevenths=7,
    **figures,
) -> Lanes:
    """Lanes of jobs (default one) from rows of figures; what is not given was not read, all of it
    was seen.
    """
    jobs = jobs or [1]
    given = {
        name: np.array(values, dtype=float).reshape(len(jobs), -1)
        for name, values in figures.items()
    }
    shape = next(iter(given.values())).shape
    unread = {name: np.full(shape, np.nan) for name in NAMES}
    count = len(jobs)
    is_held = np.ones(shape, dtype=bool) if held is None else np.array(held, dtype=bool)
    return Lanes(
        gpu_id=np.arange(count) if gpus is None else np.array(gpus),
        job_id=np.array(jobs),
        kind=np.full(count, kind),
        is_serving=np.zeros(count, dtype=bool),
        idle_w=np.full(count, 100.0),
        limit_w=np.full(count, 700.0),
        memory_bytes=np.full(count, 80.0),
        sevenths=np.full(count, sevenths),
        start_ms=0,
        held=is_held,
        held_ms=np.where(is_held, held_ms, 0.0),
        shared=np.zeros(shape, dtype=bool) if gpus is None else shared(np.array(gpus), is_held),
        age=np.tile(age + np.arange(shape[1]), (count, 1)),
        ran_s=np.array(ran_s, dtype=float).reshape(count, -1)
        if ran_s is not None
        else np.tile((age + np.arange(shape[1]) + 1) * 300.0, (count, 1)),
        warm_up=np.full(count, warm_up),
        is_over=np.full(count, is_over),
        failures=np.full(count, failures),
        cheaper=(cheaper,) * count,
        figures=of_arrays(unread | {cell_figures.SEEN_MS: np.full(shape, 300_000.0)} | given),
        states={name: np.zeros(shape) for name in STATES} | (states or {}),
    )


def evidence(
    *, kind: str = "batch", is_serving: bool = False, failures: int = 0, **known: float
) -> Features:
    """A window of one GPU in which exactly these features were read."""
    nothing = lanes(kind=kind, failures=failures, util_mean=[np.nan])
    nothing.is_serving[:] = is_serving
    found = Features(nothing, 6)
    found._made.update({name: np.array([[float(value)]]) for name, value in known.items()})
    return found
