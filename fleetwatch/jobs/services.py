"""Writes of jobs: what batches assert of jobs, allocations, job sources and processes."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.db import connection

from agent.wire import Batch
from fleetwatch.accounts.services import ensure_teams
from fleetwatch.inventory.extents import newest_ms
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.jobs.kinds import DECLARED
from fleetwatch.jobs.models import GPUProcess, Job
from fleetwatch.lib.multirange import to_spans
from fleetwatch.lib.spans import Span, union
from fleetwatch.lib.sql import read_statement

SQL = Path(__file__).parent / "sql"
UPSERT_JOBS = read_statement(SQL / "upsert_jobs.sql")
IMPORT_JOBS = read_statement(SQL / "import_jobs.sql")
ASSERT_ALLOCATIONS = read_statement(SQL / "assert_allocations.sql")
ASSERT_SOURCES = read_statement(SQL / "assert_sources.sql")

MAX_SLUG = 100
# The list is for people: the same processes are written again no more often than this.
PROCESSES_REFRESH_MS = 60_000
# An agent asks its scheduler now and then: this long after a job's end it may still have called it running.
OUTCOME_LAG_MS = 10 * 60_000
IMPORT_BOOT_MS = 0  # no living node booted then: agent/history.py

AllocationKey = tuple[int, int, str, float | None]


def store_jobs(batch: Batch, *, offset_ms: int) -> list[Job]:
    """The batch's jobs as stored, by position in batch.jobs.

    A job's facts come from the batch with the newest (end, boot start, sequence):
    the end first, because a job can span nodes whose boots tell nothing of each other.
    Of an import, which speaks of no time of its own, the job's end takes that place.
    `former_kind` is the kind that this batch changed, None otherwise.
    """
    if not batch.jobs:
        return []
    spoken_ms = batch.end_ms if batch.end_ms is not None else newest_ms(batch, offset_ms=0)
    is_import = spoken_ms is None
    rows = []
    # sorted, so that two nodes of one job wait for each other and do not deadlock
    for job in sorted(batch.jobs, key=lambda job: str(job["key"])):
        as_of_ms = _known_until(job) if spoken_ms is None else spoken_ms + offset_ms
        order = [as_of_ms, batch.boot_start_ms, batch.sequence]
        rows.append(_job_row(job, order=order, offset_ms=0 if is_import else offset_ms))  # accounting has its controller's clock
    stored = {job.key: job for job in Job.objects.raw(IMPORT_JOBS if is_import else UPSERT_JOBS, {"jobs": json.dumps(rows)})}
    _join_new_teams(stored, rows)
    if missing := {row["key"]: row for row in rows if row["key"] not in stored}:
        stored |= {job.key: _filled(job, missing[job.key]) for job in Job.objects.filter(key__in=missing)}
    return [_with_former_kind(stored[job["key"]]) for job in batch.jobs]


def _filled(job: Job, row: Mapping[str, Any]) -> Job:
    """The job, with what an older batch knows and the import that told its end did not: whichever of them came first."""
    is_imported = job.facts_order[1:2] == [IMPORT_BOOT_MS]
    if not is_imported or row["facts_order"][1] == IMPORT_BOOT_MS:
        return job
    known = {name: row[name] for name in ("name", "user", "account") if row[name] and not getattr(job, name)}
    known |= {"labels": row["labels"] | job.labels} if row["labels"].keys() - job.labels.keys() else {}
    known |= {"kind": row["kind"]} if job.kind == Job.Kind.BATCH != row["kind"] else {}
    if known:
        job.former_kind = job.kind
        for name, value in known.items():
            setattr(job, name, value)
        job.save(update_fields=list(known))
    return job


def _known_until(job: Mapping[str, Any]) -> int:
    """Until when an import knows the job: past what agents may have said of it at its end, but not into a later run."""
    if job.get("end_ms") is not None:
        return int(job["end_ms"]) + OUTCOME_LAG_MS
    return int(job.get("start_ms") or job.get("submit_ms") or 0)


def _with_former_kind(job: Job) -> Job:
    if job.former_kind == job.kind:
        job.former_kind = None
    return job


def _slug(job: Mapping[str, Any]) -> str:
    """The slug of the team that the job's account names; "" without an account."""
    return (job.get("account") or "").strip()[:MAX_SLUG]


def _join_new_teams(stored: Mapping[str, Job], rows: Sequence[Mapping[str, Any]]) -> None:
    """Makes the teams that no job named before, and puts their jobs into them."""
    teamless = {
        row["key"]: row["team_slug"] for row in rows if row["team_slug"] and row["key"] in stored and stored[row["key"]].team_id is None
    }
    if not teamless:
        return
    teams = ensure_teams(set(teamless.values()))
    for key, slug in teamless.items():
        stored[key].team_id = teams[slug]
        stored[key].save(update_fields=["team"])


def _job_row(job: Mapping[str, Any], *, order: list[int], offset_ms: int) -> dict[str, Any]:
    row = {key: job.get(key) or "" for key in ("key", "scheduler", "cluster", "name", "user", "account", "state")}
    times = {key: None if job.get(key) is None else job[key] + offset_ms for key in ("submit_ms", "start_ms", "end_ms")}
    return (
        row
        | times
        | {
            "external_id": job.get("id") or "",
            "team_slug": _slug(job),
            "kind": job["kind"],
            "restarts": job.get("restarts") or 0,  # a requeue counter: none is 0
            "labels": job["labels"],
            "facts_order": order,
        }
    )


def assert_allocations(batch: Batch, *, gpus: Mapping[int, GPU], jobs: Sequence[Job], offset_ms: int) -> set[tuple[int, Span]]:
    """(GPU id, span) of the time that was not asserted before.

    An allocation is asserted from its start (the batch's first window, where it
    has none) to its end or the end of the batch's last window, whichever is first.
    """
    asserted = _asserted(batch, gpus=gpus, jobs=jobs, offset_ms=offset_ms)
    if not asserted:
        return set()
    rows = [
        {"gpu_id": gpu_id, "job_id": job_id, "source": source, "share": share, "asserted": _multirange(spans)}
        for (gpu_id, job_id, source, share), spans in sorted(asserted.items(), key=lambda item: (item[0][:3], item[0][3] or 0.0))
    ]
    with connection.cursor() as cursor:
        cursor.execute(ASSERT_ALLOCATIONS, {"rows": json.dumps(rows)})
        return {(gpu_id, span) for gpu_id, grown in cursor.fetchall() for span in to_spans(grown)}


def _asserted(batch: Batch, *, gpus: Mapping[int, GPU], jobs: Sequence[Job], offset_ms: int) -> dict[AllocationKey, list[Span]]:
    if batch.start_ms is None or batch.end_ms is None:
        return {}
    spans: dict[AllocationKey, list[Span]] = defaultdict(list)
    for item in batch.allocations:
        start_ms = batch.start_ms if item.get("start_ms") is None else item["start_ms"]
        end_ms = batch.end_ms if item.get("end_ms") is None else min(item["end_ms"], batch.end_ms)
        key = (gpus[item["gpu"]].pk, jobs[item["job"]].pk, item.get("source") or "", item.get("share"))
        if start_ms < end_ms:
            spans[key].append((start_ms + offset_ms, end_ms + offset_ms))
    return {key: union(parts) for key, parts in spans.items()}


def _multirange(spans: Sequence[Span]) -> str:
    return "{" + ",".join(f"[{lower},{upper})" for lower, upper in spans) + "}"


def assert_sources(node: Node, batch: Batch, *, offset_ms: int) -> None:
    """Keeps that each of the batch's job sources answered, or did not, from its first window to its last.

    A declared allocation is its own source: the batch that names one knows it.
    """
    if batch.start_ms is None or batch.end_ms is None:
        return
    reports = {(source["kind"], source["ok"]) for source in batch.sources}
    if any(item.get("source") == DECLARED for item in batch.allocations):
        reports.add((DECLARED, True))
    if not reports:
        return
    extent = _multirange([(batch.start_ms + offset_ms, batch.end_ms + offset_ms)])
    kinds, oks = zip(*sorted(reports), strict=True)
    with connection.cursor() as cursor:
        cursor.execute(ASSERT_SOURCES, {"node_id": node.pk, "kinds": list(kinds), "oks": list(oks), "asserted": extent})


def store_processes(batch: Batch, *, gpus: Mapping[int, GPU], jobs: Sequence[Job], offset_ms: int) -> None:
    """Replaces the processes last seen on the batch's GPUs; an older batch, or one that read none, changes nothing."""
    if batch.end_ms is None or not (batch.processes or "process_count" in batch.windows):
        return
    seen_ms = batch.end_ms + offset_ms
    ids = [gpu.pk for gpu in gpus.values()]
    stored = list(GPUProcess.objects.filter(gpu_id__in=ids))
    newest_ms = max((row.seen_ms for row in stored), default=None)
    rows = _process_rows(batch, gpus=gpus, jobs=jobs, seen_ms=seen_ms)
    if newest_ms is None and not rows:
        return
    if newest_ms is not None and (seen_ms < newest_ms or (_same(stored, rows) and seen_ms - newest_ms < PROCESSES_REFRESH_MS)):
        return
    GPUProcess.objects.filter(pk__in=[row.pk for row in stored]).delete()
    GPUProcess.objects.bulk_create(rows)


def _process_rows(batch: Batch, *, gpus: Mapping[int, GPU], jobs: Sequence[Job], seen_ms: int) -> list[GPUProcess]:
    return [
        GPUProcess(
            gpu=gpus[item["gpu"]],
            job=None if item.get("job") is None else jobs[item["job"]],
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


def _same(stored: Sequence[GPUProcess], rows: Sequence[GPUProcess]) -> bool:
    """Whether both name the same processes of the same jobs; what they use may differ."""
    return sorted(map(_identity, stored)) == sorted(map(_identity, rows))


def _identity(row: GPUProcess) -> tuple[int, int, int, str, str, int]:
    return (row.gpu_id, row.pid, row.started_ms or -1, row.user, row.name, row.job_id or -1)
