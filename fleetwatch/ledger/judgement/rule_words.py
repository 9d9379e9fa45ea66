"""In words, what decided a place's state, and the thresholds that it was compared with: a person
can do it again. Pure.
"""

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
from fleetwatch.ledger.judgement.observations import Columns, Windows
from fleetwatch.ledger.policy import Policy
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
        return [
            f"quiet: activity maximum {peak:g} <= {policy.quiet_max:g}, and nothing contradicts"
        ]
    return [*_of_contradictions(acts, windows, row, policy), *_of_active(acts, row, policy)]


def _of_unseen(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    length_ms = int(windows.end_ms[row] - windows.start_ms[row])
    observed_ms = int(windows.observed_ms[row])
    return {
        UNREADABLE: "unobserved: the GPU could not be read in this window",
        UNDER_OBSERVED: (
            f"unobserved: {observed_ms} of {length_ms} ms were observed, less than"
            f" {policy.observed_min_ratio:g}"
        ),
        NO_SIGNAL: "no activity signal was read: unobserved, where somebody holds it",
    }[int(acts.unseen[row])]


def _of_phantom(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    who = "no process" if Columns(windows)["process_count"][row] == 0 else "no process told"
    memory = f"{who} and at most {policy.phantom_memory_bytes:g} bytes of memory"
    return (
        f"quiet: {memory} are no activity: {_refuted_by(acts, windows, row, policy)}, and nothing"
        " else shows work"
    )


def _refuted_by(acts: Activity, windows: Windows, row: int, policy: Policy) -> str:
    if acts.evidence.power_ratio[row] <= policy.spin_power_max:
        return f"power ratio {acts.evidence.power_ratio[row]:.3f} <= {policy.spin_power_max:g}"
    if Columns(windows)["memory_used_bytes"][row] <= policy.empty_memory_bytes:
        return f"at most {policy.empty_memory_bytes:g} bytes hold no context"
    if acts.evidence.near_idle[row]:
        return (
            f"power {Columns(windows)['power_w'][row]:g} W < {policy.spin_limit_ratio:g} of the"
            " limit"
        )
    return "the units were read at noise"


def _of_contradictions(acts: Activity, windows: Windows, row: int, policy: Policy) -> list[str]:
    evidence = acts.evidence
    is_contradicted = evidence.shows_work[row] and not evidence.phantom[row]
    if not is_contradicted or evidence.peak[row] > policy.quiet_max:
        return []
    return [
        f"activity maximum {evidence.peak[row]:g} <= {policy.quiet_max:g} is contradicted by"
        f" {', '.join(_contradicting(evidence, Columns(windows), row, policy))}"
    ]


def _contradicting(evidence: Evidence, columns: Columns, row: int, policy: Policy) -> list[str]:
    """The readings that show work, with their thresholds."""
    readings = []
    ratio = evidence.power_ratio[row]
    if ratio > policy.contradiction_power_ratio:
        readings.append(f"power ratio {ratio:.3f} > {policy.contradiction_power_ratio:g}")
    for name, threshold in (*UNITS, *CONTRADICTIONS):
        reading = columns[name][row]
        most = getattr(policy, threshold)
        if reading > most:
            unit = " bytes/s" if name.endswith("_bytes_s") else ""
            readings.append(f"{label(name)} {reading:g} > {most:g}{unit}")
    return readings or [
        f"power {columns['power_w'][row]:g} W > {policy.work_limit_ratio:g} of the limit"
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


A_JOB = {"interactive": "an interactive job"}


def _percent(share: float) -> str:
    """To the hundredth, without zeros that say nothing: "50 %", "53.72 %"."""
    # of a page there are thousands, and numpy rounds its own numbers ten times as slowly
    return f"{round(100 * float(share), 2):g} %"


def of_run(stretches: Stretches, stretch: int, kind: str, policy: Policy) -> str:
    """In words, what the quiet run of a stretch is, and the limits that say so."""
    start_ms = int(stretches.run_start_ms[stretch])
    length_s = (int(stretches.run_end_ms[stretch]) - start_ms) / 1000
    run = f"in a quiet run since {from_ms(start_ms):%H:%M:%S} UTC"
    if stretches.verdict[stretch] == IDLE_RUN:
        return f"{run} of {length_s:g} s, at least {_limit(kind, policy)}: idle from its start"
    if stretches.verdict[stretch] == STARTING_RUN:
        grace_s = policy.grace_ms(kind) / 1000
        return (
            f"{run} that begins at an observed allocation start: starting for up to {grace_s:g} s,"
            " then stalled"
        )
    return f"{run} of {length_s:g} s, less than {_limit(kind, policy)}: stalled"


def _limit(kind: str, policy: Policy) -> str:
    job = A_JOB.get(kind, f"a {kind} job")
    return f"the {policy.idle_ms(kind) / 1000:g} s after which {job} is idle"
