"""The stored jobs of keys follow what is believed of their records: rows, records and holds."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleetwatch.jobs import run_ends
from fleetwatch.jobs.matching import matched
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.records import JobFacts, Record, known_jobs
from fleetwatch.jobs.selectors import records_of
from fleetwatch.lib.batched import integers, run
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement

MAKE_JOBS = read_statement("jobs/sql/make_jobs.sql")
GIVE_RECORDS = read_statement("jobs/sql/give_records.sql")
MOVE_HOLDS = read_statement("jobs/sql/move_holds.sql")
RECALL_NODES = read_statement("jobs/sql/recall_nodes.sql")

HeldTime = frozenset[tuple[int, Span]]  # (GPU id, span)


@dataclass(frozen=True, slots=True)
class LockedJob:
    """A stored job, locked, as it was believed until now, and what is believed of it now: without
    records where its are another job's, so that nothing is said of it any more.
    """

    row: Job
    facts: JobFacts
    records: tuple[Record, ...]
    is_new: bool

    def has_other(self, names: Iterable[str]) -> bool:
        """Whether another value is believed of one of these facts."""
        return any(getattr(self.row, name) != getattr(self.facts, name) for name in names)


def lock_jobs(keys: Sequence[str], *, unknown: Iterable[str]) -> tuple[list[LockedJob], HeldTime]:
    """The jobs of the keys, made where they are new; and the time that another of them holds from
    now on. `unknown`: keys without a job.
    """
    made = _make(unknown)
    rows: dict[str, list[Job]] = defaultdict(list)
    stored = Job.objects.select_for_update(no_key=True).filter(said_key__in=keys)
    for row in stored.order_by("said_key", "pk"):
        rows[row.said_key].append(row)
    records = records_of(keys)
    locked_jobs = [each for key in keys for each in _locked(records.get(key, []), rows[key], made)]
    every = [record for key in keys for record in records.get(key, [])]
    return locked_jobs, _give(every, jobs_of_records(locked_jobs))


def _locked(
    records: Sequence[Record], rows: Sequence[Job], made: Container[str]
) -> Iterator[LockedJob]:
    jobs = known_jobs(records)
    chosen = matched(jobs, rows)
    left = {row.pk: row for row in rows}
    numbered = iter(_numbered(rows, chosen.count(None)))
    for job, pk in zip(jobs, chosen, strict=True):
        if pk is None:
            yield LockedJob(next(numbered), job.facts, job.records, is_new=True)
        else:
            row = left.pop(pk)
            yield LockedJob(row, job.facts, job.records, row.key in made)
    for row in left.values():
        nothing = JobFacts(row.scheduler, row.cluster, row.external_id, kind=row.kind)
        yield LockedJob(row, nothing, (), row.key in made)


def _numbered(rows: Sequence[Job], count: int) -> list[Job]:
    """So many new jobs of the rows' key; the first row holds the lock of them all."""
    if not count:
        return []
    keys = [f"{rows[0].said_key}~{len(rows) + number}" for number in range(1, count + 1)]
    _make(keys)
    return list(Job.objects.filter(key__in=keys).order_by("pk"))


def _make(keys: Iterable[str]) -> set[str]:
    """Those of the keys that had no job."""
    wanted = sorted(set(keys))
    return {key for (key,) in run(MAKE_JOBS, {"keys": wanted})} if wanted else set()


def recall_doubters(keys: Sequence[str]) -> None:
    """Nodes that repeat what is not believed of jobs of these keys any more: their next batches are
    read whole (repeats.py).
    """
    run(RECALL_NODES, {"keys": list(keys), "records": integers([])})


def jobs_of_records(locked_jobs: Iterable[LockedJob]) -> dict[int, int]:
    """Record id -> the id of its job; the first one's of books that speak of several."""
    jobs: dict[int, int] = {}
    for each in locked_jobs:
        for record in each.records:
            jobs.setdefault(record.pk, each.row.pk)
    return jobs


def _give(records: Sequence[Record], jobs: Mapping[int, int]) -> HeldTime:
    """Gives the records to their jobs, and with a node's last record of a job what it holds
    of it.
    """
    moved_records = [record for record in records if record.job_id != jobs.get(record.pk)]
    if not moved_records:
        return frozenset()
    pks = [record.pk for record in moved_records]
    run(GIVE_RECORDS, {"records": integers(pks), "jobs": integers(map(jobs.get, pks))})
    run(RECALL_NODES, {"keys": [], "records": integers(pks)})
    moves = _moves(records, jobs)
    moved = {
        (gpu_id, (lower, upper)) for move in moves for gpu_id, lower, upper in run(MOVE_HOLDS, move)
    }
    return frozenset(moved | run_ends.cut_holds({move["job_id"] for move in moves}))


def _moves(records: Sequence[Record], jobs: Mapping[int, int]) -> list[dict[str, int]]:
    """Which node's holds of which job go to which other: of jobs of which the node has no record
    any more.
    """
    kept = {(record.node_id, jobs.get(record.pk)) for record in records}
    gone = {
        (record.node_id, record.job_id): jobs[record.pk]
        for record in records
        if record.job_id is not None
        and record.pk in jobs
        and (record.node_id, record.job_id) not in kept
    }
    return [
        {"node_id": node_id, "former_id": former_id, "job_id": job_id}
        for (node_id, former_id), job_id in sorted(gone.items())
        if node_id is not None
    ]
