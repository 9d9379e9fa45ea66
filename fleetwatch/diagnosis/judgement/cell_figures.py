"""Five-minute figures of a node's GPUs, from its windows and host samples. Pure numpy.

What detectors judge are longer windows made of these cells: means weigh by what was
observed, sums add up, so that a cell is computed once however often it is looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from fleetwatch.diagnosis.judgement import pauses
from fleetwatch.diagnosis.judgement.array_tools import ratio, starts
from fleetwatch.diagnosis.judgement.pauses import NOTHING, Before
from fleetwatch.diagnosis.judgement.window_places import Grid, Places
from fleetwatch.ledger.judgement.activity import ENGINES as ENGINE_COLUMNS
from fleetwatch.ledger.judgement.activity import busiest_engine
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Columns, Floats, Ints, Windows
from fleetwatch.lib.intervals import MINUTE_MS

# Means over the observed time in which the column was read; the names are the wire's
# (docs/wire.md).
MEANS = (
    "util_mean", "util_low_fraction", "util_high_fraction", "util_p5", "util_cycle_s",
    "util_cycle_cv", "spin_fraction", "memory_used_bytes", "power_w", "sm_active", "tensor_active",
    "dram_active", "fp64_active", "fp32_active", "pcie_rx_bytes_s", "nvlink_rx_bytes_s",
    "nvlink_tx_bytes_s", "throttle_thermal_ratio", "job_cpu_ratio", "job_main_thread_ratio",
    "job_cores",
)  # fmt: skip
MAXIMA = ("util_max", "memory_used_bytes", "power_max_w", "pcie_tx_bytes_s", "process_count")
# sums over windows: how often it dipped, and how evenly
DIPS = ("dips", "dips_squared", "dips_windows")
# Of the node: every GPU of it has the same.
HOST_MEANS = ("io_psi_ratio", "disk_write_bytes_s", "nic_rx_bytes_s")
# What else a cell has, beside `host_` + HOST_MEANS and `<column>_max`.
SEEN_MS = "seen_ms"  # observed milliseconds; 0 where nothing was
CLOCK_RATIO = "clock_ratio"  # SM clock by its maximum, while utilisation is above BUSY
WINDOW_LOW = "window_low_ratio"  # share of time in windows whose mean utilisation is below LOW
# falls of used memory by MEMORY_DROP of the GPU's from one window to the next
MEMORY_DROPS = "memory_drops"
# the largest mean utilisation of a minute, by the windows that start in it
BUSIEST_MINUTE = "util_busiest_minute"
ENGINES = "engine_ratio"  # share of time of the busiest engine beside the compute units
MEMORY_ERRORS = "memory_errors"  # uncorrected ones that were counted from one window to the next
# sums that make the correlation with the job's other GPUs
PEERS = ("peer_n", "peer_x", "peer_m", "peer_xx", "peer_mm", "peer_xm")

# Every figure of a cell, as hours are packed by them (packing.py): one that goes is another format.
NAMES = (
    SEEN_MS, CLOCK_RATIO, WINDOW_LOW, MEMORY_DROPS, MEMORY_ERRORS, BUSIEST_MINUTE, ENGINES,
    *MEANS, *DIPS, *PEERS, *pauses.FIGURES,
    *(f"{name}_max" for name in MAXIMA), *(f"host_{name}" for name in HOST_MEANS),
)  # fmt: skip

BUSY = 0.5  # utilisation from which a clock says something of the work
MEMORY_DROP = 0.2  # of the GPU's memory (domain: allocation sawtooth)


class HostSamples(Protocol):
    """Host samples sorted by start (telemetry.frames.HostFrame is one); NaN = not read."""

    @property
    def start_ms(self) -> Ints: ...
    @property
    def columns(self) -> Mapping[str, Floats]: ...


COLUMNS = tuple(
    dict.fromkeys(
        [
            *MEANS,
            *MAXIMA,
            *pauses.COLUMNS,
            *ENGINE_COLUMNS,
            "sm_clock_hz",
            "sm_clock_max_hz",
            "ecc_uncorrected",
        ]
    )
)


def cells(
    windows: Windows, hosts: Sequence[HostSamples], grid: Grid, before: Before = NOTHING
) -> dict[str, Floats]:
    """Figures of the grid's GPUs and cells, NaN = not read there; windows, those of a GPU together
    and by start, count where they start.

    Windows before the first cell only tell what goes on, and `before` how long the pause of one of
    them was.
    """
    at = Places.of(windows, grid)
    unread = np.full(grid.holders.shape, np.nan)
    return {
        **dict.fromkeys(MEANS, unread),
        SEEN_MS: np.nan_to_num(at.total(windows.observed_ms.astype(np.float64))),
        **at.means(_shares(windows), windows.observed_ms),
        **{f"{name}_max": at.largest(_column(windows, name)) for name in MAXIMA},
        **{name: at.total(values) for name, values in _counts(windows, at).items()},
        BUSIEST_MINUTE: _busiest_minute(windows, at),
        **_pauses(windows, at, before),
        **{f"host_{name}": _host_means(hosts, name, grid) for name in HOST_MEANS},
    }


def _shares(windows: Windows) -> dict[str, Floats]:
    """What is averaged, per window."""
    return {name: windows.columns[name] for name in MEANS if name in windows.columns} | {
        CLOCK_RATIO: _clock_ratio(windows),
        WINDOW_LOW: _is_low(windows),
        ENGINES: busiest_engine(Columns(windows)),
    }


def _counts(windows: Windows, at: Places) -> dict[str, Floats]:
    """What is summed, per window."""
    return {
        MEMORY_DROPS: _memory_drops(windows, at),
        # 0 where it fell: it began anew
        MEMORY_ERRORS: np.maximum(_changes(windows, "ecc_uncorrected"), 0.0),
        **_dips(windows),
        **_peers(windows, at),
    }


def _pauses(windows: Windows, at: Places, before: Before) -> dict[str, Floats]:
    """pauses.FIGURES; moments as seconds since their cell began: small numbers stay exact when they
    are packed.
    """
    figures = pauses.of(windows, at, before)
    cell_starts_s = (at.grid.start_ms + np.arange(at.grid.count) * CELL_MS) / 1000
    for name in (pauses.FIRST_ONSET, pauses.LAST_ONSET, pauses.LAST_START):
        figures[name] = figures[name] - cell_starts_s
    return figures


def _column(windows: Windows, name: str) -> Floats:
    return Columns(windows)[name]


def _dips(windows: Windows) -> dict[str, Floats]:
    dips = _column(windows, "util_dips")
    return dict(zip(DIPS, (dips, dips * dips, dips * 0 + 1), strict=True))


def _clock_ratio(windows: Windows) -> Floats:
    clock = ratio(_column(windows, "sm_clock_hz"), _column(windows, "sm_clock_max_hz"))
    return np.where(_column(windows, "util_mean") > BUSY, clock, np.nan)


def _is_low(windows: Windows) -> Floats:
    util = _column(windows, "util_mean")
    return np.where(np.isnan(util), np.nan, util < pauses.LOW)


def _busiest_minute(windows: Windows, at: Places) -> Floats:
    """Windows lie by GPU and start: those of a minute together."""
    util = _column(windows, "util_mean")
    rows = at.rows[~np.isnan(util[at.rows])]
    place = at.of_window[rows]
    minute = place * CELL_MS + windows.start_ms[rows] % CELL_MS // MINUTE_MS
    minutes = starts(minute)
    means = _means_from(minutes, util[rows], windows.observed_ms[rows])
    place = place[minutes]
    firsts = starts(place)
    busiest = np.full(at.size, np.nan)
    busiest[place[firsts]] = np.maximum.reduceat(means, firsts)
    return at.shaped(busiest)


def _means_from(first: Ints, values: Floats, weight: Ints) -> Floats:
    """The mean by weight from each of the places up to the next."""
    by = weight.astype(np.float64)
    means: Floats = np.add.reduceat(values * by, first) / np.add.reduceat(by, first)
    return means


def _changes(windows: Windows, name: str) -> Floats:
    """By how much it rose since the GPU's window before; NaN where either was not read."""
    change = np.diff(_column(windows, name), prepend=np.nan)
    change[np.diff(windows.gpu_id, prepend=-1) != 0] = np.nan
    return change


def _memory_drops(windows: Windows, at: Places) -> Floats:
    total = np.append(at.grid.memory_bytes, np.nan)[at.gpu]
    is_drop = -_changes(windows, "memory_used_bytes") >= MEMORY_DROP * total
    is_read = ~np.isnan(_column(windows, "memory_used_bytes")) & ~np.isnan(total)
    return np.where(is_read, is_drop, np.nan)


def _peers(windows: Windows, at: Places) -> dict[str, Floats]:
    """Per window what sums to the correlation of its utilisation with the mean of its job's other
    GPUs at that start.
    """
    util = _column(windows, "util_mean")
    job = np.append(at.grid.holders, 0)[at.of_window]  # 0 of what has no place
    others = np.full(len(util), np.nan)
    rows = np.flatnonzero((job > 0) & ~np.isnan(util))
    if len(rows):
        moment = job[rows] << _MOMENT_BITS | _seconds(windows.start_ms[rows])
        others[rows] = _means_of_others(moment, util[rows])
    x = np.where(np.isnan(others), np.nan, util)
    count = x * 0 + 1
    return dict(zip(PEERS, (count, x, others, x * x, others * others, x * others), strict=True))


def _means_of_others(key: Ints, values: Floats) -> Floats:
    """Of each value the mean of all others of its key; NaN without any."""
    _, place = np.unique(key, return_inverse=True)
    others = np.bincount(place)[place] - 1
    return ratio(np.bincount(place, weights=values)[place] - values, others)


_MOMENT_BITS = 20  # seconds of twelve days


def _seconds(start_ms: Ints) -> Ints:
    seconds: Ints = (start_ms - start_ms.min()) // 1000
    return seconds


def _host_means(hosts: Sequence[HostSamples], name: str, grid: Grid) -> Floats:
    """Means of the nodes' samples, by the cell in which they start; the same for all GPUs of a
    node.
    """
    means = [_host_mean(host.start_ms, host.columns.get(name), grid) for host in hosts]
    return np.array(means).reshape(-1, grid.count)[grid.host_of]


def _host_mean(start_ms: Ints, values: Floats | None, grid: Grid) -> Floats:
    if values is None:
        return np.full(grid.count, np.nan)
    cell = (start_ms - grid.start_ms) // CELL_MS
    use = (cell >= 0) & (cell < grid.count) & ~np.isnan(values)
    total = np.bincount(cell[use], weights=values[use], minlength=grid.count)
    return ratio(total, np.bincount(cell[use], minlength=grid.count))
