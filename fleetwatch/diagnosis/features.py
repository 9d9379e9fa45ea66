"""What a window of half an hour, two or six hours says of each GPU and of its job: the evidence that detectors compare. Pure numpy.

Every array is lanes x cells: at [lane, cell] stands what the window says that ends with that cell.
Definitions: domain facts 3.2 in docs/diagnosis.md. NaN = not read; nothing is ever filled in.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.diagnosis import cells as of_cell
from fleetwatch.diagnosis import lows
from fleetwatch.diagnosis.cells import CELL_MS, SEEN_MS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Windows in cells of five minutes: half an hour, on which thresholds were checked; longer where cycles are long.
SHORT, MIDDLE, LONG = 6, 24, 72
CELL_S = CELL_MS / 1000

# Feature -> the cell's figure of which it is the mean over observed time.
MEANS = {
    "util": "util_mean",
    "lo": "util_low_fraction",
    "hi": "util_high_fraction",
    "p5": "util_p5",
    "cyc_s": "util_cycle_s",
    "cyc_cv": "util_cycle_cv",
    "window_lo": of_cell.WINDOW_LOW,
    "spin": "spin_fraction",
    "power_w": "power_w",
    "sm": "sm_active",
    "occ": "sm_occupancy",
    "ten": "tensor_active",
    "dram": "dram_active",
    "fp64": "fp64_active",
    "fp32": "fp32_active",
    "fp16": "fp16_active",
    "rx": "pcie_rx_bytes_s",
    "tx": "pcie_tx_bytes_s",
    "nvl_rx": "nvlink_rx_bytes_s",
    "nvl_tx": "nvlink_tx_bytes_s",
    "memory": "memory_used_bytes",
    "thr": "throttle_thermal_ratio",
    "clk": of_cell.CLOCK_RATIO,
    "encoder": "encoder_ratio",
    "decoder": "decoder_ratio",
    "temperature_c": "temperature_c",
    "cpu": "job_cpu_ratio",
    "main1": "job_main_thread_ratio",
    "iord": "job_io_read_bytes_s",
    "workers": "job_workers",
    "cores": "job_cores",
    "host_cpu": "host_cpu_ratio",
    "iowait": "host_iowait_ratio",
    "iop": "host_io_psi_ratio",
    "disk_read": "host_disk_read_bytes_s",
    "disk_write": "host_disk_write_bytes_s",
    "nic_rx": "host_nic_rx_bytes_s",
    "nic_tx": "host_nic_tx_bytes_s",
}
MAXIMA = {
    "util_max": "util_max_max",
    "power_max_w": "power_max_w_max",
    "memory_max": "memory_used_bytes_max",
    "tx_max": "pcie_tx_bytes_s_max",
    "processes": "process_count_max",
    "longest_low_s": lows.LONGEST,
}
MINIMA = {"p5_min": "util_p5_min"}
# Share of the held time that the ledger calls so (`ledger_` + state).
STATES = ("useful", "underused", "stalled", "idle", "starting", "unobserved", "unavailable")


@dataclass(frozen=True, slots=True)
class Lanes:
    """Who held which GPU, cell by cell: one row per GPU and job, the rows of a job together.

    `figures` are those of cells.Cells, NaN where the job did not hold the GPU; `states` the share
    of the cell's held time in each of STATES, NaN where the ledger says nothing. Watts and bytes
    are NaN where not known. `age` counts cells since the job's start.
    """

    gpu_id: Ints
    job_id: Ints
    kind: tuple[str, ...]  # of each row's job: batch, interactive or service
    is_serving: Mask  # its command or owner is that of a model server
    idle_w: Floats
    limit_w: Floats
    memory_bytes: Floats
    start_ms: int
    held: Mask
    age: Ints
    figures: Mapping[str, Floats]
    states: Mapping[str, Floats]

    def of_jobs(self) -> Iterator[slice]:
        """The rows of each job."""
        edges = np.flatnonzero(np.diff(self.job_id)) + 1
        bounds = [0, *edges.tolist(), len(self.job_id)]
        yield from (slice(low, high) for low, high in pairwise(bounds) if low < high)


@dataclass(frozen=True, slots=True)
class Features:
    """Evidence per lane and cell, over a window of `length` cells; detectors read it by name."""

    lanes: Lanes
    length: int
    values: Mapping[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        """The feature; all NaN where no sensor of that name was read."""
        return self.values[name]

    def has(self, *names: str) -> Mask:
        """Where every one of the features was read."""
        known: Mask = np.logical_and.reduce([~np.isnan(self.values[name]) for name in names])
        return known


def features(lanes: Lanes, length: int) -> Features:
    """The evidence of windows of so many cells."""
    figures = lanes.figures
    held_ms: Floats = np.where(lanes.held, float(CELL_MS), 0.0)
    seen = np.where(lanes.held, np.nan_to_num(figures[SEEN_MS]), 0.0)
    values: dict[str, Floats] = {name: _mean(figures[source], seen, length) for name, source in MEANS.items()}
    values |= {name: _extreme(figures[source], length, np.fmax) for name, source in MAXIMA.items()}
    values |= {name: _extreme(figures[source], length, np.fmin) for name, source in MINIMA.items()}
    observed_s = _sum(seen, length) / 1000
    values["coverage"] = _ratio(observed_s * 1000, _sum(held_ms, length))
    values["observed_s"] = observed_s
    values["age_s"] = lanes.age.astype(np.float64) * CELL_S
    values["dips_per_min"] = _per_minute(figures["util_dips"], observed_s, length)
    values["memory_drops_per_min"] = _per_minute(figures[of_cell.MEMORY_DROPS], observed_s, length)
    values |= _pauses(lanes, length, observed_s)
    span_w = (lanes.limit_w - lanes.idle_w)[:, None]
    values["pr"] = (values["power_w"] - lanes.idle_w[:, None]) / span_w
    values["pr_max"] = (values["power_max_w"] - lanes.idle_w[:, None]) / span_w
    values["mem"] = values["memory"] / lanes.memory_bytes[:, None]
    values["mem_max"] = values["memory_max"] / lanes.memory_bytes[:, None]
    values["nvl"] = values["nvl_rx"] + values["nvl_tx"]
    values["corr"] = _correlation(figures, length)
    values |= {f"ledger_{state}": _mean(lanes.states[state], held_ms, length) for state in STATES}
    values |= _of_job(lanes, values)
    return Features(lanes, length, values)


def _per_minute(counts: Floats, observed_s: Floats, length: int) -> Floats:
    """How often per observed minute; NaN where it was not counted."""
    return np.where(_any(counts, length), _ratio(_sum(counts, length) * 60, observed_s), np.nan)


def _pauses(lanes: Lanes, length: int, observed_s: Floats) -> dict[str, Floats]:
    """Long pauses: how many, their share of time, and the mean and the variation of the time between their onsets."""
    count, total, squares = _intervals(lanes.figures)
    n, onsets = _sum(count, length), _sum(lanes.figures[lows.ONSETS], length)
    mean = _ratio(_sum(total, length), n)
    variance: Floats = np.maximum(_ratio(_sum(squares, length), n) - mean * mean, 0.0)
    is_known = _any(lanes.figures[lows.LOW_S], length)
    return {
        "long_n": np.where(is_known, onsets, np.nan),
        "long_frac": np.where(is_known, _ratio(_sum(lanes.figures[lows.LOW_S], length), observed_s), np.nan),
        "long_per_s": mean,
        "long_cv": _ratio(np.sqrt(variance), mean),
    }


def _intervals(figures: Mapping[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """Per cell how many times between onsets end in it, their sum and the sum of their squares.

    A cell tells those within it; the one that leads into its first onset is made here.
    """
    onsets = np.nan_to_num(figures[lows.ONSETS])
    starts = np.arange(onsets.shape[1]) * CELL_S
    first, last = figures[lows.FIRST_ONSET] + starts, figures[lows.LAST_ONSET] + starts
    has_onset = ~np.isnan(last)
    before = np.maximum.accumulate(np.where(has_onset, last, -np.inf), axis=1)
    before = np.concatenate([np.full((len(before), 1), -np.inf), before[:, :-1]], axis=1)
    leads = has_onset & np.isfinite(before)
    gap = np.where(leads, first - np.where(leads, before, 0.0), 0.0)
    count = np.maximum(onsets - 1, 0.0) + leads
    return count, np.nan_to_num(figures[lows.INTERVALS]) + gap, np.nan_to_num(figures[lows.INTERVALS_SQUARED]) + gap * gap


def _correlation(figures: Mapping[str, Floats], length: int) -> Floats:
    """Of the GPU's utilisation with the mean of its job's other GPUs on the node; NaN without any, or where nothing varies."""
    n, x, m, xx, mm, xm = (_sum(figures[name], length) for name in of_cell.PEERS)
    n = np.where(_any(figures[of_cell.PEERS[0]], length), n, np.nan)
    spread = (n * xx - x * x) * (n * mm - m * m)
    return _ratio(n * xm - x * m, np.sqrt(np.where(spread > 1e-9, spread, np.nan)))


# Of these a lane is compared with the others of its job.
COMPARED = ("util", "pr", "ten", "clk", "util_max", "p5", "ledger_idle")


def _of_job(lanes: Lanes, values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Over the job's lanes that hold a GPU at that cell: how many, and of COMPARED the median, minimum and maximum."""
    shape = lanes.held.shape
    found = {"job_gpus": np.zeros(shape)} | {f"job_{name}_{word}": np.full(shape, np.nan) for name in COMPARED for word in _OVER}
    for rows in lanes.of_jobs():
        held = lanes.held[rows]
        found["job_gpus"][rows] = held.sum(axis=0)
        for name in COMPARED:
            own = np.where(held, values[name][rows], np.nan)
            is_known = ~np.isnan(own).all(axis=0)
            if not is_known.any():
                continue
            for word, over in _OVER.items():
                if len(own) == 1:
                    found[f"job_{name}_{word}"][rows] = own
                else:
                    found[f"job_{name}_{word}"][rows][:, is_known] = over(own[:, is_known], axis=0)
    return found


_OVER: dict[str, Any] = {"median": np.nanmedian, "min": np.nanmin, "max": np.nanmax}


def _sum(values: Floats, length: int) -> Floats:
    """Sum over the last `length` cells; what is NaN adds nothing."""
    total = np.cumsum(np.nan_to_num(values), axis=1)
    total[:, length:] -= total[:, :-length].copy()
    return total


def _any(values: Floats, length: int) -> Mask:
    """Whether anything was read in the last `length` cells."""
    return _sum((~np.isnan(values)).astype(np.float64), length) > 0


def _mean(values: Floats, weight: Floats, length: int) -> Floats:
    """Mean by weight over the last `length` cells of what was read."""
    by = np.where(np.isnan(values), 0.0, weight)
    return _ratio(_sum(np.nan_to_num(values) * by, length), _sum(by, length))


def _extreme(values: Floats, length: int, passing: Any) -> Floats:
    """Largest (fmax) or smallest (fmin) over the last `length` cells: doubled widths instead of a loop."""
    found, width = values.copy(), 1
    while width < length:
        step = min(width, length - width)
        found[:, step:] = passing(found[:, step:], found[:, :-step].copy())
        width += step
    return found


def _ratio(over: Floats, under: Floats) -> Floats:
    """over ÷ under; NaN where under is not above 0."""
    with np.errstate(invalid="ignore"):
        result: Floats = np.divide(over, under, out=np.full(np.shape(over), np.nan), where=under > 0)
    return result
