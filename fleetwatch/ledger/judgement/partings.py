"""Where a timeline parts what lies before from what comes after: neither is judged otherwise,
whatever the other is. Pure numpy.

Activity does, and so do barriers: no quiet run goes on across them. A quiet run does as soon as it
is idle: it stays idle, however long it becomes in either direction.
"""

import numpy as np

from fleetwatch.ledger.judgement.columns import BARRIER, BUSY, QUIET, Stretches, Timelines
from fleetwatch.ledger.judgement.observations import Ints, Mask, Question


def dependent_gpus(question: Question, timelines: Timelines, stretches: Stretches) -> set[int]:
    """The GPUs of which the target may rest on what lies before the first cut, or what was judged
    before the target on what changed since (`changed_ms` of each node).
    """
    is_dependent = _rests_on_more(question, timelines, stretches)
    owners = [timelines.owners[number] for number in np.flatnonzero(is_dependent).tolist()]
    return {owner.member.gpu_id for owner in owners}


def _rests_on_more(question: Question, timelines: Timelines, stretches: Stretches) -> Mask:
    """The same of timelines."""
    position = np.arange(len(timelines.code))
    start_ms = timelines.start_ms(position)
    end_ms = timelines.end_ms(position)
    parts = _parts(question, timelines, stretches, end_ms)
    first = timelines.first[:-1]
    is_begun = start_ms[first] <= question.cuts[0]
    is_parted = np.logical_or.reduceat(parts & (end_ms <= question.target[0]), first)
    # up to the last parting that was there before all stays as it was judged
    stays = _last(parts & (end_ms <= _changed_ms(question, timelines)), first)
    judged = _last(start_ms < question.target[0], first)
    return np.asarray((is_begun & ~is_parted) | (judged > stays))


def _last(is_it: Mask, first: Ints) -> Ints:
    """The last such position of each timeline, -1: none; `first` are their first ones."""
    return np.maximum.reduceat(np.where(is_it, np.arange(len(is_it)), -1), first)


def _parts(question: Question, timelines: Timelines, stretches: Stretches, end_ms: Ints) -> Mask:
    """The positions whose end parts their timeline."""
    idle_ms = np.array([question.policy.idle_ms(owner.kind) for owner in timelines.owners])
    run_ms = end_ms - stretches.spread(stretches.run_start_ms)
    is_idle = (timelines.code == QUIET) & (run_ms >= idle_ms[timelines.timeline])
    return np.asarray(is_idle | (timelines.code == BUSY) | (timelines.code == BARRIER))


def _changed_ms(question: Question, timelines: Timelines) -> Ints:
    """Of each position from when on its node changed."""
    of_gpu = {gpu.gpu_id: node.changed_ms for node in question.nodes for gpu in node.capacities}
    changed_ms = [of_gpu[owner.member.gpu_id] for owner in timelines.owners]
    return np.array(changed_ms, dtype=np.int64)[timelines.timeline]
