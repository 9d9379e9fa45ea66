"""Conditions of lanes, and where parts of runs begin: maximal spans of one condition, cut where
entries are cut. Pure numpy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger.atoms import SPINNING, Atoms
from fleetwatch.ledger.lanes import BLIP, BUSY, GAP, QUIET, Lanes
from fleetwatch.ledger.nobody import Nobody
from fleetwatch.ledger.observations import Ints, Mask
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.ledger.quiet import QuietRuns

CONDITION_NUMBER = {condition: number for number, condition in enumerate(CONDITIONS)}
UNSEEN = -1  # no condition of its own: takes that of its neighbours, or is unobserved
Numbers = NDArray[np.int8]
_OF_NOBODY = {state: CONDITION_NUMBER[state] for state in ("free", "orphaned", "unavailable")}
# of codes, then of codes within a quiet run: a blip does not end it
_IN_RUN = BUSY + 1
_OF_CODE = np.full(2 * _IN_RUN, UNSEEN, dtype=np.int8)
_OF_CODE[[BLIP, BUSY]] = CONDITION_NUMBER["active"]
_OF_CODE[[QUIET, _IN_RUN + QUIET, _IN_RUN + BLIP, _IN_RUN + BUSY]] = CONDITION_NUMBER["quiet"]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The lanes' own positions and the condition of each; `joins_previous`: the run before goes on
    there.
    """

    own: Ints
    number: Numbers
    joins_previous: Mask


def numbers(lanes: Lanes, found: QuietRuns, atoms: Atoms, rest: Nobody) -> Numbers:
    """The condition of each position; UNSEEN in gaps and where it is not the lane's own."""
    number: Numbers = _OF_CODE[lanes.code + np.int8(_IN_RUN) * (found.run >= 0)]
    busy = np.flatnonzero(number == CONDITION_NUMBER["active"])
    number[busy[lanes.word[busy] & np.uint16(SPINNING) > 0]] = CONDITION_NUMBER["spinning"]
    if atoms.down is not None and atoms.is_drained is not None:
        number[lanes.own & (atoms.down[lanes.atom] >= 0) & ~atoms.is_drained[lanes.atom]] = (
            CONDITION_NUMBER["unavailable"]
        )
    nobodys = np.array(
        [_OF_NOBODY.get(label.state, UNSEEN) for label in atoms.labels], dtype=np.int8
    )
    number[: lanes.nobodys] = np.where(rest.own, nobodys[rest.label], UNSEEN)
    return number


def bridge(lanes: Lanes, found: QuietRuns, number: Numbers) -> Conditions:
    """Conditions with short gaps given to the run around them, as `number` says of the other
    positions (UNSEEN: a gap).
    """
    number = _over_gaps(lanes, found, number)
    own = np.flatnonzero(lanes.own)
    told, run = number[own], found.run[own]
    joins = np.zeros(len(own), dtype=bool)
    joins[1:] = (
        (told[1:] == told[:-1])
        & (run[1:] == run[:-1])
        & (lanes.lane[own[1:]] == lanes.lane[own[:-1]])
    )
    holes = np.flatnonzero(np.diff(own) > 1) + 1
    # a hole in the hold itself: joined when all of it is a short gap
    stretch = lanes.stretches.at(own[holes] - 1)
    joins[holes] &= (lanes.stretches.first[stretch] <= own[holes - 1] + 1) & (
        lanes.stretches.closed[stretch] == GAP
    )
    return Conditions(own, told, joins)


def _over_gaps(lanes: Lanes, found: QuietRuns, number: Numbers) -> Numbers:
    """The conditions with none of the lanes' own left UNSEEN."""
    stretches = lanes.stretches
    gaps = np.flatnonzero(stretches.code == GAP)
    if len(gaps) == 0:
        return number
    left = number[np.maximum(stretches.first[gaps] - 1, 0)]
    right = number[np.minimum(stretches.last[gaps] + 1, len(number) - 1)]
    quiet, nothing = CONDITION_NUMBER["quiet"], CONDITION_NUMBER["unobserved"]
    # a quiet run's own gaps are its already; others of quiet time lie between two runs
    is_bridged = (
        (stretches.closed[gaps] == GAP) & (left == right) & (left != quiet) & (left != UNSEEN)
    )
    told = np.where(found.of_stretch[gaps] >= 0, quiet, np.where(is_bridged, left, nothing)).astype(
        np.int8
    )
    of_stretch = np.full(len(stretches.first), UNSEEN, dtype=np.int8)
    of_stretch[gaps] = told
    filled = stretches.spread(of_stretch)
    return np.where(filled == UNSEEN, number, filled)
