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
    Segments,
    Stretches,
    Timelines,
)
from fleetwatch.ledger.judgement.observations import Ints, Mask
from fleetwatch.ledger.policy import Policy

NEVER_LIVE = -(2**53)


def of_timelines(timelines: Timelines, segments: Segments, policy: Policy) -> Stretches:
    """The stretches of all timelines, of which there are some; each with its quiet run and what
    that is.
    """
    stretches = _alike(timelines, segments, policy)
    quiet = np.flatnonzero(stretches.closed == QUIET)
    if len(quiet) == 0:
        return stretches
    linked = _linked(stretches, quiet, policy)
    run_of_quiet = np.append(0, np.cumsum(~linked))
    latest = np.cumsum(stretches.closed == QUIET) - 1
    in_run = (stretches.closed == QUIET) | (
        (latest >= 0) & np.append(linked, False)[np.maximum(latest, 0)]
    )
    run = np.where(in_run, run_of_quiet[latest], -1)
    first, last = quiet[np.append(True, ~linked)], quiet[np.append(~linked, True)]
    start_ms, end_ms = stretches.start_ms[first], stretches.end_ms[last]
    idle_ms = np.array([policy.idle_ms(owner.kind) for owner in timelines.owners], dtype=np.int64)
    is_idle = end_ms - start_ms >= idle_ms[stretches.timeline[first]]
    verdict = np.where(is_idle, IDLE_RUN, STALLED_RUN).astype(np.int8)
    begun = _begun_at_start(timelines, stretches, segments, idle_ms, policy)
    started = run[stretches.at(begun)]
    started = started[stretches.first[first[started]] == begun]
    started = started[verdict[started] == STALLED_RUN]
    ends_active = _ends_in_activity(timelines, stretches, segments, last[started], policy)
    verdict[started[ends_active]] = STARTING_RUN
    return replace(
        stretches,
        run=run,
        verdict=np.where(in_run, verdict[run], np.int8(NO_RUN)),
        run_start_ms=start_ms[run],
        run_end_ms=end_ms[run],
    )


def _alike(timelines: Timelines, segments: Segments, policy: Policy) -> Stretches:
    """The stretches, as if none were part of a run."""
    code, timeline, segment = timelines.code, timelines.timeline, timelines.segment
    is_begun = np.ones(len(code), dtype=bool)
    is_begun[1:] = (code[1:] != code[:-1]) | (timeline[1:] != timeline[:-1])
    first = np.flatnonzero(is_begun)
    last = np.append(first[1:], len(code)) - 1
    is_other = timeline[first[1:]] != timeline[first[:-1]]
    is_first, is_last = np.append(True, is_other), np.append(is_other, True)
    start_ms, end_ms = segments.start_ms[segment[first]], segments.end_ms[segment[last]]
    gap_ms = np.append(start_ms[1:], 0) - np.append(0, end_ms[:-1])
    bridge_ms = policy.bridge_windows * segments.window_ms[segment[np.append(0, last[:-1])]]
    is_closed = (code[first] == GAP) & (is_first | is_last | (gap_ms > bridge_ms))
    return Stretches(
        first=first,
        last=last,
        timeline=timeline[first],
        code=code[first],
        closed=np.where(is_closed, np.int8(BARRIER), code[first]),
        start_ms=start_ms,
        end_ms=end_ms,
        is_first=is_first,
        is_last=is_last,
        run=np.full(len(first), -1),
        verdict=np.full(len(first), NO_RUN, dtype=np.int8),
        run_start_ms=start_ms,
        run_end_ms=end_ms,
    )


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


def _begun_at_start(
    timelines: Timelines, stretches: Stretches, segments: Segments, idle_ms: Ints, policy: Policy
) -> Ints:
    """The positions with which the first quiet window after an observed allocation start begins.

    A span that begins after the timeline's first segment and not before the capacity is an observed
    start.
    """
    timeline, start, position = _starts(timelines, segments)
    first = timelines.first[timeline]
    # what is known from there on
    at = stretches.at(position)
    is_gap = stretches.code[at] == GAP
    is_open = is_gap & stretches.is_last[at]
    known = np.minimum(at + is_gap, len(stretches.first) - 1)
    quiet = np.where(is_gap, stretches.first[known], position)
    is_begun = ~is_open & (stretches.code[known] == QUIET)
    segment = timelines.segment[quiet]
    is_begun &= (
        segments.start_ms[segment] - start <= policy.bridge_windows * segments.window_ms[segment]
    )
    # a hold that only goes on after an outage of telemetry is no start
    earlier = np.maximum(position - 1, 0)
    before = stretches.at(earlier)
    is_gap = stretches.code[before] == GAP
    is_lost = (position == first) | (is_gap & stretches.is_first[before])
    last = np.where(is_gap, stretches.last[np.maximum(before - 1, 0)], earlier)
    outage_ms = start - segments.end_ms[timelines.segment[last]]
    resumes = ~is_lost & timelines.is_own[last] & (outage_ms > 0) & (outage_ms <= idle_ms[timeline])
    return np.asarray(quiet[is_begun & ~resumes])


def _starts(timelines: Timelines, segments: Segments) -> tuple[Ints, Ints, Ints]:
    """Of each allocation start that was observed its timeline, its time and the position that
    begins with it.
    """
    observed: list[tuple[int, int, int]] = []
    bounds = timelines.first.tolist()
    for timeline, owner in enumerate(timelines.owners):
        if not owner.spans:
            continue
        low, high = bounds[timeline], bounds[timeline + 1]
        first_ms = owner.member.first_ms
        segment = int(timelines.segment[low])
        # a holder's timeline has all segments from its first to its last
        start_ms = segments.start_ms[segment : segment + high - low]
        starts = [start for start, _ in owner.spans]
        for start, place in zip(starts, np.searchsorted(start_ms, starts).tolist(), strict=True):
            if (
                start >= first_ms
                and place < len(start_ms)
                and start_ms[place] == start
                and (place > 0 or start == first_ms)
            ):
                observed.append((timeline, start, low + place))
    columns = np.array(observed, dtype=np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _ends_in_activity(
    timelines: Timelines, stretches: Stretches, segments: Segments, last: Ints, policy: Policy
) -> Mask:
    """Whether runs that end with these stretches ended in activity, or may yet: they are still
    open.
    """
    end = len(stretches.first) - 1
    live_ms = [owner.member.live_end_ms for owner in timelines.owners]
    live_end_ms = np.array([NEVER_LIVE if ms is None else ms for ms in live_ms], dtype=np.int64)[
        stretches.timeline[last]
    ]
    bridge_ms = policy.bridge_windows * segments.window_ms[timelines.segment[stretches.last[last]]]
    following = np.minimum(last + 1, end)
    is_gap = stretches.code[following] == GAP
    is_open = stretches.is_last[last] | (is_gap & stretches.is_last[following])
    following = np.minimum(following + is_gap, end)
    is_active = (stretches.code[following] == BLIP) | (stretches.code[following] == BUSY)
    is_followed = is_active & (stretches.start_ms[following] - stretches.end_ms[last] <= bridge_ms)
    is_live = (live_end_ms != NEVER_LIVE) & (live_end_ms - stretches.end_ms[last] <= bridge_ms)
    return np.asarray(np.where(is_open, is_live, is_followed))
