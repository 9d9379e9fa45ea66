"""Window columns of one simulated node over a span of time, drawn in numpy. Pure.

In the order of an agent: samples at 6 Hz and readings at 1 Hz first (tracks), then windows as
agent.window makes them (shapes). Ranks that do the same share all of it; each GPU adds its own
board and a little noise.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agent.idle_watts import idle_power_w
from agent.sources.simulated.card import (
    CONTEXT_BYTES,
    GPM_COLUMNS,
    MEMORY_WARMER_C,
    RESERVED_BYTES,
    Card,
    bare_w,
    capped_share,
    clock_hz,
    level_w,
    means,
    memory_bytes,
    mixed,
    temperature_c,
)
from agent.sources.simulated.hardware import Hardware
from agent.sources.simulated.hosting import Guest, host_columns, job_columns
from agent.sources.simulated.signal import hot_c, throttled
from agent.sources.simulated.source import MOST_POWER, SAMPLES_PER_S, STEADY_MEANS, WARMING_S
from agent.sources.simulated.traits import IDLE, NO_WORK
from agent.window import SPIN_DRAM, SPIN_POWER_RATIO, SPIN_TENSOR, SPIN_UTIL
from fleetwatch.demo.shapes import Floats, utilisation
from fleetwatch.demo.tracks import Part, Span, Track, held_means, window_means

JOB_COLUMNS = (
    "job_cpu_ratio",
    "job_main_thread_ratio",
    "job_io_read_bytes_s",
    "job_cores",
    "job_workers",
)
NOISE = 0.01  # of one GPU's window, beside what its job's ranks share
Columns = dict[str, Floats]


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


def draw(
    cards: Sequence[Card],
    parts: Sequence[Part],
    *,
    start_ms: int,
    count: int,
    window_s: int,
    seed: int,
) -> NodeColumns:
    """What `count` windows from start_ms on show of the cards of one node, in their order, and of
    their host.
    """
    span = Span(start_ms // 1000, count * window_s)
    tracks = [track for track in (Track(part, span) for part in parts) if track.count]
    told: dict[tuple[tuple[int, int, str], ...], Columns] = {}
    drawn = []
    for card in cards:
        ranks = [
            Rank(track, track.signal.role(card.index))
            for track in tracks
            if card.index in track.signal.job.gpus
        ]
        group = tuple((id(rank.track), rank.track.signal.job.number, rank.role) for rank in ranks)
        if group not in told:
            told[group] = _group(card.hardware, ranks, span, window_s)
        rng = np.random.default_rng([seed, card.index, span.start_s])
        drawn.append(_own(told[group], card, ranks, span, window_s=window_s, rng=rng))
    nothing = np.zeros(count)
    host = host_columns(
        [_guest(track, span, window_s) for track in tracks], gpus=len(cards), nothing=nothing
    )
    return NodeColumns(drawn, host)


def _guest(track: Track, span: Span, window_s: int) -> Guest:
    return Guest(
        track.signal.traits,
        tuple(_by_window(track, track.by_second, span, window_s)),
        len(track.signal.job.gpus),
    )


def _group(hardware: Hardware, ranks: Sequence[Rank], span: Span, window_s: int) -> Columns:
    """What a usual board of that model shows with these ranks on it."""
    power_w, works = _power(hardware, ranks, span)
    samples, by_second = _samples(ranks, span)
    memory, processes, clock = _held(hardware, ranks, span)
    held = power_w[1:-1].reshape(-1, window_s)
    return {
        **utilisation(samples.reshape(len(held), -1), by_second[:-2:window_s]),
        "memory_used_bytes": np.rint(held_means(memory, window_s=window_s)),
        "memory_reserved_bytes": np.full(len(held), float(RESERVED_BYTES)),
        "power_w": held.mean(axis=1),
        "power_min_w": held.min(axis=1),
        "power_max_w": held.max(axis=1),
        "energy_j": window_means(power_w, window_s=window_s) * window_s,
        "sm_clock_hz": held_means(clock, window_s=window_s),
        "sm_clock_max_hz": np.full(len(held), hardware.clock_max_hz),
        "ecc_uncorrected": np.zeros(len(held)),
        "process_count": processes[1 + window_s :: window_s],  # as the window ends
        "spin_fraction": _spinning(hardware, by_second, power_w, works, window_s),
        **_averaged(hardware, ranks, span, window_s),
        **_facts(ranks, span, window_s),
    }


def _power(hardware: Hardware, ranks: Sequence[Rank], span: Span) -> tuple[Floats, Floats]:
    """Watts by reading, and how much tensor and memory work it shows (the larger, each as part of
    what rules out spinning).
    """
    bare = bare_w(hardware)
    power_w = np.full(span.readings, bare)
    works = np.zeros(span.readings)
    for rank in ranks:
        track, at = rank.track, rank.track.places
        levels = track.signal.traits.levels_of(rank.role)
        with_context = [
            level_w(hardware, level, has_context=_has_context(rank)) for level in levels
        ]
        usual = track.mixed(with_context)
        late = track.has_process == 0
        usual[late] = (
            np.array([level_w(hardware, level, has_context=False) for level in levels])
            @ track.by_second
        )[late]
        power_w[at] += usual * track.flicker - bare
        works[at] += np.maximum(
            track.mixed([level.tensor for level in levels]) / SPIN_TENSOR,
            track.mixed([level.dram for level in levels]) / SPIN_DRAM,
        )
    return np.minimum(power_w, MOST_POWER * hardware.power_limit_w), works


def _has_context(rank: Rank) -> bool:
    """Whether the rank ever has a context on its GPU."""
    signal = rank.track.signal
    return signal.job.archetype.has_process and (
        rank.role != IDLE or signal.traits.idle_ranks_have_context
    )


def _samples(ranks: Sequence[Rank], span: Span) -> tuple[NDArray[np.uint8], Floats]:
    """Utilisation in whole percent of each sample from the span's start on, and its mean by
    reading.
    """
    # of several jobs on one GPU none works at this moment
    resting = np.ones(span.readings * SAMPLES_PER_S)
    for rank in ranks:
        at = slice(rank.track.places.start * SAMPLES_PER_S, rank.track.places.stop * SAMPLES_PER_S)
        resting[at] *= 1.0 - rank.track.utilisation(
            [level.util for level in rank.track.signal.traits.levels_of(rank.role)]
        )
    percent = np.rint((1.0 - resting) * 100).astype(np.uint8)
    return percent[2 * SAMPLES_PER_S :], percent.reshape(-1, SAMPLES_PER_S) @ np.full(
        SAMPLES_PER_S, 0.01 / SAMPLES_PER_S
    )


def _held(hardware: Hardware, ranks: Sequence[Rank], span: Span) -> tuple[Floats, Floats, Floats]:
    """Memory, number of processes and clock by reading."""
    memory, processes = np.zeros(span.readings), np.zeros(span.readings)
    clock = np.full(span.readings, hardware.clock_idle_hz)
    for rank in ranks:
        if not _has_context(rank):
            continue
        track, at = rank.track, rank.track.places
        processes[at] += track.has_process
        if rank.role == IDLE:
            memory[at] += CONTEXT_BYTES * track.has_process
        else:
            memory[at] += (
                memory_bytes(hardware, track.signal.traits.memory_share * track.filled)
                * track.has_process
            )
        ratio = track.mixed([level.clock for level in track.signal.traits.levels_of(rank.role)])
        clock[at] = np.where(
            track.has_process > 0, clock_hz(hardware, 1.0, has_context=True) * ratio, clock[at]
        )
    most = hardware.memory_total_bytes - RESERVED_BYTES
    return np.minimum(memory, most), processes, clock


def _spinning(
    hardware: Hardware, by_second: Floats, power_w: Floats, works: Floats, window_s: int
) -> Floats:
    """Share of each window's readings in which the GPU only waits in a kernel: the agent's rule."""
    idle_w = idle_power_w(hardware.driver_name)
    if idle_w is None:
        return np.full((len(by_second) - 2) // window_s, np.nan)
    ceiling_w = idle_w + SPIN_POWER_RATIO * (hardware.power_limit_w - idle_w)
    spins = (by_second[1:-1] >= SPIN_UTIL - 1e-9) & (power_w[1:-1] <= ceiling_w)
    if hardware.has_gpm:
        spins &= works[1:-1] < 1.0
    fraction: Floats = spins.reshape(-1, window_s).mean(axis=1)
    return fraction


def _averaged(hardware: Hardware, ranks: Sequence[Rank], span: Span, window_s: int) -> Columns:
    """What the driver averages itself, by window."""
    count = span.seconds // window_s
    columns = {name: np.zeros(count) for name in means(hardware, NO_WORK, thermal=0.0, capped=0.0)}
    peak, memory_busy = np.zeros(span.readings), np.zeros(span.readings)
    for rank in ranks:
        track, levels = rank.track, rank.track.signal.traits.levels_of(rank.role)
        by_window = _by_window(track, track.by_second, span, window_s)
        lively = _by_window(track, track.by_second * track.flicker, span, window_s)
        steady, shown = mixed(tuple(by_window), levels), mixed(tuple(lively), levels)
        thermal = _thermal(track, span, window_s) if rank.role != IDLE else np.zeros(count)
        for name, values in means(
            hardware,
            shown._replace(util=steady.util),
            thermal=thermal,
            capped=capped_share(tuple(by_window), levels),
        ).items():
            columns[name] += values
        peak[track.places] += track.mixed([level.sm for level in levels]) * track.flicker
        memory_busy[track.places] += track.mixed([level.dram for level in levels]) * track.flicker
    ratios = {
        name: np.minimum(values, 1.0)
        for name, values in columns.items()
        if name in GPM_COLUMNS or name in STEADY_MEANS
    }
    columns |= ratios
    if hardware.has_gpm:
        columns["sm_active_max"] = np.minimum(peak[2:].reshape(-1, window_s).max(axis=1), 1.0)
        columns["memory_util_mean"] = np.minimum(held_means(memory_busy, window_s=window_s), 1.0)
    return columns


def _by_window(track: Track, shares: Floats, span: Span, window_s: int) -> Floats:
    """Shares of whole windows, 0 where the job is not there."""
    full = np.zeros((len(shares), span.readings))
    full[:, track.places] = shares
    return window_means(full, window_s=window_s)


def _thermal(track: Track, span: Span, window_s: int) -> Floats:
    """The part of each window for which a thermal limit held."""
    left_s = span.start_s + np.arange(0.0, span.seconds, window_s) - track.signal.start_s
    here = _by_window(track, np.ones((1, track.count)), span, window_s)[0]
    limited: Floats = here * throttled(track.signal.traits, left_s, left_s + window_s)
    return limited


def _facts(ranks: Sequence[Rank], span: Span, window_s: int) -> Columns:
    """What the holder does with the node's processors and disks, by window; NaN where nobody holds
    the GPU.
    """
    count = span.seconds // window_s
    totals, here = dict.fromkeys(JOB_COLUMNS, np.zeros(count)), np.zeros(count)
    for rank in ranks:
        if rank.track.signal.job.archetype.is_allocated:
            guest = _guest(rank.track, span, window_s)
            told = job_columns(guest, is_busy=rank.role != IDLE)
            totals = {name: totals[name] + told[name] for name in JOB_COLUMNS}
            here = here + sum(guest.shares)
    held = np.where(here > 0.5, here, np.nan)
    return {name: values / held for name, values in totals.items()}


def _own(
    shared: Columns,
    card: Card,
    ranks: Sequence[Rank],
    span: Span,
    *,
    window_s: int,
    rng: np.random.Generator,
) -> Columns:
    """One GPU's columns: its own board, its rank's part of the work, and noise."""
    count = span.seconds // window_s
    factor = np.ones(count)
    temperature = None
    for rank in ranks:
        signal = rank.track.signal
        here = _by_window(rank.track, np.ones((1, rank.track.count)), span, window_s)[0]
        factor += here * (signal.factor(card.index) - 1.0)
        if signal.traits.thermal_share and rank.role != IDLE:
            middle_s = span.start_s + window_s * (np.arange(count) + 0.5) - signal.start_s
            temperature = np.where(here > 0.5, hot_c(signal.traits, middle_s), np.nan)
    own = dict(shared)
    lively = factor * _noise(rng, count)
    offset_w = card.idle_w - bare_w(card.hardware)
    for name, scale in (
        ("power_w", 1),
        ("power_min_w", 1),
        ("power_max_w", 1),
        ("energy_j", window_s),
    ):
        own[name] = np.minimum(
            shared[name] * lively + offset_w * scale,
            MOST_POWER * card.hardware.power_limit_w * scale,
        )
    for name in LIVELY:
        if name in shared:
            own[name] = (
                np.minimum(shared[name] * lively, 1.0)
                if name in GPM_COLUMNS
                else shared[name] * lively
            )
    warm = _lagging(temperature_c(card.hardware, own["power_w"]), window_s)
    own["temperature_c"] = (
        warm if temperature is None else np.where(np.isnan(temperature), warm, temperature)
    )
    own["memory_temperature_c"] = own["temperature_c"] + MEMORY_WARMER_C
    for name in ("job_cpu_ratio", "job_main_thread_ratio"):
        own[name] = np.minimum(own[name] * _noise(rng, count), 1.0)
    return own


LIVELY = (
    "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active",
    "fp16_active",
    "pcie_rx_bytes_s", "pcie_tx_bytes_s", "nvlink_rx_bytes_s", "nvlink_tx_bytes_s",
)  # fmt: skip


def _lagging(aim_c: Floats, window_s: int) -> Floats:
    """First-order lag towards each window's temperature."""
    part = 1.0 - float(np.exp(-window_s / WARMING_S))
    return np.array(
        list(
            itertools.accumulate(
                aim_c.tolist(), lambda before_c, aim: before_c + part * (aim - before_c)
            )
        )
    )


def _noise(rng: np.random.Generator, count: int) -> Floats:
    return 1.0 + NOISE * rng.uniform(-1.0, 1.0, count)
