"""Writes of who held which GPU: what batches assert of allocations, job sources and processes.

Jobs' facts: job_writes.py.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agent.wire import Batch
from fleetwatch.jobs import run_ends
from fleetwatch.jobs.allocation_sources import DECLARED
from fleetwatch.jobs.batch_report import JobKey, Report, StoredJob
from fleetwatch.jobs.models import GPUProcess
from fleetwatch.jobs.records import OUTCOME_LAG_MS, Voice
from fleetwatch.jobs.run_ends import End
from fleetwatch.lib.batched import columns, integers, run
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
Identity = tuple[Any, ...]  # GPU, pid, when it started, user, name, job
Stored = Sequence[StoredJob | None]  # by position in the batch; None: a job that nobody holds


class AssertedTime(NamedTuple):
    """What is asserted of an allocation (int8multirange text), and when its runs began (bigint[]
    text).
    """

    gpu_id: int
    job_id: int
    source: str
    share: float | None
    asserted: str
    starts: str


class SourceAnswer(NamedTuple):
    """When a job source of a node answered, or did not and why (int8multirange text)."""

    node_id: int
    kind: str
    ok: bool
    why: str
    asserted: str


class SeenProcess(NamedTuple):
    """A stored process that was seen again."""

    id: int
    seen_ms: int
    state: str
    memory_bytes: int | None


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
    stored = [(report, by_position(report, jobs)) for report in reports]
    held, to_cut = _assert_time(stored)
    ends = [end for each in stored for end in (*_job_ends(*each), *_hold_ends(*each))]
    to_cut |= run_ends.note([*ends, *(end for job in jobs.values() for end in _recorded_ends(job))])
    to_cut |= {job.pk for job in jobs.values() if _is_in_books(job)}
    return held | run_ends.cut_holds(to_cut)


def by_position(report: Report, jobs: Mapping[JobKey, StoredJob]) -> Stored:
    """The batch's jobs as stored."""
    return [jobs.get((report.node_id, job["key"])) for job in report.batch.jobs]


def _assert_time(
    reports: Sequence[tuple[Report, Stored]],
) -> tuple[set[tuple[int, Span]], set[int]]:
    """(GPU id, span) of what is asserted newly, and the ids of jobs of whose ends that may say
    something.
    """
    asserted = [allocation for each in reports for allocation in _asserted(*each)]
    if not asserted:
        return set(), set()
    rows = run(ASSERT_ALLOCATIONS, columns(asserted))
    held = {(gpu_id, (lower, upper)) for gpu_id, _, _, lower, upper in rows if lower is not None}
    return held, {job_id for _, job_id, is_to_cut, _, _ in rows if is_to_cut}


def _asserted(report: Report, stored: Stored) -> Iterator[AssertedTime]:
    """What the batch asserts of each allocation: the time, and when the runs began to which it
    belongs.
    """
    times: dict[AllocationKey, list[tuple[Span, int | None]]] = defaultdict(list)
    for key, span, run_ms in holds(report, stored):
        times[key].append((span, run_ms))
    for key, of_key in times.items():
        spans = union(span for span, _ in of_key)
        starts = sorted({run_ms for _, run_ms in of_key if run_ms is not None})
        yield AssertedTime(*key, _multirange(spans), integers(starts))


def holds(report: Report, stored: Stored) -> Iterator[tuple[AllocationKey, Span, int | None]]:
    """Each hold that the batch names, its time, and when its run began."""
    for item in report.batch.allocations:
        extent = report.extent(item)
        job = stored[item["job"]]
        # no job: one user more than a node may name of one key
        if job is not None and extent is not None and extent[0] < extent[1]:
            gpu_id = report.gpu_ids[item["gpu"]]
            key = gpu_id, job.pk, item.get("source") or "", item.get("share")
            yield key, extent, report.run_ms(item)


def _job_ends(report: Report, stored: Stored) -> Iterator[End]:
    """The ends of jobs that the batch tells.

    A node ends a job on its own GPUs alone: others may hold it on. Accounting, which has its
    controller's clock, and the books of a cluster end it everywhere.
    """
    batch = report.batch
    spoken_ms = report.spoken_ms
    offset_ms = 0 if spoken_ms is None else report.offset_ms
    for job, row in zip(batch.jobs, stored, strict=True):
        if job.get("end_ms") is not None and row is not None:
            start_ms = job.get("start_ms")
            end_ms = job["end_ms"] + offset_ms
            is_cluster = report.is_of_cluster(job)
            yield End(
                row.pk,
                None if is_cluster or spoken_ms is None else report.node_id,
                None if start_ms is None else start_ms + offset_ms,
                end_ms,
                end_ms + OUTCOME_LAG_MS if spoken_ms is None else spoken_ms + offset_ms,
                batch.boot_start_ms,
                batch.sequence,
                is_cluster=is_cluster,
            )


def _hold_ends(report: Report, stored: Stored) -> Iterator[End]:
    """The ends that the batch tells of jobs' holds on its GPUs."""
    batch = report.batch
    if batch.end_ms is None:
        return
    for item in batch.allocations:
        job = stored[item["job"]]
        if item.get("end_ms") is not None and job is not None:
            yield End(
                job.pk,
                report.node_id,
                report.run_ms(item),
                item["end_ms"] + report.offset_ms,
                batch.end_ms + report.offset_ms,
                batch.boot_start_ms,
                batch.sequence,
                gpu_id=report.gpu_ids[item["gpu"]],
                source=item.get("source") or "",
            )


def _recorded_ends(job: StoredJob) -> Iterator[End]:
    """The ends that stand in the job's records: a batch may have told one before another named the
    hold.
    """
    for record in job.records:
        facts = record.facts
        if facts.end_ms is not None:
            node_id = None if record.voice >= Voice.IMPORT else record.node_id
            yield End(
                job.pk,
                node_id,
                facts.start_ms,
                facts.end_ms,
                *record.order,
                is_cluster=record.voice.is_cluster,
            )


def _is_in_books(job: StoredJob) -> bool:
    """Whether the books of its cluster newly say something: that it runs on takes back what an
    import told of its end.
    """
    return any(record.voice.is_cluster for record in job.records)


def _multirange(spans: Sequence[Span]) -> str:
    return "{" + ",".join(f"[{lower},{upper})" for lower, upper in spans) + "}"


def assert_sources(reports: Sequence[Report]) -> None:
    """Keeps that each of the batches' job sources answered, or did not, from the batch's first
    window to its last.

    A declared allocation is its own source: the batch that names one knows it.
    """
    given = [answer for report in reports for answer in answers(report)]
    if not given:
        return
    new = run(ASSERT_SOURCES, columns(given))
    if new:
        run(FORGET_WHYS, {"node_ids": integers(node_id for (node_id,) in new), "kept": KEPT_WHYS})


def answers(report: Report) -> set[SourceAnswer]:
    """What the batch says of its node's job sources; nothing of a batch without windows."""
    extent = report.extent({})
    if extent is None:
        return set()
    asserted = _multirange([extent])
    sources = {
        (source["kind"], source["ok"], "" if source["ok"] else source.get("why") or "")
        for source in report.batch.sources
    }
    if any(item.get("source") == DECLARED for item in report.batch.allocations):
        sources.add((DECLARED, True, ""))
    return {SourceAnswer(report.node_id, *source, asserted) for source in sources}


def store_processes(reports: Sequence[Report], jobs: Mapping[JobKey, StoredJob]) -> set[int]:
    """Replaces the processes last seen on the batches' GPUs; an older batch, or one that read none,
    changes nothing.

    The ids of the nodes whose batches read that there is none, where none was seen before either.
    """
    readers = [report for report in reports if _has_read_processes(report.batch)]
    if not readers:
        return set()
    stored = _stored_processes(readers)
    same: list[SeenProcess] = []
    quiet = set()
    for report in readers:
        there = stored[report.node_id]
        if there or report.batch.processes:
            same += _same_processes(there, report, by_position(report, jobs))
        else:
            quiet.add(report.node_id)
    if same:
        run(REFRESH_PROCESSES, columns(same))
    return quiet


def _has_read_processes(batch: Batch) -> bool:
    is_read = batch.processes or "process_count" in batch.windows
    return bool(is_read and batch.windows["start_ms"])


def _stored_processes(
    reports: Sequence[Report],
) -> dict[int, dict[Identity, tuple[int, int]]]:
    """Node id -> its processes last seen on these GPUs, as identity -> (primary key, seen_ms)."""
    nodes = {gpu_id: report.node_id for report in reports for gpu_id in report.gpu_ids}
    processes: dict[int, dict[Identity, tuple[int, int]]] = defaultdict(dict)
    for *identity, pk, seen_ms in run(PROCESSES, {"gpus": integers(nodes)}):
        processes[nodes[identity[0]]][tuple(identity)] = pk, seen_ms
    return processes


def _same_processes(
    there: Mapping[Identity, tuple[int, int]], report: Report, jobs: Stored
) -> list[SeenProcess]:
    """The rows to refresh, where the batch names the very processes that are stored; else they have
    been replaced.
    """
    seen_ms = (report.batch.end_ms or 0) + report.offset_ms
    last_ms = max((seen for _, seen in there.values()), default=seen_ms)
    if seen_ms < last_ms:
        return []
    rows = {_identity(row): row for row in _process_rows(report, jobs, seen_ms=seen_ms)}
    if rows.keys() != there.keys():
        GPUProcess.objects.filter(pk__in=[pk for pk, _ in there.values()]).delete()
        GPUProcess.objects.bulk_create(rows.values())
        return []
    if seen_ms - last_ms < PROCESSES_REFRESH_MS:
        return []
    return [
        SeenProcess(there[identity][0], seen_ms, row.state, row.memory_bytes)
        for identity, row in rows.items()
    ]


def _process_rows(report: Report, jobs: Stored, *, seen_ms: int) -> list[GPUProcess]:
    rows = []
    for item in report.batch.processes:
        # None too for a job that nobody holds
        job = None if item.get("job") is None else jobs[item["job"]]
        rows.append(
            GPUProcess(
                gpu_id=report.gpu_ids[item["gpu"]],
                job_id=None if job is None else job.pk,
                pid=item["pid"],
                started_ms=item.get("started_ms"),
                user=item.get("user") or "",
                name=item.get("name") or "",
                state=item.get("state") or "",
                memory_bytes=item.get("memory_bytes"),
                seen_ms=seen_ms,
            )
        )
    return rows


def _identity(row: GPUProcess) -> Identity:
    return row.gpu_id, row.pid, row.started_ms, row.user, row.name, row.job_id
