"""Quiet runs of lanes: quiet spans judged whole, bridged across short gaps. Pure numpy."""

from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger.atoms import Atoms, Said
from fleetwatch.ledger.lanes import BARRIER, BLIP, BUSY, GAP, QUIET, Lanes, Stretches
from fleetwatch.ledger.observations import Ints, Mask
from fleetwatch.ledger.policy import Policy
from fleetwatch.lib.intervals import from_ms

STALLED, IDLE, STARTING = range(3)
NEVER_LIVE = -(2**53)


@dataclass(frozen=True, slots=True)
class QuietRuns:
    """The quiet runs of all lanes: of each position, and stretch, the run it belongs to (-1: none);
    of each run what it is.
    """

    run: Ints
    of_stretch: Ints
    start_ms: Ints
    end_ms: Ints
    verdict: Ints
    lane: Ints


def quiet_runs(lanes: Lanes, atoms: Atoms, said: Said, policy: Policy) -> QuietRuns:
    """The quiet runs of all lanes and what each is."""
    found = lanes.stretches
    quiet = np.flatnonzero(found.closed == QUIET)
    if len(quiet) == 0:
        none = np.zeros(0, dtype=np.int64)
        return QuietRuns(
            np.full(len(lanes.atom), -1), np.full(len(found.first), -1), none, none, none, none
        )
    linked = _linked(found, quiet, policy)
    run_of_quiet = np.append(0, np.cumsum(~linked))
    latest = np.cumsum(found.closed == QUIET) - 1
    in_run = (found.closed == QUIET) | (
        (latest >= 0) & np.append(linked, False)[np.maximum(latest, 0)]
    )
    of_stretch = np.where(in_run, run_of_quiet[latest], -1)
    first, last = quiet[np.append(True, ~linked)], quiet[np.append(~linked, True)]
    lane, start_ms, end_ms = found.lane[first], found.start_ms[first], found.end_ms[last]
    idle_ms = np.array([policy.idle_ms(one.kind) for one in lanes.whose], dtype=np.int64)
    verdict = np.where(end_ms - start_ms >= idle_ms[lane], IDLE, STALLED)
    begun = _begun_at_start(lanes, atoms, said, idle_ms, policy)
    run = of_stretch[found.at(begun)]
    run = run[found.first[first[run]] == begun]
    run = run[verdict[run] == STALLED]
    verdict[run[_ends_in_activity(lanes, atoms, said, last[run], policy)]] = STARTING
    return QuietRuns(found.spread(of_stretch), of_stretch, start_ms, end_ms, verdict, lane)


def _linked(found: Stretches, quiet: Ints, policy: Policy) -> Mask:
    """Whether each quiet stretch and the next one belong to one run: nothing but short gaps and few
    blips between.
    """
    stops = np.cumsum((found.closed == BARRIER) | (found.closed == BUSY))[quiet]
    blips = np.cumsum(found.closed == BLIP)[quiet]
    hop_ms = found.start_ms[quiet[1:]] - found.end_ms[quiet[:-1]]
    is_near = (blips[1:] == blips[:-1]) | (hop_ms <= 1000 * policy.blip_row_s)
    is_same = found.lane[quiet[1:]] == found.lane[quiet[:-1]]
    return np.asarray(is_same & (stops[1:] == stops[:-1]) & is_near)


def _begun_at_start(lanes: Lanes, atoms: Atoms, said: Said, idle_ms: Ints, policy: Policy) -> Ints:
    """The positions with which the first quiet window after an observed allocation start begins.

    A span that begins after the lane's first atom and not before the capacity is an observed start.
    """
    found = lanes.stretches
    lane, start, position = _starts(lanes, atoms)
    first = lanes.first[lane]
    # what is known from there on
    at = found.at(position)
    is_gap = found.code[at] == GAP
    is_open = is_gap & found.is_last[at]
    known = np.minimum(at + is_gap, len(found.first) - 1)
    quiet = np.where(is_gap, found.first[known], position)
    is_begun = ~is_open & (found.code[known] == QUIET)
    atom = lanes.atom[quiet]
    is_begun &= (
        atoms.start_ms[atom] - start <= policy.bridge_windows * said.length_ms[atoms.row[atom]]
    )
    # a hold that only goes on after an outage of telemetry is no start
    earlier = np.maximum(position - 1, 0)
    before = found.at(earlier)
    is_gap = found.code[before] == GAP
    is_lost = (position == first) | (is_gap & found.is_first[before])
    last = np.where(is_gap, found.last[np.maximum(before - 1, 0)], earlier)
    outage_ms = start - atoms.end_ms[lanes.atom[last]]
    resumes = ~is_lost & lanes.own[last] & (outage_ms > 0) & (outage_ms <= idle_ms[lane])
    return np.asarray(quiet[is_begun & ~resumes])


def _starts(lanes: Lanes, atoms: Atoms) -> tuple[Ints, Ints, Ints]:
    """Of each allocation start that was observed its lane, its time and the position that begins
    with it.
    """
    found: list[tuple[int, int, int]] = []
    bounds = lanes.first.tolist()
    for lane, one in enumerate(lanes.whose):
        if not one.spans:
            continue
        low, high = bounds[lane], bounds[lane + 1]
        first_ms = atoms.members[one.member].first_ms
        atom = int(lanes.atom[low])
        # a holder's lane has all atoms from its first to its last
        start_ms = atoms.start_ms[atom : atom + high - low]
        starts = [start for start, _ in one.spans]
        for start, place in zip(starts, np.searchsorted(start_ms, starts).tolist(), strict=True):
            if (
                start >= first_ms
                and place < len(start_ms)
                and start_ms[place] == start
                and (place > 0 or start == first_ms)
            ):
                found.append((lane, start, low + place))
    told = np.array(found, dtype=np.int64).reshape(-1, 3)
    return told[:, 0], told[:, 1], told[:, 2]


def _ends_in_activity(lanes: Lanes, atoms: Atoms, said: Said, last: Ints, policy: Policy) -> Mask:
    """Whether runs that end with these stretches ended in activity, or may yet: they are still
    open.
    """
    found = lanes.stretches
    end = len(found.first) - 1
    live_ms = [atoms.members[one.member].live_end_ms for one in lanes.whose]
    live_end_ms = np.array([NEVER_LIVE if ms is None else ms for ms in live_ms], dtype=np.int64)[
        found.lane[last]
    ]
    bridge_ms = policy.bridge_windows * said.length_ms[atoms.row[lanes.atom[found.last[last]]]]
    following = np.minimum(last + 1, end)
    is_gap = found.code[following] == GAP
    is_open = found.is_last[last] | (is_gap & found.is_last[following])
    following = np.minimum(following + is_gap, end)
    is_active = (found.code[following] == BLIP) | (found.code[following] == BUSY)
    is_followed = is_active & (found.start_ms[following] - found.end_ms[last] <= bridge_ms)
    is_live = (live_end_ms != NEVER_LIVE) & (live_end_ms - found.end_ms[last] <= bridge_ms)
    return np.asarray(np.where(is_open, is_live, is_followed))


def told(found: QuietRuns, run: int, kind: str, policy: Policy) -> str:
    """In words, what a quiet run is, and the limits that say so."""
    length_s, limit_s = (
        int(found.end_ms[run] - found.start_ms[run]) / 1000,
        policy.idle_ms(kind) / 1000,
    )
    since = f"{from_ms(int(found.start_ms[run])):%H:%M:%S}"
    if found.verdict[run] == IDLE:
        return (
            f"in a quiet run since {since} UTC of {length_s:g} s, at least T_idle of a {kind} job"
            f" ({limit_s:g} s): idle from its start"
        )
    if found.verdict[run] == STARTING:
        grace_s = policy.grace_ms(kind) / 1000
        return (
            f"in a quiet run since {since} UTC that begins at an observed allocation start:"
            f" starting for up to {grace_s:g} s, then stalled"
        )
    return (
        f"in a quiet run since {since} UTC of {length_s:g} s, shorter than T_idle of a {kind} job"
        f" ({limit_s:g} s): stalled"
    )
