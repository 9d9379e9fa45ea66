"""In words, what decided a place's state, and the thresholds that it was compared with: a person
can do it again. Pure.
"""

from datetime import datetime
from functools import lru_cache

from fleetwatch.ledger.judgement.activity import CONTRADICTIONS, UNITS
from fleetwatch.ledger.judgement.column_words import label
from fleetwatch.ledger.judgement.columns import (
    IDLE_RUN,
    STARTING_RUN,
    Activity,
    Evidence,
    Stretches,
)
from fleetwatch.ledger.judgement.labels import (
    BUSY_ONLY,
    NO_SIGNAL,
    POWER,
    SENSORS,
    UNDER_OBSERVED,
    UNREADABLE,
)
from fleetwatch.ledger.judgement.observations import Columns, Question, Windows
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib import durations
from fleetwatch.lib.intervals import from_ms

# why a GPU that nobody was given is not simply free, by the reason of its label
WHY = {
    "missing": "no window covers it, and nothing says that it was down",
    "silent": "its node gave no sign of life any more, and nothing says that it was down",
    "allocation_unknown": "nobody says whether it was allocated, and that decides",
    "unexplained_work": "no job and no process is named, but it works, and nobody knows for whom",
    "no_signal": "no allocation, and what was read does not say that nothing holds it",
    "process": "no allocation, but a process holds it",
    "dead_process": "no allocation, but a process that is dead or stuck holds it",
    "memory": "no allocation, but memory on it is in use without a process",
}
# why a GPU can't work, by the outage's reason
OUTAGES = {
    "gpu_lost": "the driver lost it",
    "recovery_action": "the driver asks for its recovery",
    "driver_missing": "its node has no driver loaded",
    "driver_mismatch": "its node's driver and libraries are of different versions",
}
_SOURCES = {SENSORS: "by sensors", POWER: "estimated by power", BUSY_ONLY: "busy, unverified"}


def of_window(acts: Activity, windows: Windows, row: int, policy: Policy) -> list[str]:
    """In words, what one window says and the thresholds that it was compared with: a person can do
    it again.
    """
    if acts.unseen[row]:
        return [_of_unseen(acts, windows, row, policy)]
    evidence = acts.evidence
    peak = evidence.peak[row]
    shows_load = peak > 0 or evidence.power_ratio[row] > policy.contradiction_power_ratio
    if evidence.phantom[row] and shows_load:
        return [_of_phantom(acts, windows, row, policy)]
    if acts.quiet[row]:
        return [f"quiet: {_no_activity(peak, policy)}, and no other reading shows work"]
    return [*_of_contradictions(acts, windows, row, policy), *_of_active(acts, row, policy)]


def _no_activity(peak: float, policy: Policy) -> str:
    return (
        f"no activity above {_percent(policy.quiet_max)} (the highest reading was {_percent(peak)})"
    )


def _of_unseen(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    length_ms = int(windows.end_ms[row] - windows.start_ms[row])
    observed_ms = int(windows.observed_ms[row])
    return {
        UNREADABLE: "unobserved: the GPU could not be read in this window",
        UNDER_OBSERVED: (
            f"unobserved: {_seconds(observed_ms)} of {_seconds(length_ms)} s were observed, less"
            f" than {_percent(policy.observed_min_ratio)}"
        ),
        NO_SIGNAL: "no activity signal was read: unobserved, where somebody holds it",
    }[int(acts.unseen[row])]


def _of_phantom(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    counted = Columns(windows)["process_count"][row] == 0
    who = "no process holds it" if counted else "no process is known to hold it"
    memory = f"at most {_megabytes(policy.phantom_memory_bytes)} of its memory are in use"
    return (
        f"quiet: {who}, {memory} and {_refuted_by(acts, windows, row, policy)}, so what its"
        " activity reads is taken for none; nothing else shows work"
    )


def _refuted_by(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    if acts.evidence.power_ratio[row] <= policy.spin_power_max:
        return (
            f"it draws {_of_power(acts.evidence, row)}, at most {_percent(policy.spin_power_max)}"
        )
    if Columns(windows)["memory_used_bytes"][row] <= policy.empty_memory_bytes:
        return f"{_megabytes(policy.empty_memory_bytes)} are too little for a context"
    if acts.evidence.near_idle[row]:
        return (
            f"it draws {_watts(windows, row)}, less than {_percent(policy.spin_limit_ratio)} of its"
            " power limit"
        )
    return "its compute units read nothing but noise"


def _of_power(evidence: Evidence, row: int) -> str:
    return f"{_percent(evidence.power_ratio[row])} of the power between idle and its limit"


def _watts(windows: Windows, row: int) -> str:
    return f"{Columns(windows)['power_w'][row]:.0f} W"


def _of_contradictions(acts: Activity, windows: Windows, row: int, policy: Policy) -> list[str]:
    evidence = acts.evidence
    is_contradicted = evidence.shows_work[row] and not evidence.phantom[row]
    if not is_contradicted or evidence.peak[row] > policy.quiet_max:
        return []
    readings = ", ".join(_contradicting(evidence, windows, row, policy))
    return [f"{_no_activity(evidence.peak[row], policy)}, but it works: {readings}"]


def _contradicting(evidence: Evidence, windows: Windows, row: int, policy: Policy) -> list[str]:
    """The readings that show work, with their thresholds."""
    columns = Columns(windows)
    readings = []
    if evidence.power_ratio[row] > policy.contradiction_power_ratio:
        most = _percent(policy.contradiction_power_ratio)
        readings.append(f"it draws {_of_power(evidence, row)}, more than {most}")
    for name, threshold in (*UNITS, *CONTRADICTIONS):
        reading = columns[name][row]
        most = getattr(policy, threshold)
        if reading > most:
            shown = _rate if name.endswith("_bytes_s") else _percent
            readings.append(f"{label(name)} {shown(reading)}, more than {shown(most)}")
    return readings or [
        f"it draws {_watts(windows, row)}, more than {_percent(policy.work_limit_ratio)} of its"
        " power limit"
    ]


def _of_active(acts: Activity, row: int, policy: Policy) -> list[str]:
    active = acts.active[row]
    words = [
        f"active {_of_fraction(acts, row, policy)}, busy-waiting {_percent(acts.spinning[row])}:"
        f" working {_percent(acts.working[row])}"
    ]
    if acts.blip[row]:
        words.append(f"active at most {_percent(policy.blip_max)}: it continues a quiet run")
    if acts.working[row] > 0:
        words.append(_of_efficiency(acts, row))
    if active < 1:
        words.append(f"inactive {_percent(1 - active)} of the time")
    return words


def _of_fraction(acts: Activity, row: int, policy: Policy) -> str:
    fraction = acts.evidence.fraction[row]
    is_rounded = fraction != acts.active[row] == 1
    whole = f" (from {_percent(policy.active_full)} on it counts as all of it)"
    return f"{_percent(fraction)} of the time{whole if is_rounded else ''}"


def _of_efficiency(acts: Activity, row: int) -> str:
    working = acts.working[row]
    efficiency = acts.efficiency[row]
    by = _SOURCES[int(acts.efficiency_source[row])]
    return (
        f"working at {_percent(efficiency)} efficiency ({by}):"
        f" {_percent(working * efficiency)} of the time useful,"
        f" {_percent(working * (1 - efficiency))} underused"
    )


def of_outage(reason: str) -> str:
    """In words, why a GPU could not work; the reason's own name where it has no words."""
    code = reason.removeprefix("xid_")
    event = f"the driver reported XID {code}" if code != reason else OUTAGES.get(reason)
    return f"unavailable: {event or reason.replace('_', ' ')}, and nothing yet says that it works"


def of_shared_time(own_ms: int, length_ms: int) -> str:
    """In words, how much of a place is its holder's."""
    return f"shared: {_seconds(own_ms)} of {_seconds(length_ms)} s are this holder's"


def of_estimated_energy(question: Question, row: int) -> str:
    """In words, why the window's energy is not the counter's."""
    columns = question.windows.columns
    ratio = question.policy.energy_max_ratio
    return (
        f"energy estimated as {float(columns['power_w'][row]):.0f} W × time: the counter's"
        f" {float(columns['energy_j'][row]) / 1000:.10g} kJ are more than {ratio:g} times what the"
        " power limit allows"
    )


A_JOB = {"interactive": "an interactive job"}


def _percent(share: float) -> str:
    """To the hundredth, without zeros that say nothing: "50 %", "53.72 %"."""
    # of a page there are thousands, and numpy rounds its own numbers ten times as slowly
    return f"{round(100 * float(share), 2):g} %"


def _seconds(ms: int) -> str:
    return f"{round(ms / 1000, 2):g}"


def _megabytes(amount_bytes: float) -> str:
    return f"{amount_bytes / 1024**2:.0f} MB"


def _rate(bytes_s: float) -> str:
    """In one unit, whatever its size: the readings of many windows are shown as one range."""
    return f"{bytes_s / 1e6:.0f} MB/s"


def of_run(stretches: Stretches, stretch: int, kind: str, policy: Policy) -> str:
    """In words, what the quiet run of a stretch is, and the limits that say so."""
    span = (int(stretches.run_start_ms[stretch]), int(stretches.run_end_ms[stretch]))
    limits = (policy.idle_ms(kind), policy.grace_ms(kind))
    return _of_run(span, int(stretches.verdict[stretch]), kind, limits)


@lru_cache(maxsize=64)  # a run has many windows, one after the other
def _of_run(span: tuple[int, int], verdict: int, kind: str, limits: tuple[int, int]) -> str:
    start_ms, end_ms = span
    length, idle, grace = map(durations.exact, (end_ms - start_ms, *limits))
    run = f"in a quiet run since {_begun(from_ms(start_ms), from_ms(end_ms))}"
    limit = f"the {idle} after which {A_JOB.get(kind, f'a {kind} job')} is idle"
    if verdict == IDLE_RUN:
        return f"{run} of {length}, at least {limit}: idle from its start"
    if verdict == STARTING_RUN:
        return (
            f"{run} that begins at an observed allocation start: starting for up to {grace}, then"
            " stalled"
        )
    return f"{run} of {length}, less than {limit}: stalled"


def _begun(start: datetime, end: datetime) -> str:
    """When it began; with the day where it ended on another one."""
    day = "" if start.date() == end.date() else f"{start:%-d %b} "
    return f"{day}{start:%H:%M:%S} UTC"
