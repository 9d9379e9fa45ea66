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
    Events,
    GPUInfo,
    GPUs,
    Job,
    Process,
    SourceStatus,
    Workload,
    unanswered,
)
from agent.store import Entry
from agent.window import GPUWindow

# of a GPU: for matching and for windows, not for the wire
_LOCAL = ("bus_id", "minor", "gpu_instance", "sm_clock_max_hz")
_GPU_FIELDS = tuple(item.name for item in fields(GPUInfo) if item.name not in _LOCAL)


Positions = Mapping[str, int]  # in the list of GPUs or jobs, by what names them


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
    gpus: GPUs,
    agent: Mapping[str, Any],
    events: Events,
) -> wire.Batch:
    """The batch of these windows, its sequence still 0.

    A GPU or job whose own name the wire does not take is left out.
    """
    workload = _fitting(
        merge([(part.start_ms + sender.window_s * 1000, part.workload) for part in closed])
    )
    gpus = _fitting_gpus(gpus)
    positions = {gpu.uuid: place for place, gpu in enumerate(gpus)}
    return wire.Batch(
        node=sender.node,
        boot_id=sender.boot_id,
        boot_start_ms=sender.boot_start_ms,
        sequence=0,
        window_s=sender.window_s,
        gpus=[_gpu(gpu) for gpu in gpus],
        windows=_columns(closed, positions),
        agent={key: value for key, value in agent.items() if value is not None},
        node_labels=_labels(sender.labels),
        host=_host(closed),
        events=_events(events, positions),
        **_items_of(workload, positions),
    )


def entry(content: wire.Batch, sequence: int) -> Entry:
    """The batch as the spool keeps it and the hub gets it, under this sequence."""
    body = wire.compress(wire.encode(replace(content, sequence=sequence)))
    return Entry(sequence, len(content.windows["start_ms"]), body)


def _items_of(workload: Workload, positions: Positions) -> Dict[str, Any]:
    """The lists that tell of jobs."""
    jobs = {job.key: place for place, job in enumerate(workload.jobs)}
    allocations = [
        _allocation(item, positions, jobs)
        for item in workload.allocations
        if item.uuid in positions and item.job_key in jobs
    ]
    processes = [
        _process(item, positions, jobs)
        for item in workload.processes
        if item.uuid in positions and _count(item.pid, wire.MAX_BYTE_COUNT) is not None
    ]
    return {
        "jobs": [_job(job) for job in workload.jobs],
        "allocations": allocations,
        "processes": processes[: wire.MAX_LIST],
        "sources": [_source(source) for source in workload.sources][: wire.MAX_LIST],
    }


def merge(workloads: Sequence[Tuple[int, Workload]]) -> Workload:
    """One answer from those of several windows, given with their ends, in order.

    The newest facts of a job count; processes and sources are the last window's. An allocation that
    a later window no longer names ends with the last window that named it.
    """
    jobs: Dict[str, Job] = {}
    held: Dict[Allocation, Tuple[int, Allocation]] = {}
    for end_ms, workload in workloads:
        jobs.update((job.key, job) for job in workload.jobs)
        for item in workload.allocations:
            held[replace(item, end_ms=None)] = (end_ms, item)
    last_ms, last = workloads[-1] if workloads else (0, NO_WORKLOAD)
    allocations = [
        item if item.end_ms is not None or until == last_ms else replace(item, end_ms=until)
        for until, item in held.values()
    ]
    return Workload(list(jobs.values()), allocations, last.processes, last.sources)


def clipped(text: str, limit: int) -> str:
    """The text as the wire takes it: without NUL and half surrogates, not longer than the limit."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:limit]


def _fitting_gpus(gpus: GPUs) -> List[GPUInfo]:
    """Those that the wire can name, each once."""
    by_name = {gpu.uuid: gpu for gpu in gpus if _is_name(gpu.uuid, 96)}
    return list(by_name.values())[: wire.MAX_LIST]


def _fitting(workload: Workload) -> Workload:
    """With no more of each than the wire takes; where a holder had to go, nothing may be concluded
    from who is left.
    """
    # by a ~ the hub tells jobs of one key apart (wire.py)
    jobs = [job for job in workload.jobs if _is_name(job.key, 400) and "~" not in job.key]
    kept = replace(
        workload,
        jobs=jobs[: wire.MAX_LIST],
        allocations=workload.allocations[: wire.MAX_LIST],
    )
    if len(kept.jobs) == len(workload.jobs) and len(kept.allocations) == len(workload.allocations):
        return kept
    return replace(kept, sources=unanswered(workload.sources))


def _events(events: Events, positions: Positions) -> List[wire.Item]:
    dated = [event for event in events if _count(event.at_ms, wire.MAX_TIME_MS) is not None]
    return [_event(event, positions) for event in dated[-wire.MAX_LIST :]]


def _columns(closed: Sequence[ClosedWindow], positions: Positions) -> wire.Columns:
    windows = [window for part in closed for window in part.windows if window.uuid in positions]
    columns: wire.Columns = {
        "gpu": [positions[window.uuid] for window in windows],
        "start_ms": [window.start_ms for window in windows],
        "observed_ms": [window.observed_ms for window in windows],
    }
    read = {
        name for window in windows for name, value in window.columns.items() if value is not None
    }
    for name in wire.WINDOW_COLUMNS:
        if name in read:
            columns[name] = _column(name, [window.columns.get(name) for window in windows])
    return columns


def _column(name: str, values: List[Optional[float]]) -> List[Optional[float]]:
    """Rounding of weighted means may leave 0 to 1 by a hair."""
    if name not in wire.RATIOS:
        return values
    return [
        value if value is None or 0 <= value <= 1 else min(1.0, max(0.0, value)) for value in values
    ]


def _host(closed: Sequence[ClosedWindow]) -> wire.Columns:
    read = [window for window in closed if window.host]
    if not read:
        return {}
    columns: wire.Columns = {"start_ms": [window.start_ms for window in read]}
    for name in wire.HOST_COLUMNS:
        column = [_amount(name, window.host.get(name)) for window in read]
        if any(value is not None for value in column):
            columns[name] = _column(name, column)
    return columns


def _gpu(gpu: GPUInfo) -> wire.Item:
    # asdict copies deeply: a fifth of a window's cost
    return {
        **{name: getattr(gpu, name) for name in _GPU_FIELDS},
        **_fitting_values("gpus", gpu),
        "power_limit_w": _amount("power_w", gpu.power_limit_w),
        "unread": _labels(gpu.unread),
    }


def _job(job: Job) -> wire.Item:
    return {
        "key": job.key,
        **_fitting_values("jobs", job),
        "labels": _labels(job.labels),
    }


def _fitting_values(place: str, item: Any) -> wire.Item:
    """The item's texts as the wire takes them, and its counts where they are any."""
    texts = ((name, limit, getattr(item, name)) for name, limit in wire.TEXTS[place].items())
    return {
        **{name: text and clipped(text, limit) for name, limit, text in texts},
        **{name: _count(getattr(item, name), most) for name, most in wire.COUNTS[place].items()},
    }


def _allocation(item: Allocation, positions: Positions, jobs: Positions) -> wire.Item:
    values = _fitting_values("allocations", item)
    start_ms = values["start_ms"]
    end_ms = values["end_ms"]
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        start_ms = end_ms
    return {
        "gpu": positions[item.uuid],
        "job": jobs[item.job_key],
        **values,
        "start_ms": start_ms,
        "share": item.share if item.share is not None and 0 < item.share <= 1 else None,
    }


def _process(item: Process, positions: Positions, jobs: Positions) -> wire.Item:
    return {
        "gpu": positions[item.uuid],
        "job": jobs.get(item.job_key) if item.job_key is not None else None,
        "pid": item.pid,
        **_fitting_values("processes", item),
    }


def _event(event: Event, positions: Positions) -> wire.Item:
    return {
        "gpu": positions.get(event.uuid) if event.uuid is not None else None,
        "at_ms": event.at_ms,
        "kind": event.kind,
        "code": None if event.code is None or abs(event.code) > wire.MAX_COUNT else event.code,
        "text": clipped(event.text, wire.TEXTS["events"]["text"]),
    }


def _source(source: SourceStatus) -> wire.Item:
    values = _fitting_values("sources", source)
    if not source.why:
        del values["why"]
    return {"kind": clipped(source.kind, 32), "ok": source.ok, **values}


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
