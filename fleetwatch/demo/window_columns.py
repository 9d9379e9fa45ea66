"""Window columns of one simulated node over a span of time, drawn in numpy. Pure.

In the order of an agent: readings at 1 Hz and samples at 6 Hz first (tracks), then windows as
agent.window makes them (utilisation's in shapes). Ranks that do the same share all of it; each GPU
adds its own board and a little noise.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.idle_watts import idle_power_w
from agent.sources.simulated.card import (
    GPM_COLUMNS,
    MEMORY_WARMER_C,
    MOMENTARY,
    RESERVED_BYTES,
    Card,
    bare,
    bare_w,
    temperature_c,
)
from agent.sources.simulated.hardware import Hardware
from agent.sources.simulated.hosting import host_columns, job_columns
from agent.sources.simulated.source import MOST_POWER, SAMPLES_PER_S, WARMING_S
from agent.window import SPIN_DRAM, SPIN_POWER_RATIO, SPIN_TENSOR, SPIN_UTIL
from fleetwatch.demo.signals import Part, Span, Track, mean
from fleetwatch.demo.utilisation import Floats, Percents, utilisation

JOB_COLUMNS = (
    "job_cpu_ratio",
    "job_main_thread_ratio",
    "job_io_read_bytes_s",
    "job_cores",
    "job_workers",
    "job_memory_bytes",
)
NOISE = 0.01  # of one GPU's window, beside what its job's ranks share
LIVELY = (
    "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active",
    "fp16_active", "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s",
)  # fmt: skip
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Rank:
    """A GPU's place in a part of a job."""

    track: Track
    role: str


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The wire's columns of a node's windows, in order of time; NaN: not read."""

    gpus: list[Columns]
    host: Columns


def draw(cards: Sequence[Card], parts: Sequence[Part], span: Span, *, seed: int) -> NodeColumns:
    """What the windows of the span show of the cards of one node, in their order, and of their
    host.
    """
    tracks = [track for track in (Track(part, span) for part in parts) if track.count]
    groups: dict[tuple[Rank, ...], Columns] = {}
    gpus = []
    for card in cards:
        ranks = _ranks(tracks, card.index)
        if ranks not in groups:
            groups[ranks] = _group(card.hardware, ranks, span)
        rng = np.random.default_rng([seed, card.index, span.start_s])
        gpus.append(_own(groups[ranks], card, ranks, span, rng))
    guests = [track.guest for track in tracks]
    host = host_columns(guests, gpus=len(cards), nothing=np.zeros(span.windows))
    return NodeColumns(gpus, host)


def _ranks(tracks: Sequence[Track], gpu: int) -> tuple[Rank, ...]:
    return tuple(
        Rank(track, track.signal.role(gpu)) for track in tracks if gpu in track.signal.job.gpus
    )


def _group(hardware: Hardware, ranks: Sequence[Rank], span: Span) -> Columns:
    """What a usual board of that model shows with these ranks on it."""
    read = _readings(hardware, ranks, span)
    percents = _percents(ranks, span)
    util = percents.reshape(-1, SAMPLES_PER_S) @ np.full(SAMPLES_PER_S, 0.01 / SAMPLES_PER_S)
    samples = percents[2 * SAMPLES_PER_S :].reshape(span.windows, -1)
    return {
        **{name: mean(span.back(read[name])) for name in read if name not in MOMENTARY},
        **utilisation(samples, util[: -2 : span.window_s]),
        **_momentary(hardware, read, span),
        **_unchanging(hardware, span),
        "spin_fraction": _spin_fraction(hardware, read, util, span),
        **_job_columns(ranks, span),
    }


def _momentary(hardware: Hardware, read: Columns, span: Span) -> Columns:
    """What the driver tells of a moment, by window."""
    power_w = span.held(read["power_w"])
    columns = {
        "memory_used_bytes": np.rint(mean(span.held(read["memory_used_bytes"]))),
        "power_w": mean(power_w),
        "power_min_w": power_w.min(axis=1),
        "power_max_w": power_w.max(axis=1),
        "energy_j": mean(span.back(read["power_w"])) * span.window_s,
        "sm_clock_hz": mean(span.held(read["sm_clock_hz"])),
        "process_count": span.back(read["process_count"])[:, -1],
    }
    if hardware.has_gpm:
        columns["sm_active_max"] = span.back(read["sm_active"]).max(axis=1)
        columns["memory_util_mean"] = mean(span.held(read["dram_active"]))
    return columns


def _unchanging(hardware: Hardware, span: Span) -> Columns:
    values = {
        "memory_reserved_bytes": float(RESERVED_BYTES),
        "sm_clock_max_hz": hardware.clock_max_hz,
        "ecc_uncorrected": 0.0,
    }
    return {name: np.full(span.windows, value) for name, value in values.items()}


def _readings(hardware: Hardware, ranks: Sequence[Rank], span: Span) -> Columns:
    """Each reading of the span, by name: a bare board, and what each rank adds to it up to what the
    board has.
    """
    nothing = bare(hardware)
    columns = {name: np.full(span.readings, value) for name, value in nothing.items()}
    for rank in ranks:
        for name, values in rank.track.shown(hardware, rank.role).items():
            columns[name][rank.track.places] += values - nothing[name]
    most = {
        "power_w": MOST_POWER * hardware.power_limit_w,
        "sm_clock_hz": hardware.clock_max_hz,
        "memory_used_bytes": hardware.memory_total_bytes - RESERVED_BYTES,
        **dict.fromkeys((*GPM_COLUMNS, "throttle_thermal_ratio", "throttle_power_ratio"), 1.0),
    }
    return {name: np.minimum(values, most.get(name, np.inf)) for name, values in columns.items()}


def _percents(ranks: Sequence[Rank], span: Span) -> Percents:
    """Utilisation in whole percent of each sample, as many as belong to the span's readings."""
    # of several jobs on one GPU none works at this moment
    resting = np.ones(span.readings * SAMPLES_PER_S)
    for rank in ranks:
        at = slice(rank.track.places.start * SAMPLES_PER_S, rank.track.places.stop * SAMPLES_PER_S)
        resting[at] *= 1.0 - rank.track.utilisation(rank.role)
    return np.rint((1.0 - resting) * 100).astype(np.uint8)


def _spin_fraction(hardware: Hardware, read: Columns, util: Floats, span: Span) -> Floats:
    """Share of each window's readings in which the GPU only waits in a kernel: the agent's rule."""
    idle_w = idle_power_w(hardware.driver_name)
    if idle_w is None:
        return np.full(span.windows, np.nan)
    ceiling_w = idle_w + SPIN_POWER_RATIO * (hardware.power_limit_w - idle_w)
    spins = (util >= SPIN_UTIL - 1e-9) & (read["power_w"] <= ceiling_w)
    if hardware.has_gpm:
        spins &= (read["tensor_active"] < SPIN_TENSOR) & (read["dram_active"] < SPIN_DRAM)
    return mean(span.held(spins.astype(np.float64)))


def _job_columns(ranks: Sequence[Rank], span: Span) -> Columns:
    """What the holder does with the node's processors and disks, by window; NaN where nobody holds
    the GPU.
    """
    totals = dict.fromkeys(JOB_COLUMNS, np.zeros(span.windows))
    here = np.zeros(span.windows)
    for rank in ranks:
        if rank.track.signal.job.archetype.is_allocated:
            guest = rank.track.guest
            columns = job_columns(guest, rank.role)
            totals = {name: totals[name] + columns[name] for name in JOB_COLUMNS}
            here = here + sum(guest.shares)
    held = np.where(here > 0.5, here, np.nan)
    return {name: values / held for name, values in totals.items()}


def _own(
    shared: Columns, card: Card, ranks: Sequence[Rank], span: Span, rng: np.random.Generator
) -> Columns:
    """One GPU's columns: its own board, its rank's part of the work, and noise."""
    factor = np.ones(span.windows)
    for rank in ranks:
        factor += rank.track.here * (rank.track.signal.factor(card.index) - 1.0)
    lively = factor * _noise(rng, span.windows)
    own = shared | _own_work(shared, lively) | _own_power(shared, card, lively, span)
    own["temperature_c"] = _temperature_c(card.hardware, ranks, own["power_w"], span.window_s)
    own["memory_temperature_c"] = own["temperature_c"] + MEMORY_WARMER_C
    for name in ("job_cpu_ratio", "job_main_thread_ratio"):
        own[name] = np.minimum(own[name] * _noise(rng, span.windows), 1.0)
    return own


def _own_work(shared: Columns, lively: Floats) -> Columns:
    return {
        name: np.minimum(shared[name] * lively, 1.0 if name in GPM_COLUMNS else np.inf)
        for name in LIVELY
        if name in shared
    }


def _own_power(shared: Columns, card: Card, lively: Floats, span: Span) -> Columns:
    """Watts and joules of this board, which differs from a usual one."""
    offset_w = card.idle_w - bare_w(card.hardware)
    most_w = MOST_POWER * card.hardware.power_limit_w
    seconds = {"power_w": 1, "power_min_w": 1, "power_max_w": 1, "energy_j": span.window_s}
    return {
        name: np.minimum(shared[name] * lively + offset_w * scale, most_w * scale)
        for name, scale in seconds.items()
    }


def _temperature_c(
    hardware: Hardware, ranks: Sequence[Rank], power_w: Floats, window_s: int
) -> Floats:
    """First-order lag towards what fits each window's power; a throttled job has its own."""
    part = 1.0 - float(np.exp(-window_s / WARMING_S))
    lagging = itertools.accumulate(
        temperature_c(hardware, power_w).tolist(),
        lambda before_c, aim_c: before_c + part * (aim_c - before_c),
    )
    celsius = np.array(list(lagging))
    for rank in ranks:
        celsius = np.where(np.isnan(rank.track.hot_c), celsius, rank.track.hot_c)
    return celsius


def _noise(rng: np.random.Generator, count: int) -> Floats:
    return 1.0 + NOISE * rng.uniform(-1.0, 1.0, count)
