"""What a window of half an hour, two or six hours says of each GPU and of its job: the evidence
that detectors compare. Pure numpy.

Every array is lanes x cells: at [lane, cell] stands what the window says that ends with that cell.
Names: MEANS, MAXIMA, MINIMA and FORMULAS; `ledger_` + a state: its share of the held time; `job_` +
a feature + `_median`, `_mad`, `_min`, `_max`: over the job's GPUs at that cell. Definitions: domain
facts 3.2 in docs/diagnosis.md. NaN = not read; nothing is ever filled in.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fleetwatch.diagnosis.judgement import cell_figures as of_cell
from fleetwatch.diagnosis.judgement import pauses
from fleetwatch.diagnosis.judgement.array_tools import extreme, ratio, windowed
from fleetwatch.diagnosis.judgement.lanes import Lanes
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Floats, Mask

# Windows in cells of five minutes: half an hour, on which thresholds were checked; longer where
# cycles are long.
SHORT = 6
MIDDLE = 24
LONG = 72
CELL_S = CELL_MS / 1000
WASTED_STATES = ("idle", "stalled", "underused")

Formula = Callable[["Features"], Floats]

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
    "ten": "tensor_active",
    "dram": "dram_active",
    "fp64": "fp64_active",
    "eng": of_cell.ENGINES,
    "fp32": "fp32_active",
    "rx": "pcie_rx_bytes_s",
    "nvl_rx": "nvlink_rx_bytes_s",
    "nvl_tx": "nvlink_tx_bytes_s",
    "memory": "memory_used_bytes",
    "thr": "throttle_thermal_ratio",
    "clk": of_cell.CLOCK_RATIO,
    "cpu": "job_cpu_ratio",
    "main1": "job_main_thread_ratio",
    "cores": "job_cores",
    "iop": "host_io_psi_ratio",
    "disk_write": "host_disk_write_bytes_s",
    "nic_rx": "host_nic_rx_bytes_s",
}
MAXIMA = {
    "util_max": "util_max_max",
    "power_max_w": "power_max_w_max",
    "memory_max": "memory_used_bytes_max",
    "tx_max": "pcie_tx_bytes_s_max",
    "processes": "process_count_max",
    "longest_low_s": pauses.LONGEST,
}
# A mean hides what changes within the window: the lowest five minutes of it.
MINIMA = {"util_lowest": "util_mean"}


@dataclass(frozen=True, slots=True)
class Features:
    """Evidence per lane and cell over a window of `length` cells, by name; worked out when somebody
    asks.
    """

    lanes: Lanes
    length: int
    _made: dict[str, Floats] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Floats:
        """The feature; NaN where its sensor was not read.

        Raises KeyError for a name that no formula has.
        """
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def has(self, *names: str) -> Mask:
        """Where every one of the features was read."""
        is_read: Mask = np.logical_and.reduce([~np.isnan(self[name]) for name in names])
        return is_read

    def mean(self, values: Floats, weight: str) -> Floats:
        """Mean over the window of what was read, by the weight of that name (`_of_cell`)."""
        is_read = ~np.isnan(values)
        by = self[f"{weight}_of_cell"]
        weighted = self._total(np.multiply(values, by, out=np.zeros(values.shape), where=is_read))
        if (is_read | (by == 0)).all():
            return ratio(weighted, self[weight])
        return ratio(weighted, self._total(np.where(is_read, by, 0.0)))

    def sum(self, values: Floats) -> Floats:
        """Sum over the window; what is NaN adds nothing."""
        return self._total(np.where(np.isnan(values), 0.0, values))

    def counted(self, figure: str) -> Floats:
        """The sum over the window of a figure of cells; NaN where it was never read."""
        values = self.lanes.figures[figure]
        return np.where(self._has_any(~np.isnan(values)), self.sum(values), np.nan)

    def in_job(self, where: Mask) -> Floats:
        """Of how many of the job's GPUs it holds at that cell."""
        return _of_job(self.lanes, where.astype(np.float64), partial(np.nansum, axis=1))

    @property
    def is_shared(self) -> Mask:
        """Where another job held the GPU too, in any cell of the window."""
        return self._has_any(self.lanes.shared)

    def _has_any(self, cells: Mask) -> Mask:
        return self._total(cells.astype(np.float64)) > 0.5

    def _total(self, values: Floats) -> Floats:
        return values if self.length == 1 else windowed(values, self.length)

    def _make(self, name: str) -> Floats:
        figures = self.lanes.figures
        if name in FORMULAS:
            return FORMULAS[name](self)
        if name in MEANS:
            return self.mean(figures[MEANS[name]], "seen_ms")
        if name in MAXIMA:
            return extreme(figures[MAXIMA[name]], self.length, np.fmax)
        if name in MINIMA:
            return extreme(figures[MINIMA[name]], self.length, np.fmin)
        if name.startswith("ledger_"):
            return self.mean(self.lanes.states[name.removeprefix("ledger_")], "held_ms")
        if name.startswith("job_"):
            feature, _, word = name.removeprefix("job_").rpartition("_")
            return _of_job(self.lanes, self[feature], _OVER[word])
        raise KeyError(name)


def _coverage(f: Features) -> Floats:
    """Observed ÷ held."""
    seen_ms = np.minimum(f["seen_ms_of_cell"], f["held_ms_of_cell"])
    return ratio(f.sum(seen_ms), f["held_ms"])


def _per_minute(figure: str) -> Formula:
    """How often per observed minute; NaN where it was not counted."""
    return lambda f: ratio(f.counted(figure) * 60, f["observed_s"])


def _power_ratio(of: str) -> Formula:
    """Of the range between bare idle power and limit."""

    def made(f: Features) -> Floats:
        idle_w = f.lanes.idle_w[:, None]
        return (f[of] - idle_w) / (f.lanes.limit_w[:, None] - idle_w)

    return made


def _most_power(f: Features) -> Floats:
    """The highest power ratio; where idle power is not known by the limit, which is never less."""
    by_limit = f["power_max_w"] / f.lanes.limit_w[:, None]
    return np.where(np.isnan(f.lanes.idle_w)[:, None], by_limit, _power_ratio("power_max_w")(f))


def _memory_ratio(of: str) -> Formula:
    return lambda f: f[of] / f.lanes.memory_bytes[:, None]


def _variation(total: Floats, squares: Floats, count: Floats) -> Floats:
    """Standard deviation ÷ mean, from sums of so many values and of their squares."""
    mean = ratio(total, count)
    return ratio(np.sqrt(np.maximum(ratio(squares, count) - mean * mean, 0.0)), mean)


def _lead_s(f: Features) -> Floats:
    """Of a cell the seconds from the last onset before it to its first one; NaN without either."""
    figures = f.lanes.figures
    starts = np.arange(f.lanes.held.shape[1]) * CELL_S
    before = np.fmax.accumulate(figures[pauses.LAST_ONSET] + starts, axis=1)
    lead_s: Floats = figures[pauses.FIRST_ONSET] + starts
    lead_s -= np.pad(before, [(0, 0), (1, 0)], constant_values=np.nan)[:, :-1]
    return lead_s


def _intervals(f: Features) -> Floats:
    """How many times between onsets end in the window: a cell tells those within it, and one leads
    into it.
    """
    within = np.maximum(np.nan_to_num(f.lanes.figures[pauses.ONSETS]) - 1, 0.0)
    return f.sum(within + ~np.isnan(f["lead_s_of_cell"]))


def _interval_sum(power: int, figure: str) -> Formula:
    """The sum of those times, or of their squares."""
    return lambda f: f.sum(
        np.nan_to_num(f.lanes.figures[figure]) + np.nan_to_num(f["lead_s_of_cell"]) ** power
    )


def _correlation(f: Features) -> Floats:
    """Of the GPU's utilisation with the mean of its job's other GPUs on the node; NaN without any,
    or where nothing varies.
    """
    n, x, m, xx, mm, xm = (f.sum(f.lanes.figures[name]) for name in of_cell.PEERS)
    spread = (n * xx - x * x) * (n * mm - m * m)
    return ratio(n * xm - x * m, np.sqrt(np.where(spread > 1e-9, spread, np.nan)))


def _quiet_s(f: Features) -> Floats:
    """The longest quiet run of the job's own time: what was before it, or comes after it within its
    last cell, is not its own.
    """
    lanes = f.lanes
    so_far_s = np.nan_to_num(lanes.figures[pauses.QUIET_SO_FAR])
    before_s = np.pad(so_far_s, [(0, 0), (1, 0)], constant_values=np.inf)[:, :-1]
    own_s = np.diff(lanes.ran_s, axis=1, prepend=-np.inf)
    most_s = np.where(own_s < CELL_S - 1, before_s + own_s, lanes.ran_s)
    most_s = np.minimum(most_s, lanes.ran_s)
    return extreme(np.minimum(lanes.figures[pauses.QUIET_LONGEST], most_s), f.length, np.fmax)


def _job_peak(figure: str) -> Formula:
    """The largest sum over the job's GPUs of what a cell says; NaN where one of them was not read
    all the time.
    """

    def made(f: Features) -> Floats:
        values = np.where(f.lanes.held, f.lanes.figures[figure], 0.0)
        together = _over_rows(f.lanes, values, partial(np.sum, axis=1))
        return extreme(together, f.length, np.maximum)

    return made


def _memory_at_end(f: Features) -> Floats:
    """The peak of the last five minutes in which the job held a GPU, on that of its GPUs where it
    is largest.
    """
    held = f.lanes.held
    is_last = held & (np.cumsum(held, axis=1) == held.sum(axis=1, keepdims=True))
    in_last = np.where(is_last, f.lanes.figures["memory_used_bytes_max"], np.nan)
    used = extreme(in_last, held.shape[1], np.fmax)[:, -1:]
    share = np.broadcast_to(used / f.lanes.memory_bytes[:, None], held.shape)
    return _of_job(f.lanes, share, _OVER["max"])


FORMULAS: dict[str, Formula] = {
    # of each cell, as far as it is held: what means weigh by
    "seen_ms_of_cell": lambda f: np.where(
        f.lanes.held, np.nan_to_num(f.lanes.figures[of_cell.SEEN_MS]), 0.0
    ),
    "held_ms_of_cell": lambda f: np.where(f.lanes.held, f.lanes.held_ms, 0.0),
    "seen_ms": lambda f: f.sum(f["seen_ms_of_cell"]),
    "held_ms": lambda f: f.sum(f["held_ms_of_cell"]),
    "observed_s": lambda f: f["seen_ms"] / 1000,
    "coverage": _coverage,
    # share of each cell's held time that the ledger calls so
    "wasted_of_cell": lambda f: np.sum([f.lanes.states[state] for state in WASTED_STATES], axis=0),
    "dips_per_min": _per_minute("dips"),
    # how unevenly dips spread over windows
    "dips_cv": lambda f: _variation(*(f.sum(f.lanes.figures[name]) for name in of_cell.DIPS)),
    "memory_drops_per_min": _per_minute(of_cell.MEMORY_DROPS),
    "memory_errors": lambda f: f.counted(of_cell.MEMORY_ERRORS),
    "pr": _power_ratio("power_w"),
    "pr_max": _most_power,
    "mem": _memory_ratio("memory"),
    "mem_max": _memory_ratio("memory_max"),
    "nvl": lambda f: f["nvl_rx"] + f["nvl_tx"],
    # share of the time in which it waits: pauses shorter than a sample read as a lower mean
    "waits": lambda f: np.fmax(f["lo"], 1.0 - f["util"]),
    "lead_s_of_cell": _lead_s,
    "intervals": _intervals,
    "interval_s": _interval_sum(1, pauses.INTERVALS),
    "interval_s2": _interval_sum(2, pauses.INTERVALS_SQUARED),
    # long pauses: how many began, their share of the observed time, from onset to onset
    "long_n": lambda f: f.counted(pauses.ONSETS),
    "long_frac": lambda f: ratio(f.counted(pauses.LOW_S), f["observed_s"]),
    "long_per_s": lambda f: ratio(f["interval_s"], f["intervals"]),
    "long_cv": lambda f: _variation(f["interval_s"], f["interval_s2"], f["intervals"]),
    "corr": _correlation,
    "quiet_s": _quiet_s,
    "memory_at_end": _memory_at_end,
    "job_gpus": lambda f: f.in_job(f.lanes.held),
    "job_util_peak": _job_peak("util_mean"),
    "job_minute_peak": _job_peak(of_cell.BUSIEST_MINUTE),
}


def _of_job(lanes: Lanes, values: Floats, over: Callable[[Floats], Floats]) -> Floats:
    """Over the job's lanes that hold a GPU at that cell and of which it was read; NaN
    without any.
    """
    return _over_rows(lanes, np.where(lanes.held, values, np.nan), over)


def _over_rows(lanes: Lanes, values: Floats, over: Callable[[Floats], Floats]) -> Floats:
    """What `over` makes of a job's rows, for each of them."""
    of_job = np.empty(values.shape)
    for rows in lanes.of_jobs:
        of_job[rows] = over(values[rows])[:, None]
    return of_job


def _median(values: Floats) -> Floats:
    """Of jobs x rows x cells over the rows: of what is read.

    (np.nanmedian of many small arrays is twenty times slower.)
    """
    if values.shape[1] == 1:
        return values[:, 0]
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = (~np.isnan(values)).sum(axis=1, keepdims=True)
    # none read: both places are the first, which is NaN then
    low, high = (
        np.take_along_axis(ordered, place, axis=1)
        for place in (np.maximum(count - 1, 0) // 2, count // 2)
    )
    median: Floats = (low + high)[:, 0] / 2
    return median


def _mad(values: Floats) -> Floats:
    """Median absolute deviation from the median."""
    return _median(np.abs(values - _median(values)[:, None]))


_OVER: dict[str, Callable[[Floats], Floats]] = {
    "median": _median,
    "mad": _mad,
    "min": partial(np.fmin.reduce, axis=1),
    "max": partial(np.fmax.reduce, axis=1),
}
