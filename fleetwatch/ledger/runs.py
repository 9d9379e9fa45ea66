"""Parts of runs: maximal spans of one condition of a GPU and holder, cut where entries are cut. Pure numpy."""

from dataclasses import dataclass

import numpy as np

from fleetwatch.ledger import lanes
from fleetwatch.ledger.facts import NOBODY, Floats, Ints, Mask, RunParts
from fleetwatch.ledger.policy import CONDITIONS
from fleetwatch.ledger.tally import Tally, figure_sums

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


def parts(
    lane: lanes.Lane, conditions: Conditions, tally: Tally, wanted: Mask, *, gpu_id: int, job_id: int | None, columns: dict[str, Floats]
) -> RunParts | None:
    """The parts of the lane's runs in the `wanted` atoms, None without any; `columns` are values per atom (NaN: not read)."""
    own = np.flatnonzero(lane.own & wanted)
    if len(own) == 0:
        return None
    cut, number = lane.atoms.cut[own], conditions.number[own]
    joins = conditions.joins_previous[own]
    is_first = ~joins
    is_first[0] = True
    is_first[1:] |= (cut[1:] != cut[:-1]) | (number[1:] != number[:-1])
    starts = np.flatnonzero(is_first)
    part_of_atom = np.full(len(lane.own), -1, dtype=np.int64)
    part_of_atom[own] = np.cumsum(is_first) - 1
    ends = np.append(starts[1:], len(own)) - 1
    state_ms = tally.state_ms(part_of_atom=part_of_atom, parts=len(starts))
    sums = figure_sums(starts, weights_ms=lane.atoms.length_ms[own], columns={name: values[own] for name, values in columns.items()})
    return RunParts(
        gpu_id=np.full(len(starts), gpu_id, dtype=np.int64),
        job_id=np.full(len(starts), NOBODY if job_id is None else job_id, dtype=np.int64),
        condition=number[starts],
        start_ms=lane.atoms.start_ms[own[starts]],
        end_ms=lane.atoms.end_ms[own[ends]],
        continues=joins[starts],
        state_ms=state_ms,
        figures=sums,
    ).where(np.asarray(state_ms.any(axis=1)))
