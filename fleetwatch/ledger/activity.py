"""What one window says of its GPU: quiet or active, how much, how well; and whether anything holds
the GPU. Pure numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.observations import Capacity, Floats, Ints, Mask, Windows, column
from fleetwatch.ledger.policy import Policy

Codes = NDArray[np.int8]

# First that was read; the one used is recorded (docs/ledger.md).
SIGNALS = ("", "utilization", "gr_engine_active", "sm_active", "process_sm_ratio", "video_engines")
VIDEO = 5
EFFICIENCY_SOURCES = ("", "sensors", "power", "none")
SENSORS, POWER, BUSY_ONLY = 1, 2, 3
UNSEEN_REASONS = ("", "unreadable", "under_observed", "no_signal")
UNREADABLE, UNDER_OBSERVED, NO_SIGNAL = 1, 2, 3

# Engines beside the compute units: what they do is work, and utilisation hardly shows it.
ENGINES = ("encoder_ratio", "decoder_ratio", "jpeg_ratio", "ofa_ratio")
# What shows work though the activity signal does not: column, and the threshold above which it
# does.
CONTRADICTIONS = (
    ("pcie_rx_bytes_s", "contradiction_link_bytes_s"),
    ("pcie_tx_bytes_s", "contradiction_link_bytes_s"),
    ("nvlink_rx_bytes_s", "contradiction_link_bytes_s"),
    ("nvlink_tx_bytes_s", "contradiction_link_bytes_s"),
)

# Counters of the compute units: column, and the noise above which it shows work.
UNITS = (
    ("gr_engine_active", "quiet_max"),
    ("sm_active", "quiet_max"),
    ("tensor_active", "spin_tensor_max"),
    ("dram_active", "spin_dram_max"),
    ("fp64_active", "quiet_max"),
)

# What holds a GPU that nobody was given.
NOTHING, PROCESS, DEAD_PROCESS, MEMORY, UNKNOWN, WORK = range(6)
HOLDERS = ("", "process", "dead_process", "memory", "", "")

# Sub-kinds of quiet time: was there a context?
CONTEXT_UNKNOWN, COLD, HELD = range(3)
CONTEXT_KINDS = ("", "cold", "held")


# A smaller share of a window is a rounding error, and what is divided by it may overflow.
LEAST_WORKING = 1e-9


@dataclass(frozen=True, slots=True)
class Activity:
    """One value per window. Where `unseen` is not 0 the rest but `context` means nothing."""

    fraction: Floats  # as the first signal told it, NaN unread
    peak: Floats
    power_ratio: Floats
    phantom: Mask
    near_idle: Mask
    works: Mask  # units or engines were read above noise, whatever utilisation says
    contradicted: Mask
    unseen: Codes
    signal: Codes
    quiet: Mask
    blip: Mask
    zero: Mask  # activity was exactly 0
    active: Floats  # a: share of time with a kernel running, 0 to 1
    spinning: Floats  # share of time busy-waiting, at most a
    working: Floats  # w: share of time at work, spinning left out
    efficiency: Floats  # e of the working fraction w = a - spinning
    efficiency_source: Codes
    spin_unresolved: Mask
    context: Codes


def read(windows: Windows, *, idle_w: Floats, limit_w: Floats, policy: Policy) -> Activity:
    """What each window says; `idle_w` and `limit_w` per window, NaN where the model is not
    known.
    """
    engines = busiest_engine(windows)
    engines = np.where(engines > policy.contradiction_codec_ratio, engines, np.nan)  # less is noise
    first, first_peak = _first_read(windows, FRACTIONS), _first_read(windows, MAXIMA)
    is_mute = first_peak[0] <= policy.quiet_max
    fraction, fraction_signal = _or_engines(*_or_units(*first, windows, is_mute), engines)
    peak, peak_signal = _or_engines(*_or_units(*first_peak, windows, is_mute), engines)
    readable = ~np.isnan(fraction) | (peak <= policy.quiet_max)
    power_ratio = _power_ratio(column(windows, "power_w"), idle_w=idle_w, limit_w=limit_w)
    draws_work = column(windows, "power_w") > policy.work_limit_ratio * limit_w
    works = ~np.isnan(engines) | _above(windows, UNITS, policy) | draws_work
    is_near_idle = _near_idle(column(windows, "power_w"), power_ratio, limit_w, policy)
    phantom = _phantom(windows, policy, works=works, is_near_idle=is_near_idle)
    is_contradicted = works | _contradicted(windows, power_ratio, policy)
    contradicted = is_contradicted & ~phantom
    quiet = phantom | ((peak <= policy.quiet_max) & ~contradicted)
    # without a word on processes only zero readings are zero
    zero = (phantom & (column(windows, "process_count") == 0)) | (
        quiet & ~is_contradicted & (peak == 0) & ~(fraction > 0)
    )
    spinning, unresolved = _spinning(windows, is_near_idle, policy)
    active = np.where(
        quiet | np.isnan(fraction), 0.0, np.where(fraction >= policy.active_full, 1.0, fraction)
    )
    active = np.clip(active, 0.0, 1.0)
    spinning = np.minimum(spinning, np.maximum(active - np.nan_to_num(engines), 0.0))
    working = np.maximum(active - spinning, 0.0)
    efficiency, source = _efficiency(
        windows, working, engines, idle_w=idle_w, limit_w=limit_w, policy=policy
    )
    return Activity(
        fraction=fraction,
        peak=peak,
        power_ratio=power_ratio,
        phantom=phantom,
        near_idle=is_near_idle,
        works=works,
        contradicted=contradicted,
        unseen=_unseen(windows, readable, policy),
        signal=np.where(np.isnan(fraction), peak_signal, fraction_signal).astype(np.int8),
        quiet=quiet,
        blip=~quiet & ~contradicted & (active <= policy.blip_max),
        zero=zero,
        active=active,
        spinning=spinning,
        working=working,
        efficiency=efficiency,
        efficiency_source=source,
        spin_unresolved=unresolved & (active > 0),
        context=_context(windows, policy),
    )


def told(acts: Activity, windows: Windows, row: int, policy: Policy) -> list[str]:
    """In words, what one window says and the thresholds that it was compared with: a person can do
    it again.
    """
    if acts.unseen[row]:
        return [_told_unseen(acts, windows, row, policy)]
    shows_load = acts.peak[row] > 0 or acts.power_ratio[row] > policy.contradiction_power_ratio
    if acts.phantom[row] and shows_load:
        return [_told_phantom(acts, windows, row, policy)]
    if acts.quiet[row]:
        return [
            f"quiet: activity maximum {acts.peak[row]:g} <= {policy.quiet_max:g}, and nothing"
            " contradicts"
        ]
    return [*_told_contradictions(acts, windows, row, policy), *_told_active(acts, row, policy)]


def _told_unseen(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    length_ms, observed_ms = (
        int(windows.end_ms[row] - windows.start_ms[row]),
        int(windows.observed_ms[row]),
    )
    return {
        UNREADABLE: "unobserved: the GPU could not be read in this window",
        UNDER_OBSERVED: (
            f"unobserved: {observed_ms} of {length_ms} ms were observed, less than"
            f" {policy.observed_min_ratio:g}"
        ),
        NO_SIGNAL: "no activity signal was read: unobserved, where somebody holds it",
    }[int(acts.unseen[row])]


def _told_phantom(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    who = "no process" if column(windows, "process_count")[row] == 0 else "no process told"
    memory = f"{who} and at most {policy.phantom_memory_bytes:g} bytes of memory"
    return (
        f"quiet: {memory} are no activity: {_refuted_by(acts, windows, row, policy)}, and nothing"
        " else shows work"
    )


def _refuted_by(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    if acts.power_ratio[row] <= policy.spin_power_max:
        return f"power ratio {acts.power_ratio[row]:.3f} <= {policy.spin_power_max:g}"
    if column(windows, "memory_used_bytes")[row] <= policy.empty_memory_bytes:
        return f"at most {policy.empty_memory_bytes:g} bytes hold no context"
    if acts.near_idle[row]:
        return (
            f"power {column(windows, 'power_w')[row]:g} W < {policy.spin_limit_ratio:g} of the"
            " limit"
        )
    return "the units were read at noise"


def _told_contradictions(acts: Activity, windows: Windows, row: int, policy: Policy) -> list[str]:
    if not acts.contradicted[row] or acts.peak[row] > policy.quiet_max:
        return []
    said = [
        f"{name} {column(windows, name)[row]:g} > {getattr(policy, threshold):g}"
        for name, threshold in (*UNITS, *CONTRADICTIONS)
        if column(windows, name)[row] > getattr(policy, threshold)
    ]
    if acts.power_ratio[row] > policy.contradiction_power_ratio:
        said.insert(
            0, f"power ratio {acts.power_ratio[row]:.3f} > {policy.contradiction_power_ratio:g}"
        )
    said = said or [
        f"power {column(windows, 'power_w')[row]:g} W > {policy.work_limit_ratio:g} of the limit"
    ]
    return [
        f"activity maximum {acts.peak[row]:g} <= {policy.quiet_max:g} is contradicted by"
        f" {', '.join(said)}"
    ]


def _told_active(acts: Activity, row: int, policy: Policy) -> list[str]:
    active, spinning, working = acts.active[row], acts.spinning[row], acts.working[row]
    whole = (
        f" (from {policy.active_full:g} it counts as 1)"
        if acts.fraction[row] != active and active == 1
        else ""
    )
    words = [
        f"active share a = {acts.fraction[row]:g}{whole}, spinning = {spinning:g}, working w = a -"
        f" spinning = {working:g}"
    ]
    if acts.blip[row]:
        words.append(f"a <= {policy.blip_max:g}: it continues a quiet run")
    if working > 0:
        by = {SENSORS: "by sensors", POWER: "estimated by power", BUSY_ONLY: "busy, unverified"}[
            int(acts.efficiency_source[row])
        ]
        efficiency = acts.efficiency[row]
        words.append(
            f"efficiency e = {efficiency:.4f} ({by}): useful w e = {working * efficiency:.4f},"
            f" underused {working * (1 - efficiency):.4f}"
        )
    if active < 1:
        words.append(f"inactive 1 - a = {1 - active:g}")
    return words


ZERO_FRACTION = "util_zero_fraction"  # speaks as what it leaves of 1
# column, and the number of its signal
FRACTIONS = (
    ("util_mean", 1),
    (ZERO_FRACTION, 1),
    ("gr_engine_active", 2),
    ("sm_active", 3),
    ("process_sm_ratio", 4),
)
UNIT_SHARES = ("gr_engine_active", "sm_active", "process_sm_ratio")
MAXIMA = (
    ("util_max", 1), ("util_mean", 1), (ZERO_FRACTION, 1), ("gr_engine_active", 2),
    ("sm_active_max", 3), ("sm_active", 3), ("process_sm_ratio", 4),
)  # fmt: skip


def _first_read(windows: Windows, choices: tuple[tuple[str, int], ...]) -> tuple[Floats, Codes]:
    """Of each window the first of the columns that was read, and its signal; NaN and 0 where none
    was.
    """
    count = len(windows.gpu_id)
    value, signal = np.full(count, np.nan), np.zeros(count, dtype=np.int8)
    is_open = np.ones(count, dtype=bool)
    for name, code in choices:
        if name not in windows.columns:
            continue
        told = 1.0 - windows.columns[name] if name == ZERO_FRACTION else windows.columns[name]
        is_new = is_open & ~np.isnan(told)
        value = told if is_new.all() else np.where(is_new, told, value)
        signal[is_new] = code
        is_open &= ~is_new
        if not is_open.any():
            break
    return value, signal


def _or_units(
    value: Floats, signal: Codes, windows: Windows, is_mute: Mask
) -> tuple[Floats, Codes]:
    """The first signal's value; where that shows nothing, the highest of the units', which a stuck
    0 does not overrule.
    """
    for name, code in FRACTIONS:
        if name not in UNIT_SHARES or name not in windows.columns:
            continue
        is_higher = is_mute & (windows.columns[name] > value)
        value = np.where(is_higher, windows.columns[name], value)
        signal = np.where(is_higher, code, signal).astype(np.int8)
    return value, signal


def _unseen(windows: Windows, readable: Mask, policy: Policy) -> Codes:
    length = windows.end_ms - windows.start_ms
    under = windows.observed_ms < policy.observed_min_ratio * length
    return np.select(
        [windows.observed_ms <= 0, under, ~readable], [UNREADABLE, UNDER_OBSERVED, NO_SIGNAL], 0
    ).astype(np.int8)


def _power_ratio(power_w: Floats, *, idle_w: Floats, limit_w: Floats) -> Floats:
    span = limit_w - idle_w
    return np.asarray((power_w - idle_w) / np.where(span > 0, span, np.nan))


def busiest_engine(windows: Windows) -> Floats:
    """The share of time of the busiest engine beside the compute units; NaN where none was read."""
    share = column(windows, ENGINES[0])
    for name in ENGINES[1:]:
        if name in windows.columns:
            share = np.fmax(share, windows.columns[name])
    return share


def _or_engines(value: Floats, signal: Codes, engines: Floats) -> tuple[Floats, Codes]:
    """The compute signal's value, or the engines' share where that is higher."""
    is_theirs = engines > np.where(np.isnan(value), -1.0, value)
    return np.where(is_theirs, engines, value), np.where(is_theirs, VIDEO, signal).astype(np.int8)


def _phantom(windows: Windows, policy: Policy, *, works: Mask, is_near_idle: Mask) -> Mask:
    """Load that nobody makes: no process told, hardly any memory, and nothing else that shows work.

    That utilisation alone is wrong is believed where power is near idle, where the units were read
    at noise, or where the memory is too little for any context.
    """
    processes, memory = column(windows, "process_count"), column(windows, "memory_used_bytes")
    is_alone = ~(processes > 0) & (memory <= policy.phantom_memory_bytes)
    is_refuted = (memory <= policy.empty_memory_bytes) | is_near_idle
    for name, _ in UNITS:
        if name in windows.columns:
            is_refuted |= ~np.isnan(windows.columns[name])
    return np.asarray(is_alone & ~works & ~_above(windows, CONTRADICTIONS, policy) & is_refuted)


def _above(windows: Windows, columns: tuple[tuple[str, str], ...], policy: Policy) -> Mask:
    """Where one of the columns lies above its threshold.

    NaN compares false: what was not read shows nothing.
    """
    found = np.zeros(len(windows.gpu_id), dtype=bool)
    for name, threshold in columns:
        if name in windows.columns:
            found |= windows.columns[name] > getattr(policy, threshold)
    return found


def _contradicted(windows: Windows, power_ratio: Floats, policy: Policy) -> Mask:
    """Something else shows work."""
    return np.asarray(
        (power_ratio > policy.contradiction_power_ratio) | _above(windows, CONTRADICTIONS, policy)
    )


def spin_fraction(windows: Windows, *, idle_w: Floats, limit_w: Floats, policy: Policy) -> Floats:
    """Of each window the share of busy-waiting: as it was told and can be, else by its means; NaN
    where neither tells.
    """
    power_w = column(windows, "power_w")
    power_ratio = _power_ratio(power_w, idle_w=idle_w, limit_w=limit_w)
    found, _ = _spinning(windows, _near_idle(power_w, power_ratio, limit_w, policy), policy)
    has_power = ~np.isnan(power_w) & ~np.isnan(limit_w)
    is_known = ~np.isnan(told_spin(windows, policy)) | (
        has_power & ~np.isnan(column(windows, "util_mean"))
    )
    return np.where(is_known, found, np.nan)


def _near_idle(power_w: Floats, power_ratio: Floats, limit_w: Floats, policy: Policy) -> Mask:
    """Where power is hardly more than what an idle context draws: by the range above idle, without
    idle power by the limit.
    """
    by_limit = np.isnan(power_ratio) & (power_w < policy.spin_limit_ratio * limit_w)
    draws_work = power_w > policy.work_limit_ratio * limit_w  # whatever somebody set as idle power
    return np.asarray(((power_ratio <= policy.spin_power_max) | by_limit) & ~draws_work)


def told_spin(windows: Windows, policy: Policy) -> Floats:
    """The share of busy-waiting that was sent; NaN where none was, or where it leaves less time
    than tensor cores and memory were read at work: a GPU that waits does not use them.
    """
    told = column(windows, "spin_fraction")
    is_refuted = (column(windows, "tensor_active") > 1 - told + policy.spin_tensor_max) | (
        column(windows, "dram_active") > 1 - told + policy.spin_dram_max
    )
    return np.where(is_refuted, np.nan, told)


def _spinning(windows: Windows, is_near_idle: Mask, policy: Policy) -> tuple[Floats, Mask]:
    """The share of busy-waiting, and where a long window without `spin_fraction` can't tell it from
    work.
    """
    told = told_spin(windows, policy)
    spins = (column(windows, "util_mean") >= policy.spin_util_min) & is_near_idle
    spins &= ~(column(windows, "tensor_active") >= policy.spin_tensor_max)
    spins &= ~(column(windows, "dram_active") >= policy.spin_dram_max)
    is_long = windows.end_ms - windows.start_ms > 1000 * policy.spin_resolvable_s
    return np.where(np.isnan(told), spins.astype(np.float64), told), np.asarray(
        np.isnan(told) & is_long
    )


def _efficiency(
    windows: Windows,
    working: Floats,
    engines: Floats,
    *,
    idle_w: Floats,
    limit_w: Floats,
    policy: Policy,
) -> tuple[Floats, Codes]:
    """e in [0, 1] of the working fraction, and by which source."""
    whole = np.where(working > 0, np.maximum(working, LEAST_WORKING), 1.0)
    sensed = np.fmax(
        np.fmax(
            column(windows, "sm_active") / policy.ceiling_sm,
            column(windows, "tensor_active") / policy.ceiling_tensor,
        ),
        np.fmax(
            column(windows, "dram_active") / policy.ceiling_dram,
            column(windows, "fp64_active") / policy.ceiling_fp64,
        ),
    )
    by_sensors = np.minimum(1.0, sensed / whole)
    rest_w = idle_w + np.minimum(policy.rest_extra_w, policy.rest_extra_ratio * (limit_w - idle_w))
    working_w = (column(windows, "power_w") - (1.0 - working) * rest_w) / whole
    drawn = _power_ratio(working_w, idle_w=idle_w, limit_w=limit_w)
    by_power = np.minimum(1.0, np.maximum(drawn, policy.power_floor) / policy.ceiling_power)
    by_power = np.where(working >= policy.power_min_working, by_power, np.nan)
    has_sensors, has_power = ~np.isnan(by_sensors), ~np.isnan(by_power)
    efficiency = np.where(has_sensors, by_sensors, np.where(has_power, by_power, 1.0))
    source = np.where(has_sensors, SENSORS, np.where(has_power, POWER, BUSY_ONLY)).astype(np.int8)
    # what an engine did is its full work: the units and the board's power hardly notice it
    by_engines = np.minimum(1.0, engines / policy.active_full / whole)
    is_theirs = by_engines >= efficiency
    return np.where(is_theirs, by_engines, efficiency), np.where(is_theirs, SENSORS, source).astype(
        np.int8
    )


def _context(windows: Windows, policy: Policy) -> Codes:
    processes, memory = column(windows, "process_count"), column(windows, "memory_used_bytes")
    is_held = (processes > 0) | (memory > policy.phantom_memory_bytes)
    is_cold = (processes == 0) | (memory <= policy.phantom_memory_bytes)
    return np.select([is_held, is_cold], [HELD, COLD], CONTEXT_UNKNOWN).astype(np.int8)


def holds(windows: Windows, row: Ints, policy: Policy) -> tuple[Codes, Codes]:
    """What holds a GPU that nobody was given, by its window (row): where a scheduler answers, and
    on a bare host.

    On a bare host a live process is somebody's work that no allocation names: unknown.
    """
    processes, memory = (
        column(windows, "process_count")[row],
        column(windows, "memory_used_bytes")[row],
    )
    told = column(windows, "live_process_count")[row]
    live = np.where(np.isnan(told), processes, told)
    has_dead = (processes > 0) & (live == 0)
    has_memory = memory > policy.phantom_memory_bytes
    nobody_knows = np.isnan(processes) & np.isnan(memory)
    scheduled = np.select(
        [nobody_knows, has_dead, processes > 0, has_memory],
        [UNKNOWN, DEAD_PROCESS, PROCESS, MEMORY],
        NOTHING,
    )
    bare_unknown = (live > 0) | (np.isnan(live) & ~(memory <= policy.phantom_memory_bytes))
    bare = np.select([bare_unknown, has_dead, has_memory], [UNKNOWN, DEAD_PROCESS, MEMORY], NOTHING)
    return scheduled.astype(np.int8), bare.astype(np.int8)


def boards(windows: Windows, capacities: Sequence[Capacity]) -> tuple[Floats, Floats]:
    """Each window's idle power and power limit, in W; NaN where they are not known."""
    gpu_id = windows.gpu_id
    known = sorted({one.gpu_id: one for one in capacities}.values(), key=lambda one: one.gpu_id)
    ids = np.array([one.gpu_id for one in known], dtype=np.int64)
    place = np.searchsorted(ids, gpu_id)
    place[np.append(ids, -1)[place] != gpu_id] = len(ids)
    # None becomes NaN
    idle_w = np.array([*(one.idle_w for one in known), None], dtype=np.float64)
    limit_w = np.array([*(one.limit_w for one in known), None], dtype=np.float64)
    return _own_idle_w(idle_w[place], place, windows.start_ms, known), limit_w[place]


def _own_idle_w(idle_w: Floats, place: Ints, start_ms: Ints, known: Sequence[Capacity]) -> Floats:
    """With what was learned of each GPU, or set, from when on it counts."""
    steps = [(number, *step) for number, one in enumerate(known) for step in one.idle_steps]
    if not steps:
        return idle_w
    number, from_ms, watts = np.array(steps).T
    key = number.astype(np.int64) << _TIME_BITS | from_ms.astype(np.int64)
    at = np.searchsorted(key, place << _TIME_BITS | start_ms, side="right") - 1
    is_own = (at >= 0) & (number[at] == place)
    return np.where(is_own, watts[at], idle_w)


_TIME_BITS = 46  # milliseconds up to the year 4199
