"""Writes of who held which GPU: what batches assert of allocations, job sources and processes.

Jobs' facts: job_writes.py.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.wire import Batch
from fleetwatch.jobs import run_ends
from fleetwatch.jobs.allocation_sources import DECLARED
from fleetwatch.jobs.batch_report import (
    JobKey,
    Report,
    StoredJob,
    speaks_for_all,
    speaks_for_cluster,
    spoken_ms,
)
from fleetwatch.jobs.models import GPUProcess
from fleetwatch.jobs.records import OUTCOME_LAG_MS, Voice
from fleetwatch.jobs.run_ends import End
from fleetwatch.lib.batched import integers, numbers, run
from fleetwatch.lib.spans import Span, union
from fleetwatch.lib.sql import read_statement

ASSERT_ALLOCATIONS = read_statement("jobs/sql/assert_allocations.sql")
ASSERT_SOURCES = read_statement("jobs/sql/assert_sources.sql")
FORGET_WHYS = read_statement("jobs/sql/forget_whys.sql")
PROCESSES = (
    'SELECT gpu_id, pid, started_ms, "user", name, job_id, id, seen_ms FROM jobs_gpuprocess WHERE'
    " gpu_id = ANY(%(gpus)s::bigint[])"
)
REFRESH_PROCESSES = read_statement("jobs/sql/refresh_processes.sql")

# The list is for people: the same processes are written again no more often than this.
PROCESSES_REFRESH_MS = 60_000
# Reasons hold numbers of jobs and times: without an end there would be as many as failures.
KEPT_WHYS = 16

AllocationKey = tuple[int, int, str, float | None]  # GPU, job, source, share
Identity = tuple[int, int, int, str, str, int]


@dataclass(frozen=True, slots=True)
class Asserted:
    """What one batch asserts of an allocation: the time, and when the runs began to which it
    belongs.
    """

    spans: list[Span] = field(default_factory=list)
    starts: set[int] = field(default_factory=set)

    @property
    def union(self) -> list[Span]:
        return union(self.spans) if len(self.spans) > 1 else self.spans


def assert_allocations(
    reports: Sequence[Report], jobs: Mapping[JobKey, StoredJob]
) -> set[tuple[int, Span]]:
    """(GPU id, span) of the time that is held newly, or held no longer: also on GPUs of other
    nodes, where a job's end was told.

    An allocation is asserted from its start (the batch's first window, where it
    has none) to its end or the end of the batch's last window, whichever is first.
    It is held from then on to the end that its source, or the job's accounting, told
    of it: however late, and until its next run.
    """
    held, to_cut = _assert_time(reports, jobs)
    ends = [end for report in reports for end in _ends(report, jobs)]
    to_cut |= run_ends.note([*ends, *(end for job in jobs.values() for end in _recorded_ends(job))])
    to_cut |= {job.pk for job in jobs.values() if _is_in_books(job)}
    return held | run_ends.cut_holds(to_cut)


def _assert_time(
    reports: Sequence[Report], jobs: Mapping[JobKey, StoredJob]
) -> tuple[set[tuple[int, Span]], set[int]]:
    """(GPU id, span) of what is asserted newly, and the ids of jobs of whose ends that may say
    something.
    """
    asserted = {key: given for report in reports for key, given in _asserted(report, jobs).items()}
    if not asserted:
        return set(), set()
    rows = run(ASSERT_ALLOCATIONS, _columns(asserted))
    held = {(gpu_id, (lower, upper)) for gpu_id, _, _, lower, upper in rows if lower is not None}
    return held, {job_id for _, job_id, is_to_cut, _, _ in rows if is_to_cut}


def _columns(asserted: Mapping[AllocationKey, Asserted]) -> dict[str, Any]:
    keys = sorted(asserted, key=lambda key: (key[:3], key[3] or 0.0))
    gpu_ids, job_ids, sources, shares = zip(*keys, strict=True)
    return {
        "gpus": integers(gpu_ids),
        "jobs": integers(job_ids),
        "sources": list(sources),
        "shares": numbers(shares),
        "asserted": [_multirange(asserted[key].union) for key in keys],
        "starts": [integers(sorted(asserted[key].starts)) for key in keys],
    }


def _asserted(report: Report, jobs: Mapping[JobKey, StoredJob]) -> dict[AllocationKey, Asserted]:
    batch = report.batch
    asserted: dict[AllocationKey, Asserted] = defaultdict(Asserted)
    for item in batch.allocations:
        extent = _extent(report, item)
        job = jobs.get((report.node_id, batch.jobs[item["job"]]["key"]))
        if extent is None or job is None:
            continue  # no job: one user more than a node may name of one key
        gpu_id = report.gpu_ids[item["gpu"]]
        given = asserted[gpu_id, job.pk, item.get("source") or "", item.get("share")]
        given.spans.append(extent)
        run_ms = _corrected(_run_start(batch, item), report.offset_ms)
        if run_ms is not None:
            given.starts.add(run_ms)
    return asserted


def _extent(report: Report, item: Mapping[str, Any]) -> Span | None:
    """The time that an allocation is asserted for; None where there is none."""
    batch = report.batch
    if batch.start_ms is None or batch.end_ms is None:
        return None
    start_ms = batch.start_ms if item.get("start_ms") is None else item["start_ms"]
    end_ms = batch.end_ms if item.get("end_ms") is None else min(item["end_ms"], batch.end_ms)
    if start_ms >= end_ms:
        return None
    return start_ms + report.offset_ms, end_ms + report.offset_ms


def _run_start(batch: Batch, allocation: Mapping[str, Any]) -> int | None:
    """When the run began to which the allocation belongs, by the agent's clock; None where nobody
    says.
    """
    start_ms: int | None = allocation.get("start_ms")
    if start_ms is not None:
        return start_ms
    job_start_ms: int | None = batch.jobs[allocation["job"]].get("start_ms")
    return job_start_ms


def _ends(report: Report, jobs: Mapping[JobKey, StoredJob]) -> Iterator[End]:
    """The ends that the batch tells, of jobs and of their holds on its GPUs.

    A node ends a job on its own GPUs alone: others may hold it on. Accounting and the books of a
    cluster end it everywhere.
    """
    said_ms = spoken_ms(report.batch)
    offset_ms = 0 if said_ms is None else report.offset_ms  # accounting has its controller's clock
    yield from _job_ends(report, jobs, said_ms, offset_ms)
    yield from _hold_ends(report, jobs, offset_ms)


def _job_ends(
    report: Report, jobs: Mapping[JobKey, StoredJob], said_ms: int | None, offset_ms: int
) -> Iterator[End]:
    batch = report.batch
    for job in batch.jobs:
        stored = jobs.get((report.node_id, job["key"]))
        if job.get("end_ms") is not None and stored is not None:
            end_ms = job["end_ms"] + offset_ms
            as_of_ms = end_ms + OUTCOME_LAG_MS if said_ms is None else said_ms + offset_ms
            run_ms = _corrected(job.get("start_ms"), offset_ms)
            order = (as_of_ms, batch.boot_start_ms, batch.sequence)
            node_id = None if speaks_for_all(report, job) else report.node_id
            yield End(
                stored.pk,
                node_id,
                None,
                "",
                run_ms,
                end_ms,
                order,
                is_cluster=speaks_for_cluster(report, job),
            )


def _hold_ends(report: Report, jobs: Mapping[JobKey, StoredJob], offset_ms: int) -> Iterator[End]:
    batch = report.batch
    if batch.end_ms is None:
        return
    order = (batch.end_ms + offset_ms, batch.boot_start_ms, batch.sequence)
    for item in batch.allocations:
        stored = jobs.get((report.node_id, batch.jobs[item["job"]]["key"]))
        if item.get("end_ms") is not None and stored is not None:
            gpu_id = report.gpu_ids[item["gpu"]]
            run_ms = _corrected(_run_start(batch, item), offset_ms)
            yield End(
                stored.pk,
                report.node_id,
                gpu_id,
                item.get("source") or "",
                run_ms,
                item["end_ms"] + offset_ms,
                order,
            )


def _recorded_ends(job: StoredJob) -> Iterator[End]:
    """The ends that stand in the job's records: a batch may have told one before another named the
    hold.
    """
    for record in job.records:
        facts = record.facts
        is_cluster = record.voice.is_cluster
        if facts.end_ms is not None:
            node_id = None if record.voice >= Voice.IMPORT else record.node_id
            yield End(
                job.pk,
                node_id,
                None,
                "",
                facts.start_ms,
                facts.end_ms,
                record.order,
                is_cluster=is_cluster,
            )


def _is_in_books(job: StoredJob) -> bool:
    """Whether the books of its cluster newly say something: that it runs on takes back what an
    import told of its end.
    """
    return any(record.voice.is_cluster for record in job.records)


def _corrected(time_ms: int | None, offset_ms: int) -> int | None:
    return None if time_ms is None else time_ms + offset_ms


def _multirange(spans: Sequence[Span]) -> str:
    return "{" + ",".join(f"[{lower},{upper})" for lower, upper in spans) + "}"


def assert_sources(reports: Sequence[Report]) -> None:
    """Keeps that each of the batches' job sources answered, or did not, from the batch's first
    window to its last.

    A declared allocation is its own source: the batch that names one knows it.
    """
    rows = sorted(row for report in reports for row in _source_rows(report))
    if not rows:
        return
    node_ids, kinds, oks, whys, asserted = zip(*rows, strict=True)
    columns = {
        "node_ids": integers(node_ids),
        "kinds": list(kinds),
        "oks": list(oks),
        "whys": list(whys),
        "asserted": list(asserted),
    }
    new = run(ASSERT_SOURCES, columns)
    if new:
        run(FORGET_WHYS, {"node_ids": integers(node_id for (node_id,) in new), "kept": KEPT_WHYS})


def _source_rows(report: Report) -> list[tuple[int, str, bool, str, str]]:
    batch = report.batch
    answers = {
        (source["kind"], source["ok"], "" if source["ok"] else source.get("why") or "")
        for source in batch.sources
    }
    if any(item.get("source") == DECLARED for item in batch.allocations):
        answers.add((DECLARED, True, ""))
    if not answers or batch.start_ms is None or batch.end_ms is None:
        return []
    extent = _multirange([(batch.start_ms + report.offset_ms, batch.end_ms + report.offset_ms)])
    return [(report.node_id, kind, ok, why, extent) for kind, ok, why in answers]


def store_processes(reports: Sequence[Report], jobs: Mapping[JobKey, StoredJob]) -> set[int]:
    """Replaces the processes last seen on the batches' GPUs; an older batch, or one that read none,
    changes nothing.

    The ids of the nodes whose batches read that there is none, where none was seen before either.
    """
    readers = [
        report
        for report in reports
        if _has_read_processes(report.batch) and report.batch.windows["start_ms"]
    ]
    if not readers:
        return set()
    stored = _stored_processes([gpu_id for report in readers for gpu_id in report.gpu_ids])
    same: list[tuple[int, int, str, int | None]] = []
    quiet = set()
    for report in readers:
        there = {
            identity: row
            for gpu_id in report.gpu_ids
            if gpu_id in stored
            for identity, row in stored[gpu_id].items()
        }
        if there or report.batch.processes:
            same += _same_processes(there, report, jobs)
        else:
            quiet.add(report.node_id)
    if same:
        _refresh(same)
    return quiet


def _refresh(processes: Sequence[tuple[int, int, str, int | None]]) -> None:
    pks, seen, states, memory = zip(*processes, strict=True)
    run(
        REFRESH_PROCESSES,
        {
            "pks": integers(pks),
            "seen": integers(seen),
            "states": list(states),
            "memory": integers(memory),
        },
    )


def _has_read_processes(batch: Batch) -> bool:
    return bool(batch.processes) or "process_count" in batch.windows


def _stored_processes(gpu_ids: list[int]) -> dict[int, dict[Identity, tuple[int, int]]]:
    """GPU id -> its processes last seen, as identity -> (primary key, seen_ms)."""
    processes: dict[int, dict[Identity, tuple[int, int]]] = {}
    for gpu_id, pid, started_ms, user, name, job_id, pk, seen_ms in run(
        PROCESSES, {"gpus": integers(gpu_ids)}
    ):
        processes.setdefault(gpu_id, {})[
            (gpu_id, pid, started_ms or -1, user, name, job_id or -1)
        ] = (
            pk,
            seen_ms,
        )
    return processes


def _replace(former: Iterable[tuple[int, int]], rows: Collection[GPUProcess]) -> None:
    GPUProcess.objects.filter(pk__in=[pk for pk, _ in former]).delete()
    GPUProcess.objects.bulk_create(rows)


def _same_processes(
    there: Mapping[Identity, tuple[int, int]], report: Report, jobs: Mapping[JobKey, StoredJob]
) -> list[tuple[int, int, str, int | None]]:
    """The rows to refresh, where the batch names the very processes that are stored; else they have
    been replaced.
    """
    seen_ms = (report.batch.end_ms or 0) + report.offset_ms
    last_ms = max((seen for _, seen in there.values()), default=seen_ms)
    if seen_ms < last_ms:
        return []
    rows = {_identity(row): row for row in _process_rows(report, jobs, seen_ms=seen_ms)}
    if rows.keys() != there.keys():
        _replace(there.values(), rows.values())
        return []
    if seen_ms - last_ms < PROCESSES_REFRESH_MS:
        return []
    return [
        (pk, seen_ms, rows[identity].state, rows[identity].memory_bytes)
        for identity, (pk, _) in there.items()
    ]


def _process_rows(
    report: Report, jobs: Mapping[JobKey, StoredJob], *, seen_ms: int
) -> list[GPUProcess]:
    batch = report.batch
    return [
        GPUProcess(
            gpu_id=report.gpu_ids[item["gpu"]],
            job_id=(
                None if item.get("job") is None else _job_id(report, batch.jobs[item["job"]], jobs)
            ),
            pid=item["pid"],
            started_ms=item.get("started_ms"),
            user=item.get("user") or "",
            name=item.get("name") or "",
            state=item.get("state") or "",
            memory_bytes=item.get("memory_bytes"),
            seen_ms=seen_ms,
        )
        for item in batch.processes
    ]


def _job_id(report: Report, job: Mapping[str, Any], jobs: Mapping[JobKey, StoredJob]) -> int | None:
    """None for a job that nobody holds."""
    stored = jobs.get((report.node_id, job["key"]))
    return None if stored is None else stored.pk


def _identity(row: GPUProcess) -> Identity:
    return (row.gpu_id, row.pid, row.started_ms or -1, row.user, row.name, row.job_id or -1)
