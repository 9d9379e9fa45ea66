"""What jobs held and the GPU did in it: useful, underused, stalled, idle or starting.

Pure numpy.
"""

import itertools

import numpy as np

from fleetwatch.ledger.judgement.columns import (
    IDLE_RUN,
    NO_RUN,
    STARTING_RUN,
    Activity,
    Segments,
    Stretches,
    Timelines,
    of_rows,
)
from fleetwatch.ledger.judgement.labels import (
    GAPS,
    IDLE,
    INTERACTIVE,
    LABEL_SHIFT,
    NO_WINDOW,
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


def tier(kind: str) -> int:
    """Which of STALL_TIERS a stall is: waiting for requests is a service's nature."""
    return int(kind == "service")


def _label(job_kind: str, run: int, shade: int) -> Label:
    if run == NO_RUN:
        return WITHIN[tier(job_kind)]
    if run != IDLE_RUN:
        return GAPS[tier(job_kind)]
    return INTERACTIVE[shade % 2] if job_kind == "interactive" else IDLE[shade]


_SHADES = range(len(IDLE))
# kinds of inactive time: job kinds x runs x shades
_REST = (
    numbers(_label(*case) for case in itertools.product(JOB_KINDS, range(RUNS), _SHADES))
    << LABEL_SHIFT
)
# by why a window says nothing, from 1 on
_UNSEEN = numbers(UNSEEN[:1] + UNSEEN) << LABEL_SHIFT


def kinds(
    activity: Activity,
    segments: Segments,
    timelines: Timelines,
    stretches: Stretches,
    position: Ints,
) -> tuple[Kinds, Mask, Mask]:
    """Of positions in holders' timelines: the kind of what is not active there, with the signal
    and, where it is active too, the source of efficiency; where it is active; and where it starts.
    """
    row = timelines.row(position)
    rest, is_starting = (
        stretches.spread(values)[position] for values in _of_stretches(timelines, stretches)
    )
    kind = _REST[rest + of_rows(activity.shade, row)]
    kind += of_rows(activity.signal_and_source, row)
    unseen = of_rows(activity.unseen, row, none=NO_WINDOW)
    is_lost = unseen != 0
    kind[is_lost] = _UNSEEN[unseen[is_lost]]
    is_down = timelines.is_down[position]
    kind[is_down] = segments.down[timelines.segment[position[is_down]]] << LABEL_SHIFT
    is_lost |= is_down
    return kind, ~is_lost & ~of_rows(activity.quiet, row), ~is_lost & is_starting


def _of_stretches(timelines: Timelines, stretches: Stretches) -> tuple[Ints, Mask]:
    """Of each stretch where in _REST its shades begin, and whether it is a job's start."""
    numbered = {kind: number for number, kind in enumerate(JOB_KINDS)}
    # an unknown job kind is judged as batch
    job_kinds = np.array([numbered.get(owner.kind, 0) for owner in timelines.owners])
    case = RUNS * job_kinds[stretches.timeline] + stretches.verdict
    return case * len(IDLE), stretches.verdict == STARTING_RUN


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
    timelines: Timelines, stretches: Stretches, policy: Policy, *, position: Ints, rest_ms: Ints
) -> Ints:
    """How much of the rest is `starting`: in a run that starts, the time up to the grace."""
    grace_ms = np.array([policy.grace_ms(owner.kind) for owner in timelines.owners], dtype=np.int64)
    start_ms = timelines.start_ms(position)
    length_ms = timelines.end_ms(position) - start_ms
    end_ms = stretches.run_start_ms[stretches.at(position)] + grace_ms[timelines.timeline[position]]
    within = np.clip(end_ms - start_ms, 0, length_ms)
    return np.asarray(rest_ms * within // length_ms)
