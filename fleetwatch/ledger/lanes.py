"""Runs of one GPU and one holder: quiet spans judged whole, bridged across short gaps. Pure numpy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.facts import Ints, Mask
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.timeline import Atoms
from fleetwatch.lib.intervals import from_ms

# What an atom is to a holder's lane.
BARRIER, GAP, QUIET, BLIP, BUSY = range(5)
Codes = NDArray[np.int8]

STALLED, IDLE, STARTING = range(3)


@dataclass(frozen=True, slots=True)
class QuietRuns:
    """The quiet runs of a lane: of each atom the run it belongs to (-1: none); of each run what it is."""

    run: Ints
    start_ms: Ints
    end_ms: Ints
    verdict: Ints


def no_runs(count: int) -> QuietRuns:
    """Of a lane in which nobody can be idle."""
    return QuietRuns(
        np.full(count, -1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    )


def told(found: QuietRuns, run: int, kind: str, policy: Policy) -> str:
    """In words, what a quiet run is, and the limits that say so."""
    length_s, limit_s = int(found.end_ms[run] - found.start_ms[run]) / 1000, policy.idle_ms(kind) / 1000
    since = f"{from_ms(int(found.start_ms[run])):%H:%M:%S}"
    if found.verdict[run] == IDLE:
        return f"in a quiet run since {since} UTC of {length_s:g} s, at least T_idle of a {kind} job ({limit_s:g} s): idle from its start"
    if found.verdict[run] == STARTING:
        grace_s = policy.grace_ms(kind) / 1000
        return (
            f"in a quiet run since {since} UTC that begins at an observed allocation start: starting for up to {grace_s:g} s, then stalled"
        )
    return f"in a quiet run since {since} UTC of {length_s:g} s, shorter than T_idle of a {kind} job ({limit_s:g} s): stalled"


@dataclass(frozen=True, slots=True)
class Lane:
    """One holder's view of its GPU: a code per atom, and the window length that speaks at each atom (0: none).

    `closed`: the codes with every gap that no run continues across turned into a barrier.
    """

    atoms: Atoms
    code: Codes
    closed: Codes
    own: Mask
    window_ms: Ints
    kind: str


def lane(atoms: Atoms, code: Codes, *, own: Mask, window_ms: Ints, kind: str, policy: Policy) -> Lane:
    """The lane of these codes."""
    return Lane(atoms, code, _close_long_gaps(atoms, code, window_ms, policy), own, window_ms, kind)


def next_known(is_gap: Mask) -> Ints:
    """Of each atom the position of the first atom from there on that is no gap; the length where none is."""
    position = np.where(is_gap, len(is_gap), np.arange(len(is_gap)))
    return np.minimum.accumulate(position[::-1])[::-1]


def previous_known(is_gap: Mask) -> Ints:
    """Of each atom the position of the last atom up to there that is no gap; -1 where none is."""
    return np.maximum.accumulate(np.where(is_gap, -1, np.arange(len(is_gap))))


def _close_long_gaps(atoms: Atoms, code: Codes, window_ms: Ints, policy: Policy) -> Codes:
    is_gap = code == GAP
    gaps = np.flatnonzero(is_gap)
    if len(gaps) == 0:
        return code
    before, after = previous_known(is_gap)[gaps], next_known(is_gap)[gaps]
    count = len(code)
    is_open = (before < 0) | (after >= count)
    gap_ms = atoms.start_ms[np.minimum(after, count - 1)] - atoms.end_ms[np.maximum(before, 0)]
    too_long = gap_ms > policy.bridge_windows * window_ms[np.maximum(before, 0)]
    closed = code.copy()
    closed[gaps[is_open | too_long]] = BARRIER
    return closed


def quiet_runs(lane: Lane, *, spans: list[tuple[int, int]], first_ms: int, live_end_ms: int | None, policy: Policy) -> QuietRuns:
    """The lane's quiet runs and what each is.

    `spans`: when the holder held the GPU. A span that begins after the first atom and
    not before `first_ms` (capacity) is an observed allocation start. `live_end_ms`:
    where telemetry ends for now; None when the capacity has ended for good.
    """
    atoms, code = lane.atoms, lane.closed
    quiet = np.flatnonzero(code == QUIET)
    run = np.full(len(code), -1, dtype=np.int64)
    if len(quiet) == 0:
        return no_runs(len(code))
    linked = _linked(atoms, code, quiet, policy)
    run_of_quiet = np.concatenate([[0], np.cumsum(~linked)])
    latest = np.cumsum(code == QUIET) - 1
    reaches_next = np.concatenate([linked, [False]])
    in_run = (code == QUIET) | ((latest >= 0) & reaches_next[np.maximum(latest, 0)])
    run[in_run] = run_of_quiet[latest[in_run]]
    first = quiet[np.concatenate([[True], ~linked])]
    last = quiet[np.concatenate([~linked, [True]])]
    length = atoms.end_ms[last] - atoms.start_ms[first]
    verdict = np.where(length >= policy.idle_ms(lane.kind), IDLE, STALLED)
    for begun in _begun_at_start(lane, spans=spans, first_ms=first_ms, policy=policy):
        number = np.searchsorted(first, begun)
        is_first = number < len(first) and first[number] == begun
        if is_first and verdict[number] == STALLED and _ends_in_activity(lane, int(last[number]), live_end_ms, policy):
            verdict[number] = STARTING
    return QuietRuns(run, atoms.start_ms[first], atoms.end_ms[last], verdict)


def _linked(atoms: Atoms, code: Codes, quiet: Ints, policy: Policy) -> Mask:
    """Whether each quiet atom and the next one belong to one run: nothing but short gaps and few blips between."""
    stops = np.cumsum((code == BARRIER) | (code == BUSY))[quiet]
    blips = np.cumsum(code == BLIP)[quiet]
    hop_ms = atoms.start_ms[quiet[1:]] - atoms.end_ms[quiet[:-1]]
    return np.asarray((stops[1:] == stops[:-1]) & ((blips[1:] == blips[:-1]) | (hop_ms <= 1000 * policy.blip_row_s)))


def _begun_at_start(lane: Lane, *, spans: list[tuple[int, int]], first_ms: int, policy: Policy) -> list[int]:
    """The atoms with which the holder's first quiet window after an observed allocation start begins."""
    atoms, count = lane.atoms, len(lane.code)
    after, before = next_known(lane.code == GAP), previous_known(lane.code == GAP)
    found = []
    for start, _ in spans:
        at = int(np.searchsorted(atoms.start_ms, start))
        is_observed = start >= first_ms and at < count and atoms.start_ms[at] == start and (at > 0 or start == first_ms)
        if not is_observed:
            continue
        quiet = int(after[at])
        if quiet == count or lane.code[quiet] != QUIET:
            continue
        if atoms.start_ms[quiet] - start > policy.bridge_windows * lane.window_ms[quiet]:
            continue
        if not _resumes(lane, at, before, policy):
            found.append(quiet)
    return found


def _resumes(lane: Lane, at: int, before: Ints, policy: Policy) -> bool:
    """Whether the hold that begins at atom `at` only goes on after an outage of telemetry: that is no start."""
    if at == 0 or before[at - 1] < 0:
        return False
    known = int(before[at - 1])
    outage_ms = int(lane.atoms.start_ms[at] - lane.atoms.end_ms[known])
    return bool(lane.own[known]) and 0 < outage_ms <= policy.idle_ms(lane.kind)


def _ends_in_activity(lane: Lane, last: int, live_end_ms: int | None, policy: Policy) -> bool:
    """Whether a run that ends with atom `last` ended in activity, or may yet: it is still open."""
    bridge_ms = policy.bridge_windows * lane.window_ms[last]
    following = last + 1 + int(np.argmax(np.append(lane.code[last + 1 :] != GAP, True)))
    if following < len(lane.code):
        is_active = lane.code[following] in (BLIP, BUSY)
        return bool(is_active and lane.atoms.start_ms[following] - lane.atoms.end_ms[last] <= bridge_ms)
    return live_end_ms is not None and bool(live_end_ms - lane.atoms.end_ms[last] <= bridge_ms)
