"""What one window says of its GPU: quiet or active, how much, how well. Pure numpy."""

import itertools
from collections.abc import Sequence

import numpy as np

from fleetwatch.ledger.judgement.columns import Activity, Evidence, changes
from fleetwatch.ledger.judgement.labels import (
    BUSY_ONLY,
    COLD,
    CONTEXT_UNKNOWN,
    HELD,
    NO_SIGNAL,
    POWER,
    SENSORS,
    UNDER_OBSERVED,
    UNREADABLE,
    VIDEO,
    Codes,
)
from fleetwatch.ledger.judgement.observations import (
    NOBODY,
    Capacity,
    Columns,
    Floats,
    Ints,
    Mask,
    Windows,
)
from fleetwatch.ledger.policy import Policy

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

# What work reaches of each unit in practice.
CEILINGS = (
    ("sm_active", "ceiling_sm"),
    ("tensor_active", "ceiling_tensor"),
    ("dram_active", "ceiling_dram"),
    ("fp64_active", "ceiling_fp64"),
)
# of windows of no capacity
_NO_BOARD = Capacity(NOBODY, 0, 0)
# A smaller share of a window is a rounding error, and what is divided by it may overflow.
LEAST_WORKING = 1e-9


def read(windows: Windows, *, idle_w: Floats, limit_w: Floats, policy: Policy) -> Activity:
    """What each window says; `idle_w` and `limit_w` per window, NaN where the model is not
    known.
    """
    columns = Columns(windows)
    evidence = _evidence(columns, idle_w, limit_w, policy)
    contradicted = evidence.contradicted
    quiet = evidence.phantom | ((evidence.peak <= policy.quiet_max) & ~contradicted)
    sent = sent_spin(columns, policy)
    active, spinning = _active(columns, evidence, quiet, sent, policy)
    working = active - spinning
    efficiency, source = _efficiency(columns, working, evidence.engines, idle_w, limit_w, policy)
    return Activity(
        evidence=evidence,
        unseen=_unseen(windows, evidence, policy),
        quiet=quiet,
        blip=~quiet & ~contradicted & (active <= policy.blip_max),
        zero=quiet & _is_zero(columns, evidence),
        active=active,
        spinning=spinning,
        working=working,
        efficiency=efficiency,
        efficiency_source=source,
        spin_unresolved=_is_unresolved(windows, sent, policy) & (active > 0),
        context=_context(columns, policy),
    )


def _evidence(columns: Columns, idle_w: Floats, limit_w: Floats, policy: Policy) -> Evidence:
    power_w = columns["power_w"]
    engines = busiest_engine(columns)
    engines = np.where(engines > policy.contradiction_codec_ratio, engines, np.nan)  # less is noise
    fraction, peak, signal = _shares(columns, engines, policy)
    power_ratio = _power_ratio(power_w, idle_w=idle_w, limit_w=limit_w)
    near_idle = _near_idle(power_w, power_ratio, limit_w, policy)
    works = ~np.isnan(engines) | _above(columns, UNITS, policy)
    works |= _draws_work(power_w, limit_w, policy)
    works_or_links = works | _above(columns, CONTRADICTIONS, policy)
    return Evidence(
        fraction=fraction,
        peak=peak,
        signal=signal,
        engines=engines,
        power_ratio=power_ratio,
        near_idle=near_idle,
        works=works,
        shows_work=works_or_links | (power_ratio > policy.contradiction_power_ratio),
        phantom=_phantom(columns, policy, near_idle) & ~works_or_links,
    )


def _active(
    columns: Columns, evidence: Evidence, quiet: Mask, sent: Floats, policy: Policy
) -> tuple[Floats, Floats]:
    """The active share of each window, and what of it is busy-waiting: not what engines did."""
    active = np.where(evidence.fraction >= policy.active_full, 1.0, evidence.fraction)
    active = np.clip(np.where(quiet | np.isnan(active), 0.0, active), 0.0, 1.0)
    spinning = _spinning(columns, sent, evidence.near_idle, policy)
    # 0 where no engine was read
    most = np.maximum(active - np.fmax(evidence.engines, 0.0), 0.0)
    return active, np.minimum(spinning, most)


def _is_zero(columns: Columns, evidence: Evidence) -> Mask:
    """Where nothing at all went on, in windows that are quiet."""
    # without a word on processes only zero readings are zero
    reads_zero = (evidence.peak == 0) & ~(evidence.fraction > 0) & ~evidence.shows_work
    return np.asarray(reads_zero | (evidence.phantom & (columns["process_count"] == 0)))


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


def _shares(columns: Columns, engines: Floats, policy: Policy) -> tuple[Floats, Floats, Codes]:
    """Of each window the activity of the first signal that was read, its maximum, and which one it
    is; NaN where none was.
    """
    first = _first_read(columns, FRACTIONS)
    first_peak = _first_read(columns, MAXIMA)
    is_mute = first_peak[0] <= policy.quiet_max
    fraction, signal = _or_engines(*_or_units(*first, columns, is_mute), engines)
    peak, peak_signal = _or_engines(*_or_units(*first_peak, columns, is_mute), engines)
    return fraction, peak, np.where(np.isnan(fraction), peak_signal, signal).astype(np.int8)


def _first_read(columns: Columns, choices: tuple[tuple[str, int], ...]) -> tuple[Floats, Codes]:
    """Of each window the first of the columns that was read, and its signal; NaN and 0 where none
    was.
    """
    value = columns.unread
    signal = np.zeros(len(value), dtype=np.int8)
    is_open = np.ones(len(value), dtype=bool)
    for name, code in choices:
        if name not in columns:
            continue
        share = 1.0 - columns[name] if name == ZERO_FRACTION else columns[name]
        is_new = is_open & ~np.isnan(share)
        value = share if is_new.all() else np.where(is_new, share, value)
        signal[is_new] = code
        is_open &= ~is_new
        if not is_open.any():
            break
    return value, signal


def _or_units(
    value: Floats, signal: Codes, columns: Columns, is_mute: Mask
) -> tuple[Floats, Codes]:
    """The first signal's value; where that shows nothing, the highest of the units', which a stuck
    0 does not overrule.
    """
    value = value.copy()  # it may be a column
    for name, code in FRACTIONS:
        if name in UNIT_SHARES and name in columns:
            higher = np.flatnonzero(is_mute & (columns[name] > value))
            value[higher] = columns[name][higher]
            signal[higher] = code
    return value, signal


def _unseen(windows: Windows, evidence: Evidence, policy: Policy) -> Codes:
    readable = ~np.isnan(evidence.fraction) | (evidence.peak <= policy.quiet_max)
    length = windows.end_ms - windows.start_ms
    under = windows.observed_ms < policy.observed_min_ratio * length
    return np.select(
        [windows.observed_ms <= 0, under, ~readable], [UNREADABLE, UNDER_OBSERVED, NO_SIGNAL], 0
    ).astype(np.int8)


def _power_ratio(power_w: Floats, *, idle_w: Floats, limit_w: Floats) -> Floats:
    span = limit_w - idle_w
    return np.asarray((power_w - idle_w) / np.where(span > 0, span, np.nan))


def busiest_engine(columns: Columns) -> Floats:
    """The share of time of the busiest engine beside the compute units; NaN where none was read."""
    share = columns[ENGINES[0]]
    for name in ENGINES[1:]:
        if name in columns:
            share = np.fmax(share, columns[name])
    return share


def _or_engines(value: Floats, signal: Codes, engines: Floats) -> tuple[Floats, Codes]:
    """The compute signal's value, or the engines' share where that is higher: set in these arrays,
    which nobody else has.
    """
    theirs = np.flatnonzero((engines > value) | (np.isnan(value) & (engines > -1.0)))
    value[theirs] = engines[theirs]
    signal[theirs] = VIDEO
    return value, signal


def _phantom(columns: Columns, policy: Policy, near_idle: Mask) -> Mask:
    """Load that nobody makes: no process told, hardly any memory.

    That utilisation alone is wrong is believed where power is near idle, where the units were read,
    or where the memory is too little for any context.
    """
    memory = columns["memory_used_bytes"]
    is_refuted = (memory <= policy.empty_memory_bytes) | near_idle
    for name, _ in UNITS:
        if name in columns:
            is_refuted |= ~np.isnan(columns[name])
    is_alone = ~(columns["process_count"] > 0) & (memory <= policy.phantom_memory_bytes)
    return np.asarray(is_alone & is_refuted)


def _above(columns: Columns, thresholds: tuple[tuple[str, str], ...], policy: Policy) -> Mask:
    """Where one of the columns lies above its threshold.

    NaN compares false: what was not read shows nothing.
    """
    is_above = np.zeros(len(columns.unread), dtype=bool)
    for name, threshold in thresholds:
        if name in columns:
            is_above |= columns[name] > getattr(policy, threshold)
    return is_above


def spin_fraction(windows: Windows, *, idle_w: Floats, limit_w: Floats, policy: Policy) -> Floats:
    """Of each window the share of busy-waiting: as it was told and can be, else by its means; NaN
    where neither tells.
    """
    columns = Columns(windows)
    power_w = columns["power_w"]
    power_ratio = _power_ratio(power_w, idle_w=idle_w, limit_w=limit_w)
    near_idle = _near_idle(power_w, power_ratio, limit_w, policy)
    sent = sent_spin(columns, policy)
    spinning = _spinning(columns, sent, near_idle, policy)
    has_power = ~np.isnan(power_w) & ~np.isnan(limit_w)
    is_known = ~np.isnan(sent) | (has_power & ~np.isnan(columns["util_mean"]))
    return np.where(is_known, spinning, np.nan)


def _near_idle(power_w: Floats, power_ratio: Floats, limit_w: Floats, policy: Policy) -> Mask:
    """Where power is hardly more than what an idle context draws: by the range above idle, without
    idle power by the limit.
    """
    by_limit = np.isnan(power_ratio) & (power_w < policy.spin_limit_ratio * limit_w)
    is_near = (power_ratio <= policy.spin_power_max) | by_limit
    return np.asarray(is_near & ~_draws_work(power_w, limit_w, policy))


def _draws_work(power_w: Floats, limit_w: Floats, policy: Policy) -> Mask:
    """Where no idle board draws as much, whatever somebody set as idle power."""
    return np.asarray(power_w > policy.work_limit_ratio * limit_w)


def sent_spin(columns: Columns, policy: Policy) -> Floats:
    """The share of busy-waiting that was sent; NaN where none was, or where it leaves less time
    than tensor cores and memory were read at work: a GPU that waits does not use them.
    """
    sent = columns["spin_fraction"]
    is_refuted = (columns["tensor_active"] > 1 - sent + policy.spin_tensor_max) | (
        columns["dram_active"] > 1 - sent + policy.spin_dram_max
    )
    return np.where(is_refuted, np.nan, sent)


def _spinning(columns: Columns, sent: Floats, near_idle: Mask, policy: Policy) -> Floats:
    """The share of busy-waiting: what was sent, else by the window's means."""
    spins = (columns["util_mean"] >= policy.spin_util_min) & near_idle
    spins &= ~(columns["tensor_active"] >= policy.spin_tensor_max)
    spins &= ~(columns["dram_active"] >= policy.spin_dram_max)
    return np.where(np.isnan(sent), spins, sent)


def _is_unresolved(windows: Windows, sent: Floats, policy: Policy) -> Mask:
    """Where a long window without `spin_fraction` can't tell busy-waiting from work."""
    is_long = windows.end_ms - windows.start_ms > 1000 * policy.spin_resolvable_s
    return np.isnan(sent) & is_long


def _efficiency(
    columns: Columns,
    working: Floats,
    engines: Floats,
    idle_w: Floats,
    limit_w: Floats,
    policy: Policy,
) -> tuple[Floats, Codes]:
    """e in [0, 1] of the working fraction, and by which source."""
    whole = np.where(working > 0, np.maximum(working, LEAST_WORKING), 1.0)
    sensed = np.fmax.reduce(
        [columns[name] / getattr(policy, ceiling) for name, ceiling in CEILINGS]
    )
    # what the board drew while it worked: the rest of the window it rested
    resting_w = (1.0 - working) * _rest_w(idle_w, limit_w, policy)
    drawn = _power_ratio((columns["power_w"] - resting_w) / whole, idle_w=idle_w, limit_w=limit_w)
    by_power = np.maximum(drawn, policy.power_floor) / policy.ceiling_power
    by_power[working < policy.power_min_working] = np.nan
    # what an engine did is its full work: the units and the board's power hardly notice it
    by_engines = engines / policy.active_full / whole
    return _best_read(by_power, sensed / whole, by_engines)


def _best_read(by_power: Floats, by_sensors: Floats, by_engines: Floats) -> tuple[Floats, Codes]:
    """Each is the better one where it was read, or at least as high; NaN compares false."""
    efficiency = np.ones(len(by_power))
    source = np.full(len(by_power), BUSY_ONLY, dtype=np.int8)
    for value, code, least in (
        (by_power, POWER, 0.0),
        (by_sensors, SENSORS, 0.0),
        (by_engines, SENSORS, efficiency),
    ):
        share = np.minimum(1.0, value)
        is_better = share >= least
        efficiency[is_better] = share[is_better]
        source[is_better] = code
    return efficiency, source


def _rest_w(idle_w: Floats, limit_w: Floats, policy: Policy) -> Floats:
    """What a board draws with a resident context while it does not work."""
    return idle_w + np.minimum(policy.rest_extra_w, policy.rest_extra_ratio * (limit_w - idle_w))


def _context(columns: Columns, policy: Policy) -> Codes:
    processes = columns["process_count"]
    memory = columns["memory_used_bytes"]
    is_held = (processes > 0) | (memory > policy.phantom_memory_bytes)
    is_cold = (processes == 0) | (memory <= policy.phantom_memory_bytes)
    return np.select([is_held, is_cold], [HELD, COLD], CONTEXT_UNKNOWN).astype(np.int8)


def boards(windows: Windows, capacities: Sequence[Capacity]) -> tuple[Floats, Floats]:
    """Each window's idle power and power limit, in W; NaN where they are not known."""
    bounds = _runs(windows)
    gpus = {gpu.gpu_id: gpu for gpu in capacities}
    runs = [gpus.get(gpu_id, _NO_BOARD) for gpu_id in windows.gpu_id[bounds[:-1]].tolist()]
    # None becomes NaN
    idle_w, limit_w = (
        np.repeat(np.array(watts, dtype=np.float64), np.diff(bounds))
        for watts in ([gpu.idle_w for gpu in runs], [gpu.limit_w for gpu in runs])
    )
    for gpu, (low, high) in zip(runs, itertools.pairwise(bounds.tolist()), strict=True):
        for from_ms, own_w in gpu.idle_steps:
            idle_w[low:high][windows.start_ms[low:high] >= from_ms] = own_w
    return idle_w, limit_w


def _runs(windows: Windows) -> Ints:
    """Where each run of windows of one GPU begins, and where the last one ends: a GPU's come one
    after the other, nearly always.
    """
    count = len(windows.gpu_id)
    return np.append(np.flatnonzero(changes(windows.gpu_id))[:count], count)
