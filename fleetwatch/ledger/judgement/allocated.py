"""What jobs held and the GPU did in it: useful, underused, stalled, idle or starting.

Pure numpy.
"""

import itertools

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    IDLE_RUN,
    NO_RUN,
    QUIET_BIT,
    SOURCE_AND_SIGNAL_SHIFT,
    STARTING_RUN,
    UNSEEN_MASK,
    ZERO_BIT,
    Activity,
    Segments,
    Stretches,
    Timelines,
)
from fleetwatch.ledger.judgement.labels import (
    GAP,
    IDLE,
    INTERACTIVE,
    LABEL_SHIFT,
    UNSEEN,
    WITHIN,
    Kinds,
    Label,
    numbers,
)
from fleetwatch.ledger.judgement.observations import Floats, Ints, Mask
from fleetwatch.ledger.judgement.shares import largest_remainder
from fleetwatch.ledger.policy import JOB_KINDS, Policy

RUNS = 4  # NO_RUN to STARTING_RUN
# what a window says of idle time: context and whether activity was exactly 0
_SHADES_SHIFT = ZERO_BIT.bit_length() - 1
_SHADES = 8


def tier(kind: str) -> int:
    """Which of STALL_TIERS a stall is: waiting for requests is a service's nature."""
    return int(kind == "service")


def _label(job_kind: str, run: int, shade: int) -> Label:
    if run == NO_RUN:
        return WITHIN[tier(job_kind)]
    if run != IDLE_RUN:
        return GAP[tier(job_kind)]
    return INTERACTIVE[shade % 2] if job_kind == "interactive" else IDLE[shade % len(IDLE)]


# kinds of inactive time by job kind, run and shade
_REST = (
    numbers(_label(*case) for case in itertools.product(JOB_KINDS, range(RUNS), range(_SHADES)))
    << LABEL_SHIFT
)
_UNSEEN = numbers(UNSEEN[:1] + UNSEEN) << LABEL_SHIFT  # by why a window says nothing, from 1 on


def kinds(
    timelines: Timelines, stretches: Stretches, segments: Segments, position: Ints
) -> tuple[Kinds, Mask, Mask]:
    """Of positions in holders' timelines: the kind of what is not active there, with the signal
    and, where it is active too, the source of efficiency; where it is active; and where it starts.
    """
    word = timelines.word[position]
    base = stretches.spread(_bases(timelines, stretches))[position]
    kind = _REST[base + (word >> _SHADES_SHIFT & (_SHADES - 1))]
    kind += (word >> SOURCE_AND_SIGNAL_SHIFT).astype(np.int16)
    is_lost = word & UNSEEN_MASK != 0
    kind[is_lost] = _UNSEEN[word[is_lost]]
    is_down = timelines.is_down[position]
    kind[is_down] = segments.down[timelines.segment[position[is_down]]] << LABEL_SHIFT
    is_lost |= is_down
    is_starting = base // _SHADES % RUNS == STARTING_RUN
    return kind, ~is_lost & (word & QUIET_BIT == 0), ~is_lost & is_starting


def _bases(timelines: Timelines, stretches: Stretches) -> np.ndarray:
    """Of each stretch where in _REST its shades begin."""
    job_kinds = [
        JOB_KINDS.index(owner.kind) if owner.kind in JOB_KINDS else 0 for owner in timelines.owners
    ]
    job_kind = np.array(job_kinds, dtype=np.uint8)[stretches.timeline]
    return (job_kind * np.uint8(RUNS) + stretches.verdict.astype(np.uint8)) * np.uint8(_SHADES)


def split(activity: Activity, row: Ints, total: Ints) -> Ints:
    """Useful, underused, spinning and inactive (rows) in whole milliseconds of each total."""
    spinning = activity.spinning[row]
    working = activity.working[row]
    weights: Floats = np.empty((4, len(row)))
    useful, underused, _, inactive = weights
    np.multiply(working, activity.efficiency[row], out=useful)
    np.subtract(working, useful, out=underused)
    weights[2] = spinning
    np.subtract(1.0 - spinning, working, out=inactive)
    np.maximum(inactive, 0.0, out=inactive)
    return largest_remainder(total, weights.T).T


def starting_ms(
    timelines: Timelines,
    stretches: Stretches,
    segments: Segments,
    policy: Policy,
    *,
    position: Ints,
    rest_ms: Ints,
) -> Ints:
    """How much of the rest is `starting`: in a run that starts, the time up to the grace."""
    grace_ms = np.array([policy.grace_ms(owner.kind) for owner in timelines.owners], dtype=np.int64)
    segment = timelines.segment[position]
    start_ms = segments.start_ms[segment]
    length_ms = segments.end_ms[segment] - start_ms
    end_ms = stretches.run_start_ms[stretches.at(position)] + grace_ms[timelines.timeline[position]]
    within = np.clip(end_ms - start_ms, 0, length_ms)
    return np.asarray(rest_ms * within // length_ms)
