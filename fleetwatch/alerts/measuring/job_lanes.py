"""How many of a job's GPUs are in breach at each moment, by the runs of the ledger: what conditions
of jobs measure. A lane is one GPU that the job holds.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetwatch.alerts.breach import STALE_MS, Watch
from fleetwatch.alerts.episodes import FORGET_MS, End, Episode, Level, Measured, Span
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import CONDITIONS, STATES
from fleetwatch.lib.intervals import DAY_MS, HOUR_MS
from fleetwatch.lib.memo import read_once
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement

_JOB_RUNS = read_statement("alerts/sql/job_runs.sql")
_SILENT_LANES = read_statement("alerts/sql/silent_lanes.sql")
_NEXT_RUNS = read_statement("alerts/sql/next_runs.sql")

_KNOWN_JOBS = """
SELECT id, key, start_ms, end_ms FROM jobs_job
WHERE id = ANY(%(job_ids)s) OR key = ANY(%(keys)s::text[])
"""

AGAIN_ACTIVE = "the GPUs are active again"
ALLOCATION_ENDED = "the allocation ended"
UNAVAILABLE = "the GPU became unavailable"
RETIRED = "no longer seen: the GPU was retired"

LEVELS = tuple(Level)  # each in its number's place
UNKNOWN = -1  # in place of a Level: nobody can know
NO_JOB = -1  # in place of a job's id
EVER_MS = 10_000 * DAY_MS
UNSEEN = ("unobserved", "unavailable")

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Lane = tuple[int, int]  # job and GPU


class Part(NamedTuple):
    """A part of a run, as Parts has them."""

    job_id: int
    gpu_id: int
    start_ms: int
    end_ms: int
    condition: int
    is_idle: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of runs, a row each: job, GPU, condition (a place in CONDITIONS), [start_ms, end_ms),
    whether the GPU was idle in it, and (marked) whether that breaches the rule or is clear of it.
    """

    job_id: Ints
    gpu_id: Ints
    condition: Ints
    start_ms: Ints
    end_ms: Ints
    is_idle: Ints
    is_breach: Ints
    is_clear: Ints

    def marked(self, breach: Mask, clear: Mask) -> "Parts":
        """The same, with what each row means for the rule."""
        return replace(self, is_breach=breach.astype(np.int64), is_clear=clear.astype(np.int64))

    @property
    def columns(self) -> tuple[Ints, ...]:
        """All of them, as they stand above."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def within(self, conditions: Collection[str]) -> Mask:
        """Which rows are in one of these conditions."""
        return np.isin(self.condition, [CONDITIONS.index(name) for name in conditions])

    def where(self, keep: Mask) -> "Parts":
        """These rows alone."""
        return Parts(*(column[keep] for column in self.columns))

    def in_order(self) -> Iterator[Part]:
        """One by one, by job, GPU and time."""
        order = np.lexsort((self.start_ms, self.gpu_id, self.job_id))
        columns = (getattr(self, name)[order].tolist() for name in Part._fields)
        return map(Part._make, zip(*columns, strict=True))

    def with_rows(self, others: "Parts") -> "Parts":
        """These rows and then the others."""
        columns = zip(self.columns, others.columns, strict=True)
        return Parts(*(np.append(ours, theirs) for ours, theirs in columns))


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one job over [start_ms, end_ms) of each row: how many GPUs it held, how many of these were
    in breach, how many clear of it, and how many nobody saw. What is left is neither.
    """

    job_id: Ints
    start_ms: Ints
    end_ms: Ints
    held: Ints
    breaching: Ints
    clear: Ints
    unseen: Ints


class KnownJob(NamedTuple):
    """Of a job which it is, and from when to when it ran, as far as that is known."""

    pk: int
    key: str
    start_ms: int | None
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Where each lane was seen last, and why it is no longer the job's; not there: it may be."""

    ends_ms: Mapping[Lane, int]
    reasons: Mapping[Lane, str]


# of each row of counts its Level, or UNKNOWN
Levels = Callable[[Counts], Ints]


def job_parts(watch: Watch, wanted: Collection[str]) -> Parts:
    """What jobs did over the period, of those that had a GPU in one of these conditions in it, and
    of those that fire already.
    """
    candidates = _candidate_parts(tuple(wanted), watch.start_ms, watch.end_ms)
    firing = Job.objects.filter(key__in=watch.firing).values_list("pk", flat=True)
    others = np.setdiff1d(np.array(firing, dtype=np.int64), candidates.job_id)
    if not len(others):
        return candidates
    return candidates.with_rows(parts_of(others, watch.start_ms, watch.end_ms))


def back_to_breach(parts: Parts, watch: Watch) -> Parts:
    """The same, of what fires from where its breach was seen last on, also where that is before the
    period.
    """
    before = {key: at.until_ms for key, at in watch.firing.items() if at.until_ms <= watch.start_ms}
    if not before:
        return parts
    firing = Job.objects.filter(key__in=before).values_list("pk", flat=True)
    job_ids = np.array(firing, dtype=np.int64)
    others = parts.where(~np.isin(parts.job_id, job_ids))
    return others.with_rows(parts_of(job_ids, min(before.values()) - 1, watch.end_ms))


def parts_of(job_ids: Ints, start_ms: int, end_ms: int) -> Parts:
    """What these jobs did over the period."""
    return _runs((), job_ids, start_ms, end_ms)


@read_once  # several rules of an evaluation look at the same time
def _candidate_parts(wanted: tuple[str, ...], start_ms: int, end_ms: int) -> Parts:
    return _runs(wanted, np.zeros(0, dtype=np.int64), start_ms, end_ms)


def _runs(wanted: Collection[str], job_ids: Ints, start_ms: int, end_ms: int) -> Parts:
    asked = {
        "conditions": list(CONDITIONS),
        "wanted": list(wanted),
        "job_ids": job_ids,
        "idle": STATES.index("idle") + 1,
        "start_ms": start_ms,
        "end_ms": end_ms,
    }
    return _parts(fetched(_JOB_RUNS, asked))


def is_before(parts: Parts, marked: Mask) -> Mask:
    """Which parts end before one of the marked ones of their lane begins."""
    order = np.lexsort((parts.start_ms, parts.gpu_id, parts.job_id))
    lane = np.stack([parts.job_id[order], parts.gpu_id[order]])
    begins = np.append(True, (np.diff(lane) != 0).any(axis=0))[: len(order)]
    of_lane = begins.cumsum()
    # of the marked ones each lane's last
    last_ms = np.full(len(order) + 1, -1, dtype=np.int64)
    np.maximum.at(last_ms, of_lane, np.where(marked[order], parts.start_ms[order], -1))
    before = np.zeros(len(order), dtype=bool)
    before[order] = parts.end_ms[order] <= last_ms[of_lane]
    return before


def measured(parts: Parts, levels: Levels, watch: Watch) -> Measured:
    """The spans of each job by `levels` of how many of its GPUs breach and are clear. A GPU that is
    retired is none of them; one that nobody sees any more is still the job's.
    """
    there = _without_retired(parts)
    lanes = _lanes(there)
    silent = _silent(there, lanes, watch)
    counts = counted(there.with_rows(silent))
    jobs = {job.pk: job for job in _jobs(parts, watch)}
    ends = _retired(parts, there, watch)
    ends |= _lane_ends(lanes, without=set(silent.job_id.tolist()))
    ends |= _known_ends(jobs, lanes, watch)
    return Measured(
        spans=_spans(counts, levels(counts), {job.pk: job.key for job in jobs.values()}),
        ends={jobs[job_id].key: end for job_id, end in ends.items() if job_id in jobs},
        begun_ms={job.key: job.start_ms for job in jobs.values() if job.start_ms is not None},
        cleared=AGAIN_ACTIVE,
    )


def _parts(rows: Sequence[tuple[int, ...]]) -> Parts:
    values = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=6 * len(rows))
    columns = values.reshape(-1, 6).T
    none = np.zeros((2, columns.shape[1]), dtype=np.int64)
    return Parts(*columns, *none)


def _silent(parts: Parts, lanes: _Lanes, watch: Watch) -> Parts:
    """What nobody saw of the jobs' GPUs: since they were seen last, or over the whole period."""
    job_ids = np.unique(parts.job_id)
    unheard = silent_lanes(job_ids, watch.start_ms - FORGET_MS, unheard_ms=watch.start_ms)
    ends_ms = {**dict.fromkeys(unheard, watch.start_ms), **lanes.ends_ms}
    unseen = CONDITIONS.index("unobserved")
    return _parts(
        [
            (job_id, gpu_id, unseen, end_ms, watch.end_ms, 0)
            for (job_id, gpu_id), end_ms in ends_ms.items()
            if end_ms < watch.end_ms and (job_id, gpu_id) not in lanes.reasons
        ]
    )


def silent_lanes(job_ids: Ints, since_ms: int, *, unheard_ms: int) -> dict[Lane, int]:
    """The GPUs that these jobs held since, on nodes that nobody heard from that moment on, and
    that were not seen without them: what they do is not known, from when on.
    """
    asked = {"job_ids": job_ids, "since_ms": since_ms, "unheard_ms": unheard_ms}
    rows = fetched(_SILENT_LANES, asked)
    ends_ms = {(job_id, gpu_id): end_ms for job_id, gpu_id, end_ms in rows}
    left = _reasons(ends_ms)
    return {lane: end_ms for lane, end_ms in ends_ms.items() if lane not in left}


def asked_spans(episodes: Sequence[Episode], jobs: Mapping[str, Job]) -> dict[str, Any]:
    """The episodes as statements ask for them, place by place: job_ids (NO_JOB where the job is
    gone), since_ms, until_ms.
    """
    rows = [
        (jobs[each.subject].pk if each.subject in jobs else NO_JOB, each.since_ms, each.until_ms)
        for each in episodes
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return dict(zip(("job_ids", "since_ms", "until_ms"), columns, strict=True))


def counted(parts: Parts) -> Counts:
    """How many GPUs of each job are in breach and clear of it, from one change to the next."""
    jobs = np.tile(parts.job_id, 2)
    moments = np.concatenate([parts.start_ms, parts.end_ms])
    order = np.lexsort((moments, jobs))
    jobs = jobs[order]
    moments = moments[order]
    at = np.flatnonzero((np.diff(jobs) == 0) & (np.diff(moments) > 0))
    held = np.ones(len(parts.job_id), dtype=np.int64)
    sums = (
        np.concatenate([column, -column])[order].cumsum()[at]
        for column in (held, parts.is_breach, parts.is_clear, held * parts.within(UNSEEN))
    )
    return Counts(jobs[at], moments[at], moments[at + 1], *sums)


def _spans(counts: Counts, levels: Ints, keys: Mapping[int, str]) -> dict[str, list[Span]]:
    """By job its spans; neighbours of one level are one."""
    first = _firsts(counts, levels)
    last = np.append(first, len(levels))[1:] - 1
    columns = (counts.job_id[first], counts.start_ms[first], counts.end_ms[last], levels[first])
    spans: dict[str, list[Span]] = defaultdict(list)
    for job_id, start_ms, end_ms, level in zip(*map(np.ndarray.tolist, columns), strict=True):
        if level != UNKNOWN and job_id in keys:
            spans[keys[job_id]].append(Span(start_ms, end_ms, LEVELS[level]))
    return spans


def _firsts(counts: Counts, levels: Ints) -> Ints:
    """The rows that do not go on from the one before."""
    is_next = counts.start_ms[1:] == counts.end_ms[:-1]
    goes_on = is_next & (np.diff(counts.job_id) == 0) & (np.diff(levels) == 0)
    return np.flatnonzero(np.append(True, ~goes_on)[: len(levels)])


def _jobs(parts: Parts, watch: Watch) -> list[KnownJob]:
    return known_jobs(np.unique(parts.job_id), watch)


def known_jobs(job_ids: Ints, watch: Watch) -> list[KnownJob]:
    """These jobs, and those that fire already."""
    asked = {"job_ids": job_ids, "keys": list(watch.firing)}
    return [KnownJob(*row) for row in fetched(_KNOWN_JOBS, asked)]


def _without_retired(parts: Parts) -> Parts:
    retired = GPU.objects.exclude(retired_ms=None).values_list("pk", flat=True)
    return parts.where(~np.isin(parts.gpu_id, list(retired)))


def _retired(parts: Parts, there: Parts, watch: Watch) -> dict[int, End]:
    """The jobs of which no GPU is there any more."""
    gone = set(parts.job_id.tolist()) - set(there.job_id.tolist())
    return {job_id: End(watch.end_ms, RETIRED) for job_id in gone}


def _unjudged(jobs: Mapping[int, KnownJob], lanes: _Lanes, watch: Watch) -> set[int]:
    """Those of these jobs that ended just now, and of which the last minutes may still come: one of
    their GPUs was seen neither until then nor since.
    """
    ends_ms = {job.pk: job.end_ms or 0 for job in jobs.values()}
    return {
        job_id
        for (job_id, gpu_id), last_ms in lanes.ends_ms.items()
        if last_ms < ends_ms.get(job_id, 0)
        and ends_ms[job_id] > watch.end_ms - STALE_MS
        and (job_id, gpu_id) not in lanes.reasons
    }


def _known_ends(jobs: Mapping[int, KnownJob], lanes: _Lanes, watch: Watch) -> dict[int, End]:
    """The jobs that are over by their scheduler's word, without those that wait to be judged."""
    waiting = _unjudged(jobs, lanes, watch)
    return {
        job.pk: End(job.end_ms, ALLOCATION_ENDED)
        for job in jobs.values()
        if job.end_ms is not None and job.end_ms <= watch.end_ms and job.pk not in waiting
    }


def _lane_ends(lanes: _Lanes, *, without: Collection[int]) -> dict[int, End]:
    """The jobs each of whose GPUs was seen without them since, and when the last one was."""
    ends: dict[int, End] = {}
    for lane, end_ms in sorted(lanes.ends_ms.items(), key=itemgetter(1)):
        ends[lane[0]] = End(end_ms, lanes.reasons.get(lane, ""))
    held = {lane[0] for lane in lanes.ends_ms if lane not in lanes.reasons}
    return {
        job_id: end for job_id, end in ends.items() if job_id not in held and job_id not in without
    }


def _lanes(parts: Parts) -> _Lanes:
    order = np.lexsort((parts.end_ms, parts.gpu_id, parts.job_id))
    job_id = parts.job_id[order]
    gpu_id = parts.gpu_id[order]
    is_last = np.append((np.diff(job_id) != 0) | (np.diff(gpu_id) != 0), True)[: len(order)]
    columns = (job_id[is_last], gpu_id[is_last], parts.end_ms[order][is_last])
    rows = zip(*map(np.ndarray.tolist, columns), strict=True)
    ends_ms = {(job, gpu): end_ms for job, gpu, end_ms in rows}
    return _Lanes(ends_ms, _reasons(ends_ms))


def _reasons(ends_ms: Mapping[Lane, int]) -> dict[Lane, str]:
    """Why the job is no longer on a GPU, of those that were seen without it since."""
    return {
        lane: UNAVAILABLE if condition == "unavailable" else ALLOCATION_ENDED
        for lane, (job_id, condition) in _next_runs(ends_ms).items()
        if job_id != lane[0]
    }


def _next_runs(ends_ms: Mapping[Lane, int]) -> dict[Lane, tuple[int | None, str]]:
    """Which job held each lane's GPU (None: nobody), and in what condition, when it was seen next:
    mostly within the hour, so that more of its history is read of the others alone.
    """
    seen: dict[Lane, tuple[int | None, str]] = {}
    for within_ms in (HOUR_MS, DAY_MS, EVER_MS):
        lanes = [lane for lane in ends_ms if lane not in seen]
        if not lanes:
            break
        asked = {
            "gpu_ids": np.array([gpu_id for _, gpu_id in lanes], dtype=np.int64),
            "from_ms": np.array([ends_ms[lane] for lane in lanes], dtype=np.int64),
            "within_ms": within_ms,
        }
        for place, *held in fetched(_NEXT_RUNS, asked):
            seen[lanes[place - 1]] = held[0], held[1]
    return seen
