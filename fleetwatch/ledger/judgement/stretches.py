"""Stretches of timelines, and their quiet runs: quiet spans judged whole, bridged across short
gaps. Pure numpy.
"""

from dataclasses import replace

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    BARRIER,
    BLIP,
    BUSY,
    GAP,
    IDLE_RUN,
    NO_RUN,
    QUIET,
    STALLED_RUN,
    STARTING_RUN,
    Stretches,
    Timelines,
    changes,
)
from fleetwatch.ledger.judgement.gpu_segments import TIME_BITS
from fleetwatch.ledger.judgement.labels import Codes
from fleetwatch.ledger.judgement.observations import Ints, Mask
from fleetwatch.ledger.policy import Policy


def of_timelines(timelines: Timelines, policy: Policy) -> Stretches:
    """The stretches of all timelines, of which there are some; each with its quiet run and what
    that is.
    """
    stretches = _alike(timelines)
    quiet = np.flatnonzero(stretches.closed == QUIET)
    if len(quiet) == 0:
        return stretches
    linked = _linked(stretches, quiet, policy)
    first = quiet[np.append(True, ~linked)]
    last = quiet[np.append(~linked, True)]
    verdict = _verdicts(timelines, stretches, policy, first=first, last=last)
    run = _runs(len(stretches.first), first, last)
    return replace(
        stretches,
        run=run,
        verdict=np.append(verdict, np.int8(NO_RUN))[run],
        run_start_ms=stretches.start_ms[first][run],
        run_end_ms=stretches.end_ms[last][run],
    )


def _runs(count: int, first: Ints, last: Ints) -> Ints:
    """Of so many stretches the number of the run that each lies in, by the runs' first and last
    ones; -1 in none.
    """
    stretch = np.arange(count)
    run = np.searchsorted(first, stretch, side="right") - 1
    return np.where((run >= 0) & (stretch <= last[run]), run, -1)


def _verdicts(
    timelines: Timelines, stretches: Stretches, policy: Policy, *, first: Ints, last: Ints
) -> Codes:
    """What each quiet run is that begins and ends with these stretches."""
    idle_ms = np.array([policy.idle_ms(owner.kind) for owner in timelines.owners], dtype=np.int64)
    length_ms = stretches.end_ms[last] - stretches.start_ms[first]
    is_idle = length_ms >= idle_ms[stretches.timeline[first]]
    verdict = np.where(is_idle, IDLE_RUN, STALLED_RUN).astype(np.int8)
    starts = _quiet_starts(timelines, stretches, idle_ms)
    started = np.flatnonzero(~is_idle & np.isin(stretches.first[first], starts))
    ends_active = _ends_in_activity(timelines, stretches, last[started])
    verdict[started[ends_active]] = STARTING_RUN
    return verdict


def _alike(timelines: Timelines) -> Stretches:
    """The stretches, as if none were part of a run."""
    first = np.flatnonzero(changes(timelines.code) | changes(timelines.timeline))
    last = np.append(first[1:], len(timelines.code)) - 1
    timeline = timelines.timeline[first]
    code = timelines.code[first]
    is_first = changes(timeline)
    start_ms = timelines.start_ms(first)
    end_ms = timelines.end_ms(last)
    stretches = Stretches(
        first=first,
        last=last,
        timeline=timeline,
        code=code,
        closed=code,
        start_ms=start_ms,
        end_ms=end_ms,
        is_first=is_first,
        is_last=np.append(is_first[1:], True),
        run=np.full(len(first), -1),
        verdict=np.full(len(first), NO_RUN, dtype=np.int8),
        run_start_ms=start_ms,
        run_end_ms=end_ms,
    )
    return replace(stretches, closed=_closed(stretches, timelines))


def _closed(stretches: Stretches, timelines: Timelines) -> Codes:
    """The codes, with every gap that no run continues across turned into a barrier."""
    gap_ms = np.append(stretches.start_ms[1:], 0) - np.append(0, stretches.end_ms[:-1])
    is_long = gap_ms > np.append(0, timelines.bridge_ms(stretches.last[:-1]))
    is_closed = (stretches.code == GAP) & (stretches.is_first | stretches.is_last | is_long)
    return np.where(is_closed, np.int8(BARRIER), stretches.code)


def _linked(stretches: Stretches, quiet: Ints, policy: Policy) -> Mask:
    """Whether each quiet stretch and the next one belong to one run: nothing but short gaps and few
    blips between.
    """
    stops = np.cumsum((stretches.closed == BARRIER) | (stretches.closed == BUSY))[quiet]
    blips = np.cumsum(stretches.closed == BLIP)[quiet]
    hop_ms = stretches.start_ms[quiet[1:]] - stretches.end_ms[quiet[:-1]]
    is_near = (blips[1:] == blips[:-1]) | (hop_ms <= 1000 * policy.blip_row_s)
    is_same = stretches.timeline[quiet[1:]] == stretches.timeline[quiet[:-1]]
    return np.asarray(is_same & (stops[1:] == stops[:-1]) & is_near)


def _beyond_gap(stretches: Stretches, at: Ints, step: int) -> tuple[Ints, Mask]:
    """These stretches, or where they are gaps the next ones in that direction; and whether the
    timeline ends with the gap.
    """
    is_gap = stretches.code[at] == GAP
    is_end = stretches.is_last if step > 0 else stretches.is_first
    return np.clip(at + step * is_gap, 0, len(is_end) - 1), is_gap & is_end[at]


def _quiet_starts(timelines: Timelines, stretches: Stretches, idle_ms: Ints) -> Ints:
    """The positions with which the first quiet window after an observed allocation start begins.

    A span that begins after the timeline's first segment and not before the capacity is an observed
    start.
    """
    start_ms, position = _starts(timelines)
    at = stretches.at(position)
    following, is_open = _beyond_gap(stretches, at, 1)
    quiet = np.where(following > at, stretches.first[following], position)
    is_begun = (
        ~is_open
        & (stretches.code[following] == QUIET)
        & (timelines.start_ms(quiet) - start_ms <= timelines.bridge_ms(quiet))
    )
    resumes = _resumes(timelines, stretches, position, idle_ms)
    return np.asarray(quiet[is_begun & ~resumes])


def _resumes(timelines: Timelines, stretches: Stretches, position: Ints, idle_ms: Ints) -> Mask:
    """Whether the starts at these positions only go on with a hold after an outage of telemetry:
    they are none.
    """
    timeline = timelines.timeline[position]
    earlier = np.maximum(position - 1, 0)
    at = stretches.at(earlier)
    before, is_lost = _beyond_gap(stretches, at, -1)
    last = np.where(before < at, stretches.last[before], earlier)
    outage_ms = timelines.start_ms(position) - timelines.end_ms(last)
    is_short = (outage_ms > 0) & (outage_ms <= idle_ms[timeline])
    is_later = position > timelines.first[timeline]
    return np.asarray(is_later & timelines.is_own[last] & is_short & ~is_lost)


def _starts(timelines: Timelines) -> tuple[Ints, Ints]:
    """Of each allocation start that was observed its time and the position that begins with it."""
    starts = [
        (timeline, owner.member.first_ms, start_ms)
        for timeline, owner in enumerate(timelines.owners)
        for start_ms, _ in owner.spans
    ]
    timeline, first_ms, start_ms = np.array(starts, dtype=np.int64).reshape(-1, 3).T
    start_of = timelines.segments.start_ms[timelines.segment]
    begins = timelines.timeline << TIME_BITS | start_of
    wanted = timeline << TIME_BITS | start_ms
    position = np.searchsorted(begins, wanted)
    is_after = position > timelines.first[timeline]
    is_observed = (
        (np.append(begins, -1)[position] == wanted)
        & (start_ms >= first_ms)
        & (is_after | (start_ms == first_ms))
    )
    return start_ms[is_observed], position[is_observed]


def _ends_in_activity(timelines: Timelines, stretches: Stretches, last: Ints) -> Mask:
    """Whether runs that end with these stretches ended in activity, or may yet: they are still
    open.
    """
    live_ms = [owner.member.live_end_ms for owner in timelines.owners]
    # None becomes NaN, which is near nothing
    live_end_ms = np.array(live_ms, dtype=np.float64)[stretches.timeline[last]]
    bridge_ms = timelines.bridge_ms(stretches.last[last])
    at = np.minimum(last + 1, len(stretches.first) - 1)
    following, is_open = _beyond_gap(stretches, at, 1)
    is_active = np.isin(stretches.code[following], (BLIP, BUSY))
    is_followed = is_active & (stretches.start_ms[following] - stretches.end_ms[last] <= bridge_ms)
    is_live = live_end_ms - stretches.end_ms[last] <= bridge_ms
    return np.where(is_open | stretches.is_last[last], is_live, is_followed)
