"""Reads of jobs: who held which GPU when, and when the job sources answered."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Allocation, GPUProcess, Job
from fleetwatch.lib.multirange import to_spans
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement

SOURCE_STATUS = read_statement(Path(__file__).parent / "sql" / "source_status.sql")


@dataclass(frozen=True, slots=True)
class Holding:
    """A job's hold on a GPU as one source asserted it; `share` is what was granted of the GPU, None = not known."""

    gpu_id: int
    job_id: int
    kind: str
    source: str
    share: float | None
    spans: list[Span]


@dataclass(frozen=True, slots=True)
class SourceSpans:
    """When a job source of a node answered (`ok`), or did not."""

    kind: str
    ok: bool
    spans: list[Span]


def holdings(node_id: int, start_ms: int, end_ms: int) -> list[Holding]:
    """Who held the node's GPUs in [start_ms, end_ms), by GPU and job.

    The spans that overlap the interval, each whole: where one began before the
    interval its true start is seen.
    """
    rows = Allocation.objects.filter(gpu__in=GPU.objects.filter(node_id=node_id)).extra(
        where=["asserted && int8range(%s, %s)"], params=[start_ms, end_ms]
    )
    return [
        Holding(row.gpu_id, row.job_id, row.job.kind, row.source, row.share, _overlapping(row.asserted, start_ms, end_ms))
        for row in rows.select_related("job").order_by("gpu_id", "job_id", "source", "share")
    ]


def _overlapping(spans: Iterable[Span], start_ms: int, end_ms: int) -> list[Span]:
    return [(lower, upper) for lower, upper in spans if lower < end_ms and upper > start_ms]


def source_status(node_id: int, start_ms: int, end_ms: int) -> list[SourceSpans]:
    """When each job source of the node answered in [start_ms, end_ms) and when it did not; never both at once."""
    with connection.cursor() as cursor:
        cursor.execute(SOURCE_STATUS, {"node_id": node_id, "start_ms": start_ms, "end_ms": end_ms})
        rows = [SourceSpans(kind, ok, to_spans(spans)) for kind, ok, spans in cursor.fetchall()]
    return [row for row in rows if row.spans]


def held_by_node(job_ids: Iterable[int]) -> dict[int, list[Span]]:
    """Node id -> the spans in which its GPUs were held by one of the jobs."""
    held: dict[int, list[Span]] = {}
    for node_id, spans in Allocation.objects.filter(job_id__in=list(job_ids)).values_list("gpu__node_id", "asserted"):
        held.setdefault(node_id, []).extend(spans)
    return held


def job(key: str) -> Job | None:
    """The job of that key, with its team; None when there is none."""
    return Job.objects.select_related("team").filter(key=key).first()


def allocations(job: Job) -> list[Allocation]:
    """The job's allocations, with their GPUs and nodes, by node and index."""
    return list(job.allocations.select_related("gpu__node", "gpu__model").order_by("gpu__node__name", "gpu__index", "gpu_id"))


def processes(node_id: int) -> list[GPUProcess]:
    """The processes last seen on the node's GPUs, by GPU and memory."""
    rows = GPUProcess.objects.filter(gpu__node_id=node_id).select_related("gpu", "job")
    return list(rows.order_by("gpu__index", "-memory_bytes", "pid"))
