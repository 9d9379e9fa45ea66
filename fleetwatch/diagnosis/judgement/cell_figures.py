"""Five-minute figures of a node's GPUs, from its windows and host samples. Pure numpy.

What detectors judge are longer windows made of these cells: means weigh by what was
observed, sums add up, so that a cell is computed once however often it is looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fleetwatch.diagnosis.judgement import pauses
from fleetwatch.ledger.judgement.activity import ENGINES as ENGINE_COLUMNS
from fleetwatch.ledger.judgement.activity import busiest_engine
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.ledger.judgement.observations import Columns, Floats, Ints, Windows

# Means over the observed time in which the column was read; the names are the wire's
# (docs/wire.md).
MEANS = (
    "util_mean", "util_low_fraction", "util_high_fraction", "util_p5", "util_cycle_s",
    "util_cycle_cv", "spin_fraction",
    "memory_used_bytes", "power_w", "sm_active", "tensor_active", "dram_active", "fp64_active",
    "fp32_active",
    "pcie_rx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s", "throttle_thermal_ratio",
    "job_cpu_ratio", "job_main_thread_ratio", "job_cores",
)  # fmt: skip
MAXIMA = ("util_max", "memory_used_bytes", "power_max_w", "pcie_tx_bytes_s", "process_count")
DIPS_WINDOWS = "dips_windows"
# sums over windows: how often it dipped, and how evenly
DIPS = ("dips", "dips_squared", DIPS_WINDOWS)
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

BUSY = 0.5  # utilisation from which a clock says something of the work
MEMORY_DROP = 0.2  # of the GPU's memory (domain: allocation sawtooth)


class HostSamples(Protocol):
    """Host samples sorted by start (telemetry.frames.HostFrame is one); NaN = not read."""

    @property
    def start_ms(self) -> Ints: ...
    @property
    def columns(self) -> Mapping[str, Floats]: ...


@dataclass(frozen=True, slots=True)
class Cells:
    """Figures of GPUs x cells from `start_ms` (on a five-minute boundary, UTC) on; NaN = not read
    there.
    """

    gpu_ids: Ints
    start_ms: int
    figures: Mapping[str, Floats]

    @property
    def count(self) -> int:
        """Cells per GPU."""
        return int(self.figures[SEEN_MS].shape[1])


MINUTE_MS = 60_000
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
    windows: Windows,
    hosts: Sequence[HostSamples],
    *,
    gpu_ids: Sequence[int],
    host_of: Ints,
    start_ms: int,
    count: int,
    memory_bytes: Mapping[int, float | None],
    holders: Ints,
    before: pauses.Before = pauses.NOTHING,
) -> Cells:
    """Figures of these GPUs in `count` cells from `start_ms` on; windows, those of a GPU together
    and by start, count where they start.

    Windows before start_ms only tell what goes on, and `before` how long the pause of one of them
    was. `host_of` is the place of each GPU's node in `hosts`. `memory_bytes` is each GPU's total,
    None = not known. `holders` is who holds each GPU and cell, 0 = nobody: GPUs that one holds
    together are peers.
    """
    at = _Places.of(windows, gpu_ids=gpu_ids, start_ms=start_ms, count=count)
    figures: dict[str, Floats] = {SEEN_MS: at.total(windows.observed_ms.astype(np.float64))}
    figures |= at.means(
        {name: windows.columns[name] for name in MEANS if name in windows.columns},
        windows.observed_ms,
    )
    figures |= {f"{name}_max": at.largest(_column(windows, name)) for name in MAXIMA}
    figures |= {name: at.total_read(values) for name, values in _dips(windows).items()}
    shares = {
        CLOCK_RATIO: _clock_ratio(windows),
        WINDOW_LOW: _is_low(windows),
        ENGINES: busiest_engine(Columns(windows)),
    }
    figures |= at.means(shares, windows.observed_ms)
    figures[MEMORY_DROPS] = at.total_read(_memory_drops(windows, memory_bytes))
    figures[MEMORY_ERRORS] = at.total_read(_rises(windows, "ecc_uncorrected"))
    figures[BUSIEST_MINUTE] = _busiest_minute(windows, at)
    figures |= _pauses(windows, at, before, start_ms=start_ms)
    figures |= {
        name: at.total_read(values) for name, values in _peers(windows, at, holders).items()
    }
    figures |= _host_figures(hosts, host_of, start_ms=start_ms, count=count)
    unread = np.full((len(gpu_ids), count), np.nan)
    figures |= {name: unread for name in MEANS if name not in figures}
    return Cells(np.asarray(gpu_ids, dtype=np.int64), start_ms, figures)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where each window's figures go: position of (GPU, cell) in a flat array, -1 = nowhere."""

    place_of_window: Ints
    began: Ints  # the same, also of windows in which nothing was observed
    shape: tuple[int, int]
    rows: Ints  # the windows that have a place, by place
    starts: Ints  # of each place's first window within `rows`
    found: Ints  # the places that have windows, ascending

    @classmethod
    def of(
        cls, windows: Windows, *, gpu_ids: Sequence[int], start_ms: int, count: int
    ) -> "_Places":
        order = np.argsort(np.asarray(gpu_ids, dtype=np.int64))
        known = np.asarray(gpu_ids, dtype=np.int64)[order]
        if len(known) == 0:
            none = np.zeros(0, dtype=np.int64)
            nowhere = np.full(len(windows.gpu_id), -1, dtype=np.int64)
            return cls(nowhere, nowhere, (0, count), none, none, none)
        nearest = np.minimum(np.searchsorted(known, windows.gpu_id), len(known) - 1)
        cell = (windows.start_ms - start_ms) // CELL_MS
        began = np.where(
            (known[nearest] == windows.gpu_id) & (cell >= 0) & (cell < count),
            order[nearest] * count + cell,
            -1,
        )
        inside = (began >= 0) & (windows.observed_ms > 0)
        place = np.where(inside, began, -1)
        rows = np.flatnonzero(inside)
        rows = rows[np.argsort(place[rows], kind="stable")]
        is_first = np.diff(place[rows], prepend=-1) != 0
        return cls(
            place, began, (len(known), count), rows, np.flatnonzero(is_first), place[rows][is_first]
        )

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def place(self, values: Floats) -> Floats:
        """A flat array of all places as GPUs x cells."""
        return values.reshape(self.shape)

    def means(self, columns: Mapping[str, Floats], weight: Ints) -> dict[str, Floats]:
        """Per column the mean by weight over the windows in which it was read."""
        by = weight[self.rows].astype(np.float64)
        whole = np.add.reduceat(by, self.starts) if len(by) else by
        return {
            name: self._spread(self._mean(column[self.rows], by, whole))
            for name, column in columns.items()
        }

    def _mean(self, values: Floats, by: Floats, whole: Floats) -> Floats:
        """`whole`: the weights' sums, which hold where every window was read: nearly everywhere."""
        if len(values) == 0:
            return values
        weighted = values * by
        mean = np.add.reduceat(weighted, self.starts) / whole
        if not np.isnan(mean).any():
            return mean
        is_read = ~np.isnan(values)
        sums = np.add.reduceat(np.where(is_read, weighted, 0.0), self.starts)
        total = np.add.reduceat(np.where(is_read, by, 0.0), self.starts)
        known: Floats = np.divide(sums, total, out=np.full(len(sums), np.nan), where=total > 0)
        return known

    def total(self, values: Floats) -> Floats:
        """Sums per place; 0 where no window is."""
        flat = np.zeros(self.size)
        if len(self.rows):
            flat[self.found] = np.add.reduceat(values[self.rows], self.starts)
        return flat.reshape(self.shape)

    def total_read(self, values: Floats) -> Floats:
        """Sums per place of what was read; NaN where nothing was."""
        if len(self.rows) == 0:
            return self._spread(np.zeros(0))
        here = values[self.rows]
        is_read = ~np.isnan(here)
        sums = np.add.reduceat(np.where(is_read, here, 0.0), self.starts)
        return self._spread(np.where(np.add.reduceat(is_read, self.starts) > 0, sums, np.nan))

    def largest(self, values: Floats) -> Floats:
        """Largest value read per place; NaN where none was: np.fmax passes NaN over."""
        if len(self.rows) == 0:
            return self._spread(np.zeros(0))
        return self._spread(np.fmax.reduceat(values[self.rows], self.starts))

    def _spread(self, values: Floats) -> Floats:
        flat = np.full(self.size, np.nan)
        flat[self.found] = values
        return flat.reshape(self.shape)


def _pauses(
    windows: Windows, at: _Places, before: pauses.Before, *, start_ms: int
) -> dict[str, Floats]:
    """pauses.FIGURES; moments as seconds since their cell began: small numbers stay exact when they
    are packed.
    """
    found = pauses.of(windows, at.place_of_window, at.size, began=at.began, before=before)
    figures = {name: at.place(values) for name, values in found.items()}
    cell_starts_s = (start_ms + np.arange(at.shape[1]) * CELL_MS) / 1000
    return figures | {
        name: figures[name] - cell_starts_s
        for name in (pauses.FIRST_ONSET, pauses.LAST_ONSET, pauses.LAST_START)
    }


def _column(windows: Windows, name: str) -> Floats:
    found = windows.columns.get(name)
    return np.full(len(windows.gpu_id), np.nan) if found is None else found


def _dips(windows: Windows) -> dict[str, Floats]:
    dips = _column(windows, "util_dips")
    return dict(zip(DIPS, (dips, dips * dips, np.where(np.isnan(dips), np.nan, 1.0)), strict=True))


def _clock_ratio(windows: Windows) -> Floats:
    ceiling = _column(windows, "sm_clock_max_hz")
    ratio = np.divide(
        _column(windows, "sm_clock_hz"),
        ceiling,
        out=np.full(len(ceiling), np.nan),
        where=ceiling > 0,
    )
    return np.where(_column(windows, "util_mean") > BUSY, ratio, np.nan)


def _is_low(windows: Windows) -> Floats:
    util = _column(windows, "util_mean")
    return np.where(np.isnan(util), np.nan, (util < pauses.LOW).astype(np.float64))


def _busiest_minute(windows: Windows, at: _Places) -> Floats:
    """Windows lie by GPU and start: those of a minute together."""
    rows = at.rows[~np.isnan(_column(windows, "util_mean")[at.rows])]
    found = np.full(at.size, np.nan)
    if len(rows):
        place, minute = at.place_of_window[rows], windows.start_ms[rows] // MINUTE_MS
        starts = np.flatnonzero(
            (np.diff(place, prepend=-1) != 0) | (np.diff(minute, prepend=-1) != 0)
        )
        weight = windows.observed_ms[rows].astype(np.float64)
        means = np.add.reduceat(
            _column(windows, "util_mean")[rows] * weight, starts
        ) / np.add.reduceat(weight, starts)
        is_first = np.flatnonzero(np.diff(place[starts], prepend=-1) != 0)
        found[place[starts][is_first]] = np.maximum.reduceat(means, is_first)
    return at.place(found)


def _rises(windows: Windows, name: str) -> Floats:
    """By how much a counter rose since the GPU's window before, 0 where it fell (it began anew);
    NaN where either was not read.
    """
    values = _column(windows, name)
    if len(values) == 0:
        return values
    rise: Floats = np.concatenate([[np.nan], np.diff(values)])
    rise[np.concatenate([[True], windows.gpu_id[1:] != windows.gpu_id[:-1]])] = np.nan
    rise[rise < 0] = 0.0
    return rise


def _memory_drops(windows: Windows, memory_bytes: Mapping[int, float | None]) -> Floats:
    used = _column(windows, "memory_used_bytes")
    if len(used) == 0:
        return used
    ids, rows = np.unique(windows.gpu_id, return_inverse=True)
    total = np.array([memory_bytes.get(int(gpu)) or np.nan for gpu in ids], dtype=np.float64)[rows]
    fall = np.concatenate([[np.nan], used[:-1] - used[1:]])
    fall[np.concatenate([[True], windows.gpu_id[1:] != windows.gpu_id[:-1]])] = np.nan
    return np.where(
        np.isnan(used) | np.isnan(total), np.nan, np.where(fall >= MEMORY_DROP * total, 1.0, 0.0)
    )


def _peers(windows: Windows, at: _Places, holders: Ints) -> dict[str, Floats]:
    """Per window what sums to the correlation of its utilisation with the mean of its job's other
    GPUs at that start.
    """
    util = _column(windows, "util_mean")
    job = (
        np.where(at.place_of_window >= 0, holders.ravel()[at.place_of_window], 0)
        if holders.size
        else np.zeros(len(util), dtype=np.int64)
    )
    rows = np.flatnonzero((job > 0) & ~np.isnan(util))
    others = np.full(len(util), np.nan)
    if len(rows):
        _, moment = np.unique(
            (job[rows] << _MOMENT_BITS) | _seconds(windows.start_ms[rows]), return_inverse=True
        )
        members, total = (
            np.bincount(moment)[moment],
            np.bincount(moment, weights=util[rows])[moment],
        )
        has_others = members > 1
        others[rows[has_others]] = (total - util[rows])[has_others] / (members - 1)[has_others]
    x = np.where(np.isnan(others), np.nan, util)
    count = np.where(np.isnan(others), np.nan, 1.0)
    return dict(zip(PEERS, (count, x, others, x * x, others * others, x * others), strict=True))


_MOMENT_BITS = 20  # seconds of twelve days


def _seconds(start_ms: Ints) -> Ints:
    seconds: Ints = (start_ms - start_ms.min()) // 1000
    return seconds


def _host_figures(
    hosts: Sequence[HostSamples], host_of: Ints, *, start_ms: int, count: int
) -> dict[str, Floats]:
    """Means of the nodes' samples, by the cell in which they start; the same for all GPUs of a
    node.
    """
    figures = {}
    for name in HOST_MEANS:
        means = [_host_means(host, name, start_ms=start_ms, count=count) for host in hosts]
        figures[f"host_{name}"] = np.array(means).reshape(-1, count)[host_of]
    return figures


def _host_means(host: HostSamples, name: str, *, start_ms: int, count: int) -> Floats:
    mean = np.full(count, np.nan)
    values = host.columns.get(name)
    if values is not None:
        cell = (host.start_ms - start_ms) // CELL_MS
        use = (cell >= 0) & (cell < count) & ~np.isnan(values)
        number = np.bincount(cell[use], minlength=count)
        np.divide(
            np.bincount(cell[use], weights=values[use], minlength=count),
            number,
            out=mean,
            where=number > 0,
        )
    return mean
