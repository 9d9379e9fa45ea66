"""Windows, jobs and events of a few windows -> one batch of the wire. Pure.

The hub refuses a batch for one wrong value, and all its windows with it. So what the wire does not
take is cut, or left out as not read, whoever said it: drivers, exporters, schedulers and users.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from agent import wire
from agent.readings import (
    NO_WORKLOAD,
    Allocation,
    Event,
    GPUInfo,
    Job,
    Process,
    SourceStatus,
    Workload,
)
from agent.window import GPUWindow

# of a GPU: for matching and for windows, not for the wire
_LOCAL = ("bus_id", "minor", "gpu_instance", "sm_clock_max_hz")
_JOB_FIELDS = tuple(item.name for item in fields(Job))
_RATIOS = frozenset(wire.RATIO_COLUMNS)
_GPU_FIELDS = tuple(item.name for item in fields(GPUInfo) if item.name not in _LOCAL)
_GPU_TEXTS = {"model": 100, "parent_uuid": 96, "mig_profile": 32}
_GPU_COUNTS = {
    "index": wire.MAX_COUNT,
    "memory_total_bytes": wire.MAX_BYTE_COUNT,
    "sm_count": wire.MAX_COUNT,
}
_JOB_TEXTS = {
    "scheduler": 64,
    "cluster": 128,
    "id": 200,
    "name": 300,
    "user": 128,
    "account": 128,
    "state": 32,
}
_JOB_COUNTS = {
    "submit_ms": wire.MAX_TIME_MS,
    "start_ms": wire.MAX_TIME_MS,
    "end_ms": wire.MAX_TIME_MS,
    "restarts": wire.MAX_COUNT,
}


@dataclass(frozen=True)
class ClosedWindow:
    """All GPUs of the node over one window; `host` holds the wire's host columns that were read."""

    start_ms: int
    windows: Sequence[GPUWindow]
    workload: Workload = NO_WORKLOAD
    host: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Sender:
    """What every batch of this node says of where it comes from."""

    node: str
    boot_id: str
    boot_start_ms: int
    window_s: int
    labels: Mapping[str, str] = field(default_factory=dict)


def build(
    closed: Sequence[ClosedWindow],
    *,
    sender: Sender,
    gpus: Sequence[GPUInfo],
    agent: Mapping[str, Any],
    events: Sequence[Event],
) -> wire.Batch:
    """The batch of these windows, its sequence still 0.

    A GPU or job whose own name the wire does not take is left out.
    """
    workload = _fitting(
        merge([(window.start_ms + sender.window_s * 1000, window.workload) for window in closed])
    )
    gpus = list({gpu.uuid: gpu for gpu in gpus if _is_name(gpu.uuid, 96)}.values())[: wire.MAX_LIST]
    positions = {gpu.uuid: place for place, gpu in enumerate(gpus)}
    job_positions = {job.key: place for place, job in enumerate(workload.jobs)}
    return wire.Batch(
        node=sender.node,
        boot_id=sender.boot_id,
        boot_start_ms=sender.boot_start_ms,
        sequence=0,
        window_s=sender.window_s,
        gpus=[_gpu(gpu) for gpu in gpus],
        windows=_columns(
            [
                window
                for closed_window in closed
                for window in closed_window.windows
                if window.uuid in positions
            ],
            positions,
        ),
        agent={key: value for key, value in agent.items() if value is not None},
        node_labels=_labels(sender.labels),
        sources=[_source(source) for source in workload.sources][: wire.MAX_LIST],
        host=_host(closed),
        jobs=[_job(job) for job in workload.jobs],
        allocations=[
            _allocation(item, positions, job_positions)
            for item in workload.allocations
            if item.uuid in positions and item.job_key in job_positions
        ],
        processes=[
            _process(item, positions, job_positions)
            for item in workload.processes
            if item.uuid in positions and _count(item.pid, wire.MAX_BYTE_COUNT) is not None
        ][: wire.MAX_LIST],
        events=[
            _event(event, positions)
            for event in events
            if _count(event.at_ms, wire.MAX_TIME_MS) is not None
        ][-wire.MAX_LIST :],
    )


def merge(workloads: Sequence[Tuple[int, Workload]]) -> Workload:
    """One answer from those of several windows, given with their ends, in order.

    The newest facts of a job count; processes and sources are the last window's. An allocation that
    a later window no longer names ends with the last window that named it.
    """
    jobs: Dict[str, Job] = {}
    held: Dict[Tuple[Any, ...], Tuple[int, Allocation]] = {}
    for end_ms, workload in workloads:
        jobs.update((job.key, job) for job in workload.jobs)
        for item in workload.allocations:
            held[(item.uuid, item.job_key, item.source, item.share, item.start_ms)] = (end_ms, item)
    last_ms, last = workloads[-1] if workloads else (0, NO_WORKLOAD)
    allocations = [
        item if item.end_ms is not None or until == last_ms else replace(item, end_ms=until)
        for until, item in held.values()
    ]
    return Workload(list(jobs.values()), allocations, last.processes, last.sources)


def clipped(text: str, limit: int) -> str:
    """The text as the wire takes it: without NUL and half surrogates, not longer than the limit."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:limit]


def _fitting(workload: Workload) -> Workload:
    """With no more of each than the wire takes; where a holder had to go, nothing may be concluded
    from who is left.
    """
    # by a ~ the hub tells jobs of one key apart (wire.py)
    jobs = [job for job in workload.jobs if _is_name(job.key, 400) and "~" not in job.key]
    kept = Workload(
        jobs[: wire.MAX_LIST],
        workload.allocations[: wire.MAX_LIST],
        workload.processes,
        workload.sources,
    )
    if len(kept.jobs) == len(workload.jobs) and len(kept.allocations) == len(workload.allocations):
        return kept
    return replace(kept, sources=[replace(source, ok=False) for source in workload.sources])


def _columns(windows: Sequence[GPUWindow], positions: Mapping[str, int]) -> wire.Columns:
    columns: wire.Columns = {
        "gpu": [positions[window.uuid] for window in windows],
        "start_ms": [window.start_ms for window in windows],
        "observed_ms": [window.observed_ms for window in windows],
    }
    read = {
        name for window in windows for name, value in window.columns.items() if value is not None
    }
    for name in (name for name in wire.WINDOW_COLUMNS if name in read):
        column: List[Optional[float]] = [window.columns.get(name) for window in windows]
        columns[name] = [_within_ratio(value) for value in column] if name in _RATIOS else column
    return columns


def _within_ratio(value: Optional[float]) -> Optional[float]:
    """Rounding of weighted means may leave 0 to 1 by a hair."""
    return value if value is None or 0 <= value <= 1 else min(1.0, max(0.0, value))


def _host(closed: Sequence[ClosedWindow]) -> wire.Columns:
    read = [window for window in closed if window.host]
    if not read:
        return {}
    columns: wire.Columns = {"start_ms": [window.start_ms for window in read]}
    for name in wire.HOST_COLUMNS:
        column = [_amount(name, window.host.get(name)) for window in read]
        if any(value is not None for value in column):
            columns[name] = (
                [_within_ratio(value) for value in column] if name.endswith("_ratio") else column
            )
    return columns


def _gpu(gpu: GPUInfo) -> wire.Item:
    # asdict copies deeply: a fifth of a window's cost
    item = {name: getattr(gpu, name) for name in _GPU_FIELDS}
    texts = {
        name: clipped(item[name], limit)
        for name, limit in _GPU_TEXTS.items()
        if item[name] is not None
    }
    counts = {name: _count(item[name], limit) for name, limit in _GPU_COUNTS.items()}
    return {
        **item,
        **texts,
        **counts,
        "power_limit_w": _amount("power_w", gpu.power_limit_w),
        "unread": _labels(gpu.unread),
    }


def _job(job: Job) -> wire.Item:
    item = {name: getattr(job, name) for name in _JOB_FIELDS}
    texts = {name: clipped(item[name], limit) for name, limit in _JOB_TEXTS.items()}
    counts = {name: _count(item[name], limit) for name, limit in _JOB_COUNTS.items()}
    return {**item, **texts, **counts, "labels": _labels(job.labels)}


def _allocation(
    item: Allocation, positions: Mapping[str, int], jobs: Mapping[str, int]
) -> wire.Item:
    start_ms = _count(item.start_ms, wire.MAX_TIME_MS)
    end_ms = _count(item.end_ms, wire.MAX_TIME_MS)
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        start_ms = end_ms
    return {
        "gpu": positions[item.uuid],
        "job": jobs[item.job_key],
        "start_ms": start_ms,
        "end_ms": end_ms,
        "source": clipped(item.source, 32),
        "share": item.share if item.share is not None and 0 < item.share <= 1 else None,
    }


def _process(item: Process, positions: Mapping[str, int], jobs: Mapping[str, int]) -> wire.Item:
    return {
        "gpu": positions[item.uuid],
        "job": jobs.get(item.job_key) if item.job_key is not None else None,
        "pid": item.pid,
        "started_ms": _count(item.started_ms, wire.MAX_TIME_MS),
        "user": clipped(item.user, 128),
        "name": clipped(item.name, 300),
        "state": clipped(item.state, 8),
        "memory_bytes": _count(item.memory_bytes, wire.MAX_BYTE_COUNT),
    }


def _event(event: Event, positions: Mapping[str, int]) -> wire.Item:
    return {
        "gpu": positions.get(event.uuid) if event.uuid is not None else None,
        "at_ms": event.at_ms,
        "kind": event.kind,
        "code": None if event.code is None or abs(event.code) > wire.MAX_COUNT else event.code,
        "text": clipped(event.text, 300),
    }


def _source(source: SourceStatus) -> wire.Item:
    item = {
        "kind": clipped(source.kind, 32),
        "ok": source.ok,
        "seen_ms": _count(source.seen_ms, wire.MAX_TIME_MS),
    }
    return {**item, "why": clipped(source.why, wire.MAX_WHY)} if source.why else item


def _labels(given: Mapping[str, str]) -> Dict[str, str]:
    cleaned = (
        (clipped(key, 128), clipped(str(value), wire.MAX_TEXT)) for key, value in given.items()
    )
    return dict(list(dict(cleaned).items())[: wire.MAX_LABELS])


def _is_name(text: str, limit: int) -> bool:
    """True for what may name a GPU or a job: anything cut off or put in would name another."""
    return bool(text.strip()) and clipped(text, limit) == text


def _count(value: Optional[int], limit: int) -> Optional[int]:
    """The whole number from 0 to the limit; None for any other, which is no count."""
    return value if value is not None and 0 <= value <= limit else None


def _amount(name: str, value: Optional[float]) -> Optional[float]:
    """What may be a value of the column, ratios of any size among them; None for NaN, infinity and
    any other.
    """
    high = math.inf if name.endswith("_ratio") else wire.LIMITS[name][1]
    return value if value is not None and math.isfinite(value) and 0 <= value <= high else None
