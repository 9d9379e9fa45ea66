"""Parts of runs: maximal spans of one condition of a GPU and holder, cut where entries are cut. Pure numpy."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger import lanes
from fleetwatch.ledger.facts import NOBODY, Ints, Mask, RunParts
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.ledger.tally import Figure, figure_sums

CONDITION_NUMBER = {condition: number for number, condition in enumerate(CONDITIONS)}
UNSEEN = -1  # no condition of its own: takes that of its neighbours, or is unobserved


@dataclass(frozen=True, slots=True)
class Conditions:
    """The condition of each atom of a lane, and its quiet run (-1: none); `joins_previous`: the run before goes on here."""

    number: Ints
    run: Ints
    joins_previous: Mask


def bridge(lane: lanes.Lane, number: Ints, run: Ints) -> Conditions:
    """Conditions with short gaps given to the run around them, as `number` says of the other atoms (UNSEEN: a gap)."""
    number = _over_gaps(lane, number, run)
    own = np.flatnonzero(lane.own)
    joins = np.zeros(len(number), dtype=bool)
    if len(own) > 1:
        earlier, later = own[:-1], own[1:]
        goes_on = lane.atoms.end_ms[earlier] == lane.atoms.start_ms[later]
        if not goes_on.all():
            # a hole in the hold itself: joined when all of it is a short gap
            holes = np.cumsum(lane.closed != lanes.GAP)
            goes_on |= (holes[later - 1] - holes[earlier] == 0) & (later - earlier > 1)
        joins[later] = goes_on & (number[earlier] == number[later]) & (run[earlier] == run[later])
    return Conditions(number, run, joins)


def _over_gaps(lane: lanes.Lane, number: Ints, run: Ints) -> Ints:
    """The conditions with none of the lane's own left UNSEEN."""
    unseen = np.flatnonzero((number == UNSEEN) & lane.own)
    if len(unseen) == 0:
        return number
    is_gap = lane.code == lanes.GAP
    before, after = lanes.previous_known(is_gap)[unseen], lanes.next_known(is_gap)[unseen]
    left, right = number[np.maximum(before, 0)], number[np.minimum(after, len(number) - 1)]
    quiet, nothing = CONDITION_NUMBER["quiet"], CONDITION_NUMBER["unobserved"]
    # a quiet run's own gaps carry its number already; others of quiet time lie between two runs
    is_bridged = (lane.closed[unseen] == lanes.GAP) & (left == right) & (left != quiet) & (left != UNSEEN)
    told = number.copy()
    told[unseen] = np.where(run[unseen] >= 0, quiet, np.where(is_bridged, left, nothing))
    return told


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a lane's parts lie: its wanted atoms (`own`), and the position in them at which each part begins."""

    own: Ints
    starts: Ints


def cut_up(lane: lanes.Lane, conditions: Conditions, wanted: Mask) -> Cuts:
    """The parts of the lane's runs in the `wanted` atoms, of which there are some: broken where the condition or the cut changes."""
    own = np.flatnonzero(lane.own & wanted)
    cut, number = lane.atoms.cut[own], conditions.number[own]
    is_first = ~conditions.joins_previous[own]
    is_first[0] = True
    is_first[1:] |= (cut[1:] != cut[:-1]) | (number[1:] != number[:-1])
    return Cuts(own, np.flatnonzero(is_first))


def parts(
    lane: lanes.Lane,
    conditions: Conditions,
    cuts: Cuts,
    state_ms: Ints,
    *,
    gpu_id: int,
    job_id: int | None,
    figures: Mapping[str, Figure],
) -> RunParts:
    """The parts with any time: `state_ms` is theirs by state, `figures` are per atom."""
    own, starts = cuts.own, cuts.starts
    first, last = own[starts], own[np.append(starts[1:], len(own)) - 1]
    return RunParts(
        gpu_id=np.full(len(starts), gpu_id, dtype=np.int64),
        job_id=np.full(len(starts), NOBODY if job_id is None else job_id, dtype=np.int64),
        condition=conditions.number[first],
        start_ms=lane.atoms.start_ms[first],
        end_ms=lane.atoms.end_ms[last],
        continues=conditions.joins_previous[first],
        state_ms=state_ms,
        figures=figure_sums(starts, {name: figure.part(own) for name, figure in figures.items()}),
    ).where(np.asarray(state_ms.any(axis=1)))
