"""One state per GPU-millisecond: columns, allocations and events in; entries and runs out. Pure
numpy.

The judgement of a millisecond depends on no window farther away than Policy.reach_ms,
so that hours judged one by one, with that much context, sum to days judged at once.
All GPUs of a node and all their holders are judged in the same passes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetwatch.ledger import (
    activity,
    atoms,
    cell_states,
    family,
    holders,
    lanes,
    nobody,
    quiet,
    runs,
    tally,
)
from fleetwatch.ledger.activity import Activity
from fleetwatch.ledger.atoms import Atoms, Said
from fleetwatch.ledger.holders import Spent
from fleetwatch.ledger.labels import LABEL_SHIFT, MISSING, NUMBER, SILENT, Kinds
from fleetwatch.ledger.lanes import Lanes
from fleetwatch.ledger.nobody import Nobody
from fleetwatch.ledger.observations import (
    NO_ENTRIES,
    NOBODY,
    Ints,
    Judgement,
    Mask,
    Question,
    RunParts,
    column,
)
from fleetwatch.ledger.quiet import QuietRuns
from fleetwatch.ledger.runs import Conditions
from fleetwatch.ledger.tally import Figure, Groups, Tally

# why a GPU that nobody was given is not simply free, by the reason of its label
WHY = {
    "missing": "no window covers it, and nothing says that it was down",
    "silent": "its node gave no sign of life any more, and nothing says that it was down",
    "allocation_unknown": "nobody says whether it was allocated, and that decides",
    "unexplained_work": "no job and no process is named, but it works, and nobody knows for whom",
    "no_signal": "no allocation, and what was read does not say that nothing holds it",
    "process": "no allocation, but a process holds it",
    "dead_process": "no allocation, but a process that is dead or stuck holds it",
    "memory": "no allocation, but memory on it is in use without a process",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """A node's time, atom by atom of each lane: what is summed, and what explain tells."""

    question: Question
    acts: Activity
    said: Said
    atoms: Atoms
    lanes: Lanes
    found: QuietRuns
    conditions: Conditions
    wanted: Ints  # which of the conditions' positions were asked for: the places of the tally
    tally: Tally

    @property
    def position(self) -> Ints:
        """The position in the lanes of each place."""
        return self.conditions.own[self.wanted]


def judge(question: Question) -> Judgement:
    """The entries and parts of runs of every GPU in the target cuts; their milliseconds sum to its
    capacity exactly.
    """
    judged = judged_lanes(question)
    return (
        Judgement(NO_ENTRIES, RunParts.joined([]), cell_states.joined([]))
        if judged is None
        else _summed(judged)
    )


def judged_lanes(question: Question) -> Judged | None:
    """Each GPU and holder (and what nobody holds) on its timeline, with all that its judgement
    rests on; None without capacity.
    """
    policy = question.policy
    idle_w, limit_w = activity.boards(question.windows, question.capacities)
    acts = activity.read(question.windows, idle_w=idle_w, limit_w=limit_w, policy=policy)
    members = list(family.members(question, acts))
    if not members:
        return None
    line, said = atoms.joined(members), atoms.said(question, acts, limit_w)
    rest = nobody.judge(question, line, said)
    own = lanes.laid(line, said, rest, policy)
    found = quiet.quiet_runs(own, line, said, policy)
    conditions = runs.bridge(own, found, runs.numbers(own, found, line, rest))
    start_ms = line.start_ms[own.atom[conditions.own]]
    wanted = np.flatnonzero((start_ms >= question.target[0]) & (start_ms < question.target[1]))
    if len(wanted) == 0:
        return None
    position = conditions.own[wanted]
    nobodys = int(np.searchsorted(position, own.nobodys))
    told = holders.spent(own, found, line, acts, policy, position=position[nobodys:])
    counted = _tally(line, own, rest, told, position=position, silent_ms=question.silent_ms)
    return Judged(question, acts, said, line, own, found, conditions, wanted, counted)


def _tally(
    line: Atoms, own: Lanes, rest: Nobody, told: Spent, *, position: Ints, silent_ms: int
) -> Tally:
    """What nobody and what jobs spent, as one."""
    nobodys = len(position) - len(told.kind)
    of_nobody = position[:nobodys]
    atom = own.atom[position]
    kind = np.append(rest.label[of_nobody] << LABEL_SHIFT, told.kind)
    return Tally(
        lane=own.lane[position],
        atom=atom,
        kind=_with_silence(kind, line.start_ms[atom] >= silent_ms),
        rest_ms=np.append(own.gpu_ms[of_nobody], told.rest_ms),
        busy=told.busy + nobodys,
        active_ms=told.active_ms,
        starting=told.starting + nobodys,
        starting_ms=told.starting_ms,
        stall_tier=np.array([holders.tier(one.kind) for one in own.whose], dtype=np.int64),
        labels=line.labels,
    )


def _with_silence(kind: Kinds, is_silent: Mask) -> Kinds:
    """The kinds, with what is missing since the node's last sign of life called so."""
    kind[is_silent & (kind >> LABEL_SHIFT == NUMBER[MISSING])] = NUMBER[SILENT] << LABEL_SHIFT
    return kind


def _summed(judged: Judged) -> Judgement:
    """Entries, parts and cells: sums of the same small sums over neighbouring atoms."""
    line, told, said = judged.atoms, judged.tally, judged.said
    cut, start_ms, row = line.cut[told.atom], line.start_ms[told.atom], line.row[told.atom]
    energy_row = row if line.energy_row is line.row else line.energy_row[told.atom]
    is_metered = said.is_metered[energy_row]
    is_group = _changes(told.lane) | _changes(cut)
    is_part = is_group | ~judged.conditions.joins_previous[judged.wanted]
    is_slot = is_part | _changes(start_ms // cell_states.CELL_MS) | _changes(is_metered)
    sums = tally.sums(told, is_slot)
    gpu_id = np.array(
        [line.members[one.member].gpu_id for one in judged.lanes.whose], dtype=np.int64
    )
    job_id = np.array(
        [NOBODY if one.job_id is None else one.job_id for one in judged.lanes.whose], dtype=np.int64
    )
    group, part = np.flatnonzero(is_group), np.flatnonzero(is_part)
    lane = told.lane[group]
    groups = Groups(
        (np.cumsum(is_group) - 1)[sums.first],
        gpu_id[lane],
        job_id[lane],
        judged.question.cuts[cut[group]],
    )
    state_ms = tally.state_ms(
        told, sums, part=(np.cumsum(is_part) - 1)[sums.first], parts=len(part)
    )
    last = np.append(part[1:], len(is_part)) - 1
    parts = RunParts(
        gpu_id=gpu_id[told.lane[part]],
        job_id=job_id[told.lane[part]],
        condition=judged.conditions.number[judged.wanted[part]].astype(np.int64),
        start_ms=start_ms[part],
        end_ms=line.end_ms[told.atom[last]],
        continues=judged.conditions.joins_previous[judged.wanted[part]],
        state_ms=state_ms,
        figures=tally.figure_sums(
            part, _figures(judged), row=row, length_ms=line.end_ms[told.atom] - start_ms
        ),
    ).where(np.asarray(state_ms.any(axis=1)))
    nobodys = int(np.searchsorted(told.lane, sum(one.job_id is None for one in judged.lanes.whose)))
    return Judgement(
        tally.entries(
            told, sums, groups, is_read=is_metered, joules_per_ms=said.joules_per_ms[energy_row]
        ),
        parts,
        cell_states.rows(
            told, sums, holders=nobodys, gpu_id=gpu_id, job_id=job_id, start_ms=start_ms
        ),
    )


def _changes(values: NDArray[Any]) -> Mask:
    """Where a value is not the one before it; the first one counts."""
    return np.append(True, values[1:] != values[:-1])


def _figures(judged: Judged) -> dict[str, Figure]:
    """What runs say of themselves."""
    acts, windows = judged.acts, judged.question.windows
    is_seen = acts.unseen == 0
    return {
        "active": Figure.of(acts.active, is_seen),
        "power_w": Figure.of(column(windows, "power_w"), is_seen),
        "memory_used_bytes": Figure.of(column(windows, "memory_used_bytes"), is_seen),
        # only the flagged time: "spinning not resolvable"
        "spin_unresolved": Figure.of(np.where(acts.spin_unresolved, 1.0, np.nan), is_seen),
    }
