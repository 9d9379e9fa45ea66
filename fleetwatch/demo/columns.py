"""Window columns of one simulated node over a span of time, drawn in numpy. Pure.

From the same schedule, traits and wave formulas as the live simulated agents: where
an agent measures a wave reading by reading, its mean over a window is computed here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agent.gpu_models import idle_power_w
from agent.sources.simulated import waves
from agent.sources.simulated.card import COOL_C, RESERVED_BYTES, WARMTH_C, Card
from agent.sources.simulated.schedule import SimulatedJob
from agent.sources.simulated.signal import PROCESS_AFTER_MS, DrawnLevel, Signal, bursts_of
from agent.window import DIP_HIGH, DIP_LOW, HIGH, LOW, SPIN_DRAM, SPIN_POWER_RATIO, SPIN_TENSOR, SPIN_UTIL

Floats = NDArray[np.float64]

SAMPLE_S = 1 / 6  # the driver's utilisation samples; a shorter wave reads as its mean
NOISE = 0.03  # of one reading


@dataclass
class Component:
    """One thing a GPU does in a span: its values, and the share of each window that it takes."""

    share: Floats
    util: float
    power_w: float
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    memory_bytes: int = 0


@dataclass
class Shape:
    """What the windows' shape columns need beside shares."""

    dips: Floats
    longest_low_s: Floats
    cycle_s: Floats
    processes: Floats
    components: list[Component] = field(default_factory=list)


def draw(card: Card, jobs: Sequence[SimulatedJob], starts_ms: NDArray[np.int64], *, window_s: int, seed: int) -> dict[str, Floats]:
    """Columns of the wire for that GPU and the windows that start then, in order; NaN: not read.

    `jobs` are those that overlap them; the ones on other GPUs are passed over.
    """
    count = len(starts_ms)
    shape = Shape(dips=np.zeros(count), longest_low_s=np.zeros(count), cycle_s=np.full(count, np.nan), processes=np.zeros(count))
    for job in jobs:
        if card.index in job.gpus:
            _add_job(shape, card, Signal(job), starts_ms, window_s)
    covered = sum((part.share for part in shape.components), np.zeros(count))
    rest = np.clip(1.0 - covered, 0.0, 1.0)
    shape.components.append(Component(rest, 0.0, card.idle_w))
    shape.longest_low_s = np.where(rest > 0.999, window_s, shape.longest_low_s)
    return _columns(shape, card, window_s=window_s, rng=np.random.default_rng([seed, card.index, int(starts_ms[0]) // 1000]))


def _add_job(shape: Shape, card: Card, signal: Signal, starts_ms: NDArray[np.int64], window_s: int) -> None:
    job, traits = signal.job, signal.traits
    left = np.maximum(starts_ms, job.start_ms) / 1000
    right = np.minimum(starts_ms + window_s * 1000, job.end_ms) / 1000
    inside = np.maximum(right - left, 0.0)
    right = np.maximum(right, left + 1e-3)
    working = _working_share(signal, left, right) if signal.is_busy(card.index) else np.zeros(len(left))
    present = inside / window_s
    has_context = signal.has_context(card.index, job.start_ms + PROCESS_AFTER_MS)
    memory = card.memory_bytes(traits if has_context else None, is_busy=signal.is_busy(card.index))
    for share, level in _levels(signal, working, left, right):
        if share.any():
            power_w = card.level_w(level, has_context=has_context)
            shape.components.append(Component(present * share, level.util, power_w, level.sm, level.tensor, level.dram, memory))
    if has_context:
        ends_ms = starts_ms + window_s * 1000
        shape.processes += (ends_ms - 1 >= job.start_ms + PROCESS_AFTER_MS) & (ends_ms <= job.end_ms)
    _add_dips(shape, signal, working, inside)


def _working_share(signal: Signal, left: Floats, right: Floats) -> Floats:
    """Share of each [left, right), seconds since the epoch, without a pause."""
    traits, start_s = signal.traits, signal.job.start_ms / 1000
    if traits.mean_gap_s:
        edges, done = _burst_curve(signal, float(left[0]), float(right.max()))
        share: Floats = (np.interp(right, edges, done) - np.interp(left, edges, done)) / (right - left)
        return share
    worked = [
        waves.working_seconds(
            at - start_s,
            warmup_s=traits.warmup_s,
            hangs_after_s=traits.hangs_after_s,
            pause_every_s=traits.pause_every_s,
            pause_share=traits.pause_share,
        )
        for at in (left, right)
    ]
    worked_share: Floats = np.clip((worked[1] - worked[0]) / (right - left), 0.0, 1.0)
    return worked_share


def _burst_curve(signal: Signal, start_s: float, end_s: float) -> tuple[Floats, Floats]:
    """Seconds of bursts done by then, as a line through (edge, seconds)."""
    hours = range(int(start_s // waves.HOUR_S), int(end_s // waves.HOUR_S) + 1)
    warm_s = signal.job.start_ms / 1000 + signal.traits.warmup_s
    bursts = [(max(begin, warm_s), end) for hour in hours for begin, end in bursts_of(signal.job, signal.traits, hour) if end > warm_s]
    edges = np.array([hours[0] * waves.HOUR_S - 1.0, *(edge for burst in bursts for edge in burst), end_s + waves.HOUR_S])
    lengths = np.zeros(len(edges))
    lengths[2:-1:2] = edges[2:-1:2] - edges[1:-2:2]
    return edges, np.cumsum(lengths)


def _levels(signal: Signal, working: Floats, left: Floats, right: Floats) -> Iterator[tuple[Floats, DrawnLevel]]:
    """Each level of the job with its share of the job's part of each window."""
    traits = signal.traits
    if traits.duty == 1.0:
        high = np.ones(len(working))
    else:
        start_s = signal.job.start_ms / 1000
        done = [waves.high_seconds(at - start_s, period_s=traits.period_s, duty=traits.duty) for at in (left, right)]
        high = np.clip((done[1] - done[0]) / (right - left), 0.0, 1.0)
    if traits.duty < 1.0 and traits.period_s < 2 * SAMPLE_S:
        yield working, _blend(traits.high, traits.low, traits.duty)
    else:
        yield working * high, traits.high
        yield working * (1.0 - high), traits.low
    yield 1.0 - working, traits.pause


def _blend(high: DrawnLevel, low: DrawnLevel, duty: float) -> DrawnLevel:
    """What a wave shorter than the driver's samples looks like."""

    def mean(upper: float, lower: float) -> float:
        return duty * upper + (1.0 - duty) * lower

    return DrawnLevel(
        mean(high.util, low.util),
        mean(high.power, low.power),
        mean(high.sm, low.sm),
        mean(high.tensor, low.tensor),
        mean(high.dram, low.dram),
    )


def _add_dips(shape: Shape, signal: Signal, working: Floats, inside: Floats) -> None:
    """Counts falls from high to low utilisation and the longest stretch below 10 %."""
    traits = signal.traits
    low_s = traits.period_s * (1.0 - traits.duty)
    if traits.low.util <= DIP_LOW and traits.high.util >= DIP_HIGH and low_s > SAMPLE_S:
        shape.dips += np.floor(working * inside / traits.period_s)
        shape.cycle_s = np.where(shape.dips >= 2, traits.period_s, shape.cycle_s)
        shape.longest_low_s = np.maximum(shape.longest_low_s, np.where(working * inside > low_s, low_s - SAMPLE_S, 0.0))
    if traits.pause.util < LOW:
        shape.longest_low_s = np.maximum(shape.longest_low_s, (1.0 - working) * inside)


def _columns(shape: Shape, card: Card, *, window_s: int, rng: np.random.Generator) -> dict[str, Floats]:
    parts = sorted(shape.components, key=lambda part: part.util)
    shares = np.stack([part.share for part in parts])
    quiet = _noise(rng, shares.shape[1], NOISE / window_s**0.5)
    power_w = _weighted(shares, [part.power_w for part in parts]) * quiet
    util = np.array([part.util for part in parts])
    columns = {
        "util_mean": _weighted(shares, util),
        "util_min": _first(shares, util),
        "util_max": _first(shares[::-1], util[::-1]),
        **_percentiles(shares, util),
        "util_zero_fraction": shares[util < 0.005].sum(axis=0),
        "util_low_fraction": shares[util < LOW].sum(axis=0),
        "util_high_fraction": shares[util >= HIGH].sum(axis=0),
        "util_dips": shape.dips,
        "util_longest_low_s": np.minimum(shape.longest_low_s, window_s),
        "util_cycle_s": shape.cycle_s,
        "memory_used_bytes": np.rint(_weighted(shares, [part.memory_bytes for part in parts])),
        "memory_reserved_bytes": np.full(shares.shape[1], float(RESERVED_BYTES)),
        "power_w": power_w,
        "energy_j": power_w * window_s,
        "temperature_c": COOL_C + WARMTH_C * power_w / card.hardware.power_limit_w,
        "sm_clock_hz": np.where(power_w <= card.idle_w * (1 + NOISE), card.hardware.clock_idle_hz, card.hardware.clock_max_hz * 0.97),
        "process_count": shape.processes,
        "spin_fraction": _spin(parts, shares, card),
    }
    if card.hardware.has_gpm:
        hum = _noise(rng, shares.shape[1], NOISE / window_s**0.5)
        columns["sm_active"] = _weighted(shares, [part.sm for part in parts]) * hum
        columns["tensor_active"] = _weighted(shares, [part.tensor for part in parts]) * hum
        columns["dram_active"] = _weighted(shares, [part.dram for part in parts]) * hum
    return columns


def _weighted(shares: Floats, values: Sequence[float] | Floats) -> Floats:
    weighted: Floats = np.asarray(values, dtype=np.float64) @ shares
    return weighted


def _first(shares: Floats, util: Floats) -> Floats:
    """The first of the given utilisations that each window shows at all."""
    shown: Floats = util[np.argmax(shares > 1e-3, axis=0)]
    return shown


def _percentiles(shares: Floats, util: Floats) -> dict[str, Floats]:
    """Components come sorted by utilisation: the first that holds for at least the given part of the time."""
    passed = np.cumsum(shares, axis=0)
    wanted = {"util_p5": 0.05, "util_p10": 0.10, "util_p50": 0.50, "util_p90": 0.90}
    return {name: util[np.argmax(passed >= part - 1e-6, axis=0)] for name, part in wanted.items()}


def _spin(parts: Sequence[Component], shares: Floats, card: Card) -> Floats:
    """Share of each window in which the GPU only waits in a kernel: the agent's rule, level by level."""
    idle_w = idle_power_w(card.hardware.driver_name)
    if idle_w is None:
        return np.full(shares.shape[1], np.nan)
    ceiling_w = idle_w + SPIN_POWER_RATIO * (card.hardware.power_limit_w - idle_w)
    spins = [
        part.util >= SPIN_UTIL
        and part.power_w <= ceiling_w
        and (not card.hardware.has_gpm or (part.tensor < SPIN_TENSOR and part.dram < SPIN_DRAM))
        for part in parts
    ]
    return _weighted(shares, [float(spin) for spin in spins])


def _noise(rng: np.random.Generator, count: int, relative: float) -> Floats:
    return 1.0 + relative * rng.uniform(-1.0, 1.0, count)
