"""What jobs held and the GPU did in it: useful, underused, stalled, idle or starting.

Pure numpy.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger.activity import Activity
from fleetwatch.ledger.atoms import QUIET, SOURCE_AND_SIGNAL_SHIFT, UNSEEN_MASK, ZERO, Atoms
from fleetwatch.ledger.labels import (
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
from fleetwatch.ledger.lanes import Lanes
from fleetwatch.ledger.observations import Floats, Ints
from fleetwatch.ledger.policy import Policy
from fleetwatch.ledger.quiet import IDLE as IS_IDLE
from fleetwatch.ledger.quiet import STARTING as IS_STARTING
from fleetwatch.ledger.quiet import QuietRuns
from fleetwatch.ledger.shares import largest_remainder

# Of a job's quiet time: it belongs to no run, to one that is too short, that is idle, that is
# starting.
NO_RUN, SHORT, LONG, BEGINNING = range(4)
JOB_KINDS = ("batch", "interactive", "service")
# what a window says of idle time: context and whether activity was exactly 0
_SHADES_SHIFT, _SHADES = ZERO.bit_length() - 1, 8


def tier(kind: str) -> int:
    """Which of STALL_TIERS a stall is: waiting for requests is a service's nature."""
    return int(kind == "service")


def _label(job_kind: str, run: int, shade: int) -> Label:
    if run == NO_RUN:
        return WITHIN[tier(job_kind)]
    if run != LONG:
        return GAP[tier(job_kind)]
    return INTERACTIVE[shade % 2] if job_kind == "interactive" else IDLE[shade % len(IDLE)]


# kinds of inactive time by job kind, run and shade
_REST = (
    numbers(_label(*one) for one in itertools.product(JOB_KINDS, range(4), range(_SHADES)))
    << LABEL_SHIFT
)
_UNSEEN = numbers(UNSEEN[:1] + UNSEEN) << LABEL_SHIFT  # by why a window says nothing, from 1 on


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds of what jobs held, as the windows say; one value per place, which is an atom in
    a lane.
    """

    # of what was not active: with the signal and, where it was active too, the source of efficiency
    kind: Kinds
    rest_ms: Ints
    busy: Ints  # the places with activity
    active_ms: tuple[Ints, Ints, Ints]  # useful, underused, spinning, of each of them
    starting: Ints  # the places in runs that start
    starting_ms: Ints


def spent(
    lanes: Lanes, found: QuietRuns, atoms: Atoms, acts: Activity, policy: Policy, *, position: Ints
) -> Spent:
    """What the positions, all in holders' lanes, are."""
    atom, word = lanes.atom[position], lanes.word[position]
    base = lanes.stretches.spread(_bases(lanes, found))[position]
    shade = (word >> np.uint16(_SHADES_SHIFT)) & np.uint16(_SHADES - 1)
    kind = _REST[base + shade]
    kind += (word >> np.uint16(SOURCE_AND_SIGNAL_SHIFT)).astype(np.int16)
    is_lost = word & np.uint16(UNSEEN_MASK) != 0
    lost = np.flatnonzero(is_lost)
    kind[lost] = _UNSEEN[word[lost]]
    if atoms.down is not None and atoms.is_drained is not None:
        is_down = (atoms.down[atom] >= 0) & ~atoms.is_drained[atom]
        kind[is_down] = atoms.down[atom[is_down]] << LABEL_SHIFT
        is_lost |= is_down
    rest_ms = lanes.gpu_ms[position]
    busy = np.flatnonzero((word & np.uint16(QUIET) == 0) & ~is_lost)
    useful, underused, spinning, rest = _split(acts, atoms.row[atom[busy]], rest_ms[busy])
    rest_ms[busy] = rest
    starting = np.flatnonzero((base // _SHADES % 4 == BEGINNING) & ~is_lost)
    starting_ms = _starting_ms(
        lanes, found, atoms, policy, position=position[starting], rest_ms=rest_ms[starting]
    )
    rest_ms[starting] -= starting_ms
    return Spent(kind, rest_ms, busy, (useful, underused, spinning), starting, starting_ms)


def _bases(lanes: Lanes, found: QuietRuns) -> np.ndarray:
    """Of each stretch where in _REST its shades begin."""
    kinds = [JOB_KINDS.index(one.kind) if one.kind in JOB_KINDS else 0 for one in lanes.whose]
    kind = np.array(kinds, dtype=np.uint8)[lanes.stretches.lane]
    run = np.full(len(found.verdict) + 1, SHORT, dtype=np.uint8)
    run[:-1][found.verdict == IS_IDLE] = LONG
    run[:-1][found.verdict == IS_STARTING] = BEGINNING
    run[-1] = NO_RUN
    return (kind * np.uint8(4) + run[found.of_stretch]) * np.uint8(_SHADES)


def _split(acts: Activity, row: Ints, total: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Useful, underused, spinning and inactive in whole milliseconds of each total."""
    spinning, working, efficiency = acts.spinning[row], acts.working[row], acts.efficiency[row]
    weights: Floats = np.empty((4, len(row)))
    useful, underused, _, inactive = weights
    np.multiply(working, efficiency, out=useful)
    np.subtract(working, useful, out=underused)
    weights[2] = spinning
    np.subtract(1.0 - spinning, working, out=inactive)
    np.maximum(inactive, 0.0, out=inactive)
    parts = largest_remainder(total, weights.T)
    return parts[:, 0], parts[:, 1], parts[:, 2], parts[:, 3]


def _starting_ms(
    lanes: Lanes, found: QuietRuns, atoms: Atoms, policy: Policy, *, position: Ints, rest_ms: Ints
) -> Ints:
    """How much of the rest is `starting`: in a run that starts, the time up to the grace."""
    run = found.of_stretch[lanes.stretches.at(position)]
    grace_ms = np.array([policy.grace_ms(one.kind) for one in lanes.whose], dtype=np.int64)[
        found.lane[run]
    ]
    atom = lanes.atom[position]
    start_ms = atoms.start_ms[atom]
    length_ms = atoms.end_ms[atom] - start_ms
    within = np.clip(found.start_ms[run] + grace_ms - start_ms, 0, length_ms)
    return np.asarray(rest_ms * within // length_ms)
