"""The condition of each place, and where parts of runs begin: maximal spans of one condition, cut
where entries are cut. Pure numpy.
"""

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    BLIP,
    BUSY,
    GAP,
    QUIET,
    Activity,
    Segments,
    Stretches,
    Timelines,
    of_rows,
)
from fleetwatch.ledger.judgement.labels import Codes
from fleetwatch.ledger.judgement.observations import Ints, Mask
from fleetwatch.ledger.policy import CONDITIONS

CONDITION_NUMBER = {condition: number for number, condition in enumerate(CONDITIONS)}
UNSEEN = -1  # no condition of its own: takes that of its neighbours, or is unobserved
_QUIET = CONDITION_NUMBER["quiet"]
_OF_NOBODY = {state: CONDITION_NUMBER[state] for state in ("free", "orphaned", "unavailable")}
# of codes, then of codes within a quiet run: a blip does not end it
_IN_RUN = BUSY + 1
_OF_CODE = np.full(2 * _IN_RUN, UNSEEN, dtype=np.int8)
_OF_CODE[[BLIP, BUSY]] = CONDITION_NUMBER["active"]
_OF_CODE[[QUIET, _IN_RUN + QUIET, _IN_RUN + BLIP, _IN_RUN + BUSY]] = _QUIET


def of_positions(
    activity: Activity, segments: Segments, timelines: Timelines, stretches: Stretches
) -> tuple[Ints, Codes, Mask]:
    """The timelines' own positions, the condition of each, and whether the run before goes on
    there.
    """
    run = stretches.spread(stretches.run)
    number = _over_gaps(stretches, _of_windows(activity, segments, timelines, run))
    position = np.flatnonzero(timelines.is_own)
    return position, number[position], _joins_previous(timelines, stretches, position, number, run)


def _of_windows(activity: Activity, segments: Segments, timelines: Timelines, run: Ints) -> Codes:
    """The condition of each position; UNSEEN in gaps and where it is not the timeline's own."""
    number: Codes = _OF_CODE[timelines.code + np.int8(_IN_RUN) * (run >= 0)]
    busy = np.flatnonzero(number == CONDITION_NUMBER["active"])
    is_spinning = of_rows(activity.spinning > activity.working, timelines.row(busy))
    number[busy[is_spinning]] = CONDITION_NUMBER["spinning"]
    number[timelines.is_own & timelines.is_down] = CONDITION_NUMBER["unavailable"]
    of_nobody = np.array(
        [_OF_NOBODY.get(label.state, UNSEEN) for label in segments.labels], dtype=np.int8
    )
    is_own = timelines.is_own[: timelines.unallocated]
    number[: timelines.unallocated] = np.where(is_own, of_nobody[timelines.label], UNSEEN)
    return number


def _over_gaps(stretches: Stretches, number: Codes) -> Codes:
    """The conditions with short gaps given to the run around them, and none of the timelines' own
    left UNSEEN.
    """
    gaps = np.flatnonzero(stretches.code == GAP)
    if len(gaps) == 0:
        return number
    of_stretch = np.full(len(stretches.first), UNSEEN, dtype=np.int8)
    in_run = stretches.run[gaps] >= 0
    of_stretch[gaps] = np.where(in_run, _QUIET, _between(stretches, number, gaps))
    filled = stretches.spread(of_stretch)
    return np.where(filled == UNSEEN, number, filled)


def _between(stretches: Stretches, number: Codes, gaps: Ints) -> Codes:
    """The condition of gaps in no quiet run: what goes on across them, else unobserved."""
    left = number[np.maximum(stretches.first[gaps] - 1, 0)]
    right = number[np.minimum(stretches.last[gaps] + 1, len(number) - 1)]
    is_short = stretches.closed[gaps] == GAP
    # quiet time beside a gap that is in no run lies in two of them
    is_bridged = is_short & (left == right) & (left != _QUIET) & (left != UNSEEN)
    return np.where(is_bridged, left, CONDITION_NUMBER["unobserved"])


def _joins_previous(
    timelines: Timelines, stretches: Stretches, position: Ints, number: Codes, run: Ints
) -> Mask:
    """Whether each of these positions is of the same run as the one before it."""
    here = position[1:]
    before = position[:-1]
    joins = np.zeros(len(position), dtype=bool)
    joins[1:] = (
        (number[here] == number[before])
        & (run[here] == run[before])
        & (timelines.timeline[here] == timelines.timeline[before])
    )
    holes = np.flatnonzero(np.diff(position) > 1) + 1
    # a hole in the hold itself: joined when all of it is a short gap
    stretch = stretches.at(position[holes] - 1)
    joins[holes] &= (stretches.first[stretch] <= position[holes - 1] + 1) & (
        stretches.closed[stretch] == GAP
    )
    return joins
