"""The time that nobody holds: unavailable, unobserved, orphaned or free. Pure numpy."""

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from fleetwatch.ledger.judgement import gpu_segments
from fleetwatch.ledger.judgement.columns import Activity, Schedulers, Segments, of_rows
from fleetwatch.ledger.judgement.labels import (
    DEAD_PROCESS,
    FREE,
    HOLDER,
    MEMORY,
    NO_SIGNAL,
    NO_WINDOW,
    NOTHING,
    NUMBER,
    PROCESS,
    UNKNOWN,
    UNSEEN,
    WORK,
    Codes,
    Kinds,
    numbers,
)
from fleetwatch.ledger.judgement.observations import Columns, Ints, Mask, Question
from fleetwatch.ledger.policy import Policy

_UNSEEN = numbers(UNSEEN[:1] + UNSEEN)  # by why a window says nothing, from 1 on
_HOLDER = numbers(HOLDER)

# A job's processes may outlive it by so long: Slurm waits 30 s before it kills (KillWait),
# Kubernetes as long by default, and its epilog and the driver come after that. Until then what
# holds the GPU is the job's, that was let go, and no orphan.
LEAVING_MS = 60_000


def beside(segments: Segments) -> Ints:
    """The segments with time that nobody holds and those beside them: what lies farther away
    decides nothing.
    """
    has_rest = segments.rest_ms > 0
    is_near = has_rest.copy()
    is_near[1:] |= has_rest[:-1]
    is_near[:-1] |= has_rest[1:]
    return np.flatnonzero(is_near)


def labels(question: Question, activity: Activity, segments: Segments, segment: Ints) -> Kinds:
    """The label of what nobody holds of each of these segments."""
    label = _by_windows(question, activity, segments, segment)
    label[segments.rest_is_free[segment]] = NUMBER[FREE]
    down = segments.down[segment]
    return np.where(down >= 0, down, label)


def _by_windows(question: Question, activity: Activity, segments: Segments, segment: Ints) -> Kinds:
    """What the windows say."""
    unseen = of_rows(activity.unseen, segments.row[segment], none=NO_WINDOW)
    label: Kinds = _UNSEEN[unseen]
    speaks = np.flatnonzero((unseen == 0) | (unseen == NO_SIGNAL))
    if len(speaks) == 0:
        return label
    is_mute = unseen[speaks] == NO_SIGNAL
    works = activity.evidence.works[segments.row[segment[speaks]]]
    holder = _holder(question, segments, segment[speaks], is_mute=is_mute, works=works)
    # that nobody holds it needs no activity signal; whatever else does
    label[speaks] = np.where(is_mute & (holder != NOTHING), label[speaks], _HOLDER[holder])
    return label


def _holder(
    question: Question, segments: Segments, segment: Ints, *, is_mute: Mask, works: Mask
) -> Codes:
    """What holds it, of segments whose windows speak; `is_mute`: not of its activity; `works`:
    counters or power show work.
    """
    start_ms = segments.start_ms[segment]
    scheduled, bare = _by_work(question, segments, segment, is_mute, works)
    holder = bare
    for low, high, schedulers in _of_nodes(segments, segment):
        own = slice(low, high)
        is_answered = gpu_segments.is_within(start_ms[own], schedulers.answered)
        holder[own] = np.where(is_answered, scheduled[own], bare[own])
        holder[own][gpu_segments.is_within(start_ms[own], schedulers.unknown)] = UNKNOWN
    # what granted shares leave of a held GPU is free, but where nobody knows whom else it was given
    # to, and where nothing says that what holds it is the holder's
    is_held = (segments.held[segment] > 0) & ~is_mute
    return np.where(is_held & (holder != UNKNOWN), NOTHING, holder)


def _of_nodes(segments: Segments, segment: Ints) -> Iterator[tuple[int, int, Schedulers]]:
    """From where to where in these segments (ascending) a node's are, and its schedulers."""
    first = 0
    for schedulers, members in groupby(segments.members, key=lambda member: member.schedulers):
        end = first + len(list(members))
        low, high = np.searchsorted(segment, [segments.first[first], segments.first[end]]).tolist()
        yield low, high, schedulers
        first = end


def _by_work(
    question: Question, segments: Segments, segment: Ints, is_mute: Mask, works: Mask
) -> tuple[Codes, Codes]:
    """What holds it where a scheduler answers, and on a bare host, by processes and work."""
    row = segments.row[segment]
    columns = Columns(question.windows)
    # whose work it is may be unknown to the scheduler too: a GPU that works is not free
    scheduled, bare = (
        np.where(works & (holder == NOTHING), WORK, holder)
        for holder in _by_processes(columns, row, question.policy)
    )
    # a window without any activity signal did not see that whoever left was still there
    is_explained = _is_explained(segments, len(question.windows.gpu_id))[segment] & ~is_mute
    scheduled[is_explained & (scheduled != UNKNOWN)] = NOTHING
    is_unread = is_mute & np.isnan(columns["process_count"][row])
    bare[is_unread & (bare == NOTHING)] = UNKNOWN
    return scheduled, bare


def _is_explained(segments: Segments, windows: int) -> Mask:
    """Of all segments those whose window a holder's time shares: it saw the holder's process, not
    an orphan; and those that begin within LEAVING_MS of one that was held, on the same GPU.
    """
    is_held = segments.held > 0
    # one more, for no window (-1)
    is_holders = np.zeros(windows + 1, dtype=bool)
    is_holders[segments.row[is_held]] = True
    last_held = np.maximum.accumulate(np.where(is_held, np.arange(len(is_held)), -1))
    first_of_member = np.repeat(segments.first[:-1], np.diff(segments.first))
    since_ms: Ints = segments.start_ms - segments.end_ms[last_held]
    is_just_left = (last_held >= first_of_member) & (since_ms < LEAVING_MS)
    return is_holders[segments.row] | is_just_left


def _by_processes(columns: Columns, row: Ints, policy: Policy) -> tuple[Codes, Codes]:
    """What holds a GPU that nobody was given, by its window (row): where a scheduler answers, and
    on a bare host.

    On a bare host a live process is somebody's work that no allocation names: unknown.
    """
    processes = columns["process_count"][row]
    memory = columns["memory_used_bytes"][row]
    alive = columns["live_process_count"][row]
    live = np.where(np.isnan(alive), processes, alive)
    has_process = processes > 0
    has_dead = has_process & (live == 0)
    most = policy.phantom_memory_bytes
    has_memory = memory > most
    nobody_knows = np.isnan(processes) & np.isnan(memory)
    bare_unknown = (live > 0) | (np.isnan(live) & ~(memory <= most))
    return np.select(
        [nobody_knows, has_dead, has_process, has_memory],
        [UNKNOWN, DEAD_PROCESS, PROCESS, MEMORY],
        NOTHING,
    ), np.select([bare_unknown, has_dead, has_memory], [UNKNOWN, DEAD_PROCESS, MEMORY], NOTHING)
