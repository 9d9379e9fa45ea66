"""One state per GPU-millisecond: columns, allocations and events in; entries and runs out. Pure
numpy.

The judgement of a millisecond depends on no window farther away than Policy.reach_ms,
so that hours judged one by one, with that much context, sum to days judged at once.
All GPUs of some nodes and all their holders are judged in the same passes: each fills a table of
columns.py from those before it.
"""

from typing import Any

import numpy as np

from fleetwatch.ledger.judgement import (
    activity,
    allocated,
    cell_states,
    conditions,
    mig_members,
    partings,
    segments,
    state_sums,
    stretches,
    timelines,
    unallocated,
)
from fleetwatch.ledger.judgement.columns import Activity, Judged, Segments, Stretches, Timelines
from fleetwatch.ledger.judgement.labels import LABEL_SHIFT, MISSING, NUMBER, SILENT, Kinds
from fleetwatch.ledger.judgement.observations import NO_ENTRIES, NO_PARTS, Ints, Judgement, Question

Tables = tuple[Activity, Segments, Timelines, Stretches]
NOTHING = Judgement(NO_ENTRIES, NO_PARTS, cell_states.joined([]))


def judge(question: Question) -> Judgement:
    """The entries and parts of runs of every GPU in the target cuts; their milliseconds sum to its
    capacity exactly.
    """
    return _summed(judged_places(question))


def judge_nodes(question: Question) -> list[Judgement]:
    """The same of each of its nodes."""
    return _by_node(judge(question), question)


def judge_alone(question: Question) -> list[Judgement | None]:
    """The same; None of a node whose target rests on more of the past than is asked with, or where
    time before the target rests on what changed since (`changed_ms`).
    """
    tables = _tables(question)
    if tables is None:
        return [NOTHING for _ in question.nodes]
    judged = _summed(_places(question, *tables))
    dependent = partings.dependent_gpus(question, *tables[2:])
    return [
        of_node if dependent.isdisjoint(gpu.gpu_id for gpu in node.capacities) else None
        for node, of_node in zip(question.nodes, _by_node(judged, question), strict=True)
    ]


def _summed(judged: Judged | None) -> Judgement:
    return NOTHING if judged is None else state_sums.judgement(judged)


def _by_node(judged: Judgement, question: Question) -> list[Judgement]:
    if len(question.nodes) == 1:
        return [judged]
    return judged.parted([{gpu.gpu_id for gpu in node.capacities} for node in question.nodes])


def judged_places(question: Question) -> Judged | None:
    """Each GPU and holder (and what nobody holds) on its timeline, with all that its judgement
    rests on; None without capacity.
    """
    tables = _tables(question)
    return None if tables is None else _places(question, *tables)


def _tables(question: Question) -> Tables | None:
    """All up to the places; None without capacity."""
    policy = question.policy
    idle_w, limit_w = activity.boards(question.windows, question.capacities)
    window_activity = activity.read(question.windows, idle_w=idle_w, limit_w=limit_w, policy=policy)
    members = mig_members.members(question, window_activity)
    if not members:
        return None
    node_segments = segments.joined(members, question, limit_w)
    beside = unallocated.beside(node_segments)
    label = unallocated.labels(question, window_activity, node_segments, beside)
    node_timelines = timelines.of_owners(question, window_activity, node_segments, beside, label)
    node_stretches = stretches.of_timelines(node_timelines, policy)
    return window_activity, node_segments, node_timelines, node_stretches


def _places(
    question: Question,
    window_activity: Activity,
    node_segments: Segments,
    node_timelines: Timelines,
    node_stretches: Stretches,
) -> Judged | None:
    """The places within the target, those of nobody first; None where there are none."""
    tables = (window_activity, node_segments, node_timelines, node_stretches)
    position, condition, joins_previous = conditions.of_positions(*tables)
    start_ms = node_timelines.start_ms(position)
    is_asked = (start_ms >= question.target[0]) & (start_ms < question.target[1])
    if not is_asked.any():
        return None
    position = position[is_asked]
    return Judged(
        question,
        *tables,
        **_amounts(question, tables, position),
        position=position,
        timeline=node_timelines.timeline.take(position),
        segment=node_timelines.segment.take(position),
        condition=condition[is_asked],
        joins_previous=joins_previous[is_asked],
        stall_tier=np.array([allocated.tier(owner.kind) for owner in node_timelines.owners]),
    )


def _amounts(question: Question, tables: Tables, position: Ints) -> dict[str, Any]:
    """The columns on what is counted of places at these positions."""
    window_activity, _, node_timelines, node_stretches = tables
    kind, busy, starting = _kinds(*tables, position)
    rest_ms = node_timelines.gpu_ms.take(position)
    *active_ms, rest_ms[busy] = allocated.split(
        window_activity, node_timelines.row(position[busy]), rest_ms[busy]
    )
    starting_ms = allocated.starting_ms(
        node_timelines,
        node_stretches,
        question.policy,
        position=position[starting],
        rest_ms=rest_ms[starting],
    )
    rest_ms[starting] -= starting_ms
    return {
        "kind": kind,
        "rest_ms": rest_ms,
        "busy": busy,
        "active_ms": active_ms,
        "starting": starting,
        "starting_ms": starting_ms,
    }


def _kinds(
    window_activity: Activity,
    node_segments: Segments,
    node_timelines: Timelines,
    node_stretches: Stretches,
    position: Ints,
) -> tuple[Kinds, Ints, Ints]:
    """The kind of what is left at each position; the places with activity, and those in runs that
    start.
    """
    # of nobody all time is of one kind; of holders it may be active in part, or a start
    nobodys = int(np.searchsorted(position, node_timelines.unallocated))
    held, is_busy, is_starting = allocated.kinds(
        window_activity, node_segments, node_timelines, node_stretches, position[nobodys:]
    )
    kind = np.append(node_timelines.label[position[:nobodys]] << LABEL_SHIFT, held)
    silent_ms = node_segments.of_members([member.silent_ms for member in node_segments.members])
    is_late = node_timelines.start_ms(position) >= silent_ms[node_timelines.segment[position]]
    is_silent = is_late & (kind >> LABEL_SHIFT == NUMBER[MISSING])
    kind[is_silent] = NUMBER[SILENT] << LABEL_SHIFT
    return kind, np.flatnonzero(is_busy) + nobodys, np.flatnonzero(is_starting) + nobodys
