"""Reads of jobs: who held which GPU when, and when the job sources answered."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from django.db.models import Count, Min, Q

from fleetwatch.accounts.models import Identity
from fleetwatch.accounts.visibility import narrowed, sight
from fleetwatch.inventory.models import Node
from fleetwatch.jobs import records
from fleetwatch.jobs.models import Allocation, GPUProcess, Hold, Job, JobChange, JobRecord
from fleetwatch.jobs.records import JobFacts, Record, Voice
from fleetwatch.jobs.visible_jobs import under, visible
from fleetwatch.lib import rows
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.multirange import to_spans
from fleetwatch.lib.spans import Span, length_ms, union
from fleetwatch.lib.sql import execute, read_statement

HOLDINGS = read_statement("jobs/sql/holdings.sql")
JOB_SOURCES = read_statement("jobs/sql/job_sources.sql")
PENDING_JOBS = read_statement("jobs/sql/pending_jobs.sql")
WAITS = read_statement("jobs/sql/waits.sql")
SOURCE_OUTAGES = read_statement("jobs/sql/source_outages.sql")
SOURCE_STATUS = read_statement("jobs/sql/source_status.sql")

# the number of the first of the jobs that share a key; the others have theirs in their keys
FIRST = "~1"
# A source that is reported no longer while its node reports on was switched off, or is of a
# scheduler that went.
FORGOTTEN_MS = 10 * 60_000
# Accounting that is imported now and then tells of a job's end; who waits for longer was imported
# once.
PROCESSES = 100  # of a job, shown
LONGEST_WAIT_MS = 14 * 86_400_000


class Holding(NamedTuple):
    """A job's hold on a GPU by one source; `share` is what was granted of the GPU, None = not
    known.
    """

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


@dataclass(frozen=True, slots=True)
class JobSource:
    """A job source of a node as its newest report says; `silent_ms`: since when it does not answer,
    None = it answers.
    """

    kind: str
    reported_ms: int
    silent_ms: int | None
    why: str

    @property
    def is_ok(self) -> bool:
        return self.silent_ms is None


@dataclass(frozen=True, slots=True)
class SourceOutage:
    """A job source did not answer from `start_ms` on, and again at `answered_ms`: None = not yet.

    `why` at first; "" = not told.
    """

    kind: str
    start_ms: int
    why: str
    answered_ms: int | None


@dataclass(frozen=True, slots=True)
class PendingJobs:
    """Jobs that wait in a partition ("" = none is told); `gpus` is what they asked for, `since_ms`
    the first one's submission.
    """

    cluster: str
    partition: str
    jobs: int
    gpus: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Waits:
    """How long so many jobs of a partition ("" = none is told) had waited together before they
    began.
    """

    cluster: str
    partition: str
    jobs: int
    wait_ms: int

    @property
    def mean_ms(self) -> int:
        """How long each of them had waited on the mean."""
        return self.wait_ms // self.jobs


@dataclass(frozen=True, slots=True)
class Contradicted:
    """A fact of a job that a node has otherwise than it is believed; `node` is "" where none is
    known.
    """

    node: str
    voice: Voice
    fact: str
    value: str


def holdings(node_id: int, start_ms: int, end_ms: int) -> list[Holding]:
    """Who held the node's GPUs in [start_ms, end_ms), by GPU and job.

    The spans that overlap the interval, each whole: where one began before the
    interval its true start is seen.
    """
    return holdings_of([node_id], start_ms, end_ms)[node_id]


def holdings_of(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, list[Holding]]:
    """Per node what `holdings` gives, in one statement."""
    holding_rows = rows.fetched(
        HOLDINGS,
        {"node_ids": np.array(node_ids, dtype=np.int64), "start_ms": start_ms, "end_ms": end_ms},
        is_fixed=True,
    )
    held: dict[int, list[Holding]] = {node_id: [] for node_id in node_ids}
    spans: list[Span] = []
    before = None
    for node_id, allocation_id, gpu_id, job_id, kind, source, share, *span in holding_rows:
        if allocation_id != before:
            spans = []
            held[node_id].append(Holding(gpu_id, job_id, kind, source, share, spans))
            before = allocation_id
        spans.append((span[0], span[1]))
    return held


def source_status_of(
    node_ids: Sequence[int], start_ms: int, end_ms: int
) -> dict[int, list[SourceSpans]]:
    """Per node when each of its job sources answered in [start_ms, end_ms) and when it did not;
    never both at once.
    """
    sources: dict[int, list[SourceSpans]] = {node_id: [] for node_id in node_ids}
    asked = {"node_ids": list(node_ids), "start_ms": start_ms, "end_ms": end_ms}
    for node_id, kind, ok, spans in execute(SOURCE_STATUS, asked):
        source = SourceSpans(kind, ok, to_spans(spans))
        if source.spans:
            sources[node_id].append(source)
    return sources


def job_sources(node_ids: Iterable[int] | None = None) -> dict[int, list[JobSource]]:
    """Node id -> its job sources by kind, of the nodes that reported any; of all nodes where none
    is named.
    """
    wanted = None if node_ids is None else list(node_ids)
    sources: dict[int, list[JobSource]] = defaultdict(list)
    for node_id, *source in execute(
        JOB_SOURCES, {"node_ids": wanted, "forgotten_ms": FORGOTTEN_MS}
    ):
        sources[node_id].append(JobSource(*source))
    return dict(sources)


def source_outages(node_id: int, *, limit: int) -> list[SourceOutage]:
    """When job sources of the node did not answer, the newest first."""
    return [
        SourceOutage(*outage)
        for outage in execute(SOURCE_OUTAGES, {"node_id": node_id, "count": limit})
    ]


def pending_jobs(now_ms: int) -> list[PendingJobs]:
    """The jobs that wait, by cluster and partition, as far as accounting told of them in the last
    days; nothing to who does not see everybody's.
    """
    if narrowed() is not None:
        return []
    return [
        PendingJobs(*row) for row in execute(PENDING_JOBS, {"since_ms": now_ms - LONGEST_WAIT_MS})
    ]


def waits(start_ms: int, end_ms: int, *, limit: int) -> list[Waits]:
    """How long the jobs had waited that began in [start_ms, end_ms), by cluster and partition,
    those with most jobs first.
    """
    return [
        Waits(*row)
        for row in execute(WAITS, {"start_ms": start_ms, "end_ms": end_ms, "count": limit})
    ]


def held_by_node(job_ids: Iterable[int]) -> dict[int, list[Span]]:
    """Node id -> the spans in which its GPUs were held by one of the jobs."""
    held: dict[int, list[Span]] = defaultdict(list)
    holds = Hold.objects.filter(job_id__in=list(job_ids))
    for node_id, spans in holds.values_list("gpu__node_id", "held"):
        held[node_id] += spans
    return dict(held)


def clusters_of(node_ids: Iterable[int]) -> dict[int, set[str]]:
    """Node id -> the clusters of the jobs that its GPUs were ever given to."""
    given = Allocation.objects.filter(gpu__node_id__in=list(node_ids)).exclude(job__cluster="")
    clusters: dict[int, set[str]] = defaultdict(set)
    for node_id, cluster in given.values_list("gpu__node_id", "job__cluster").distinct():
        clusters[node_id].add(cluster)
    return dict(clusters)


def job(key: str) -> Job | None:
    """The job of that key, with its team; None when there is none that the reader sees.

    Of several that share the key the first that held GPUs at least half as long as any of them
    since the hub heard of each: who names another owner later, or held it for a moment before it
    existed, does not stand in its place. `key~1` is the first alone.
    """
    jobs = visible(Job.objects.select_related("team"))
    sharing = list(jobs.filter(said_key=key).order_by("pk"))
    if len(sharing) > 1:
        held_ms = _held_ms(key, sharing)
        longest_ms = max(held_ms.values(), default=0)
        return next(job for job in sharing if 2 * held_ms.get(job.pk, 0) >= longest_ms)
    return sharing[0] if sharing else jobs.filter(key=key.removesuffix(FIRST)).first()


def job_ids(
    *,
    text: str = "",
    kind: str | None = None,
    cluster: str | None = None,
    label: str | None = None,
) -> list[int] | None:
    """The ids of jobs with the text in key or name, of that kind and cluster, with that label
    ("name=value"; a name alone: with any value); None where nothing is asked: of all. By text and
    label those are found whose name and labels the reader sees.
    """
    facts = {
        name: value for name, value in (("kind", kind), ("cluster", cluster)) if value is not None
    }
    if not text and not facts and not label:
        return None
    named = Q(key__icontains=text) | Q(name__icontains=text) if text else Q()
    jobs = Job.objects.filter(named, _has_label(label or ""), **facts)
    asked = visible(jobs) if text or label or narrowed() else jobs
    return list(asked.values_list("pk", flat=True))


def _has_label(label: str) -> Q:
    name, is_of_value, value = label.partition("=")
    if is_of_value:
        return Q(labels__contains={name: value})
    return Q(labels__has_key=name) if name else Q()


def clusters(limit: int) -> list[str]:
    """So many of the clusters that jobs are of, the first by name; of the jobs that the reader
    sees.
    """
    named = visible(Job.objects.exclude(cluster="").order_by("cluster"))
    every = named.values_list("cluster", flat=True)
    if narrowed():
        return list(every.distinct()[:limit])
    names: list[str] = []
    # from name to name over the index jobs_by_cluster: DISTINCT would read every job
    while len(names) < limit and (after := every.filter(cluster__gt="".join(names[-1:])).first()):
        names.append(after)
    return names


def held_by(names: Iterable[Identity], *, since_ms: int) -> list[int]:
    """The ids of the jobs under one of these names that had not ended by then."""
    theirs = list(names)
    if not theirs:
        return []
    lasts = Q(end_ms=None) | Q(end_ms__gt=since_ms)
    return list(Job.objects.filter(under(theirs), lasts).values_list("pk", flat=True))


def namesakes(job: Job) -> list[Job]:
    """The other jobs that share its key, because nodes name other owners, the first heard first."""
    sharing = Job.objects.filter(said_key=job.said_key).exclude(pk=job.pk)
    return list(visible(sharing).select_related("team").order_by("pk"))


def gpus_held(job_ids: Collection[int]) -> dict[int, int]:
    """By the id of each of these jobs that held GPUs on how many it was."""
    if not job_ids:
        return {}
    held = Allocation.objects.filter(job__in=job_ids).values("job")
    return dict(held.annotate(gpus=Count("gpu", distinct=True)).values_list("job", "gpus"))


def held_spans(job: Job, gpu_id: int) -> list[Span]:
    """When the job held the GPU by any source's word, ascending; they may overlap."""
    held = Hold.objects.filter(job=job, gpu=gpu_id).values_list("held", flat=True)
    return sorted(span for spans in held for span in spans)


def runs_like(job: Job, *, limit: int) -> list[Job]:
    """The newest other jobs of its name and owner that began before it did and that the reader
    sees; none where its name, its owner or its start is not known.
    """
    if not job.name or not job.user or job.start_ms is None:
        return []
    same = {name: getattr(job, name) for name in ("scheduler", "cluster", "user", "name")}
    before = Job.objects.filter(**same, start_ms__lt=job.start_ms).exclude(pk=job.pk)
    return list(visible(before).order_by("-start_ms", "-pk")[:limit])


def _held_ms(key: str, jobs: Iterable[Job]) -> dict[int, int]:
    """Job id -> how long it held a GPU since the hub heard of it, by the clock: any time before can
    be made up.
    """
    heard = (
        JobRecord.objects.filter(key=key, held_at__isnull=False)
        .values_list("job_id")
        .annotate(Min("held_at"))
    )
    since_ms = {job_id: to_ms(held_at) - records.GRACE_MS for job_id, held_at in heard}
    held: dict[int, list[Span]] = defaultdict(list)
    holds = Hold.objects.filter(job__in=list(jobs))
    for job_id, spans in holds.values_list("job_id", "held"):
        held[job_id].extend((max(start, since_ms.get(job_id, start)), end) for start, end in spans)
    return {
        job_id: length_ms(union([span for span in spans if span[0] < span[1]]))
        for job_id, spans in held.items()
    }


def wait_ms(job: Job) -> int | None:
    """How long the job waited for its start; None where that is not known, or it has not begun."""
    if job.submit_ms is None or job.start_ms is None or job.start_ms < job.submit_ms:
        return None
    return job.start_ms - job.submit_ms


def records_of(keys: Iterable[str]) -> dict[str, list[Record]]:
    """What is said of the jobs of these keys, by key, the first heard first; also of what is no
    job, because nobody held it.
    """
    by_key: dict[str, list[Record]] = {}
    for row in JobRecord.objects.filter(key__in=list(keys)).order_by("pk"):
        order = (row.as_of_ms, row.boot_start_ms, row.sequence)
        record = Record(
            row.pk,
            row.node_id,
            Voice(row.voice),
            order,
            JobFacts(**row.facts),
            row.held_at,
            row.held_until_ms,
            row.job_id,
        )
        by_key.setdefault(row.key, []).append(record)
    return by_key


def contradictions(job: Job) -> list[Contradicted]:
    """What is said otherwise of whose the job is and what it is than it is believed, by who was
    heard first; nothing to who does not see everybody, for it names others.
    """
    if sight() is not None:
        return []
    claims = records.contradictions(records_of([job.said_key]).get(job.said_key, []), job)
    nodes = Node.objects.in_bulk([record.node_id for record, _, _ in claims])
    return [
        Contradicted(
            nodes[record.node_id].name if record.node_id in nodes else "", record.voice, fact, value
        )
        for record, fact, value in claims
    ]


def changes(job: Job) -> list[JobChange]:
    """Who newly said what of the job, and of those that share its key, with their nodes, the newest
    first; nothing to who does not see everybody, for some name others.
    """
    if sight() is not None:
        return []
    return list(
        JobChange.objects.filter(job__said_key=job.said_key)
        .select_related("node", "job")
        .order_by("-pk")
    )


def holds(job: Job) -> list[Hold]:
    """The job's holds, with their GPUs and nodes, by node and index."""
    return list(
        job.holds.select_related("gpu__node", "gpu__model").order_by(
            "gpu__node__name", "gpu__index", "gpu_id"
        )
    )


def processes(node_id: int) -> list[GPUProcess]:
    """The processes last seen on the node's GPUs, by GPU and memory."""
    rows = GPUProcess.objects.filter(gpu__node_id=node_id).select_related("gpu", "job")
    return list(rows.order_by("gpu__index", "-memory_bytes", "pid"))


def processes_of(job: Job) -> list[GPUProcess]:
    """The processes of the job as they were last seen, by node, GPU and memory, PROCESSES at
    most.
    """
    rows = GPUProcess.objects.filter(job=job).select_related("gpu__node")
    return list(rows.order_by("gpu__node__name", "gpu__index", "-memory_bytes", "pid")[:PROCESSES])
