"""Windows, jobs and events of a few windows -> one batch of the wire. Pure."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from agent import wire
from agent.reading import NO_WORKLOAD, Allocation, Event, GPUInfo, Job, Process, Workload
from agent.window import GPUWindow

_LOCAL = ("bus_id", "minor", "gpu_instance", "sm_clock_max_hz")  # of a GPU: for matching and for windows, not for the wire
_GPU_FIELDS = tuple(item.name for item in fields(GPUInfo) if item.name not in _LOCAL)


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
    closed: Sequence[ClosedWindow], *, sender: Sender, gpus: Sequence[GPUInfo], agent: Mapping[str, Any], events: Sequence[Event]
) -> wire.Batch:
    """The batch of these windows, its sequence still 0. Texts are cut to what the wire allows."""
    workload = merge([(window.start_ms + sender.window_s * 1000, window.workload) for window in closed])
    positions = {gpu.uuid: place for place, gpu in enumerate(gpus)}
    job_positions = {job.key: place for place, job in enumerate(workload.jobs)}
    return wire.Batch(
        node=sender.node,
        boot_id=sender.boot_id,
        boot_start_ms=sender.boot_start_ms,
        sequence=0,
        window_s=sender.window_s,
        gpus=[_gpu(gpu) for gpu in gpus],
        windows=_columns([window for one in closed for window in one.windows if window.uuid in positions], positions),
        agent={key: value for key, value in agent.items() if value is not None},
        node_labels=dict(sender.labels),
        sources=[asdict(source) for source in workload.sources],
        host=_host(closed),
        jobs=[_job(job) for job in workload.jobs],
        allocations=[
            _allocation(item, positions, job_positions)
            for item in workload.allocations
            if item.uuid in positions and item.job_key in job_positions
        ],
        processes=[_process(item, positions, job_positions) for item in workload.processes if item.uuid in positions][: wire.MAX_LIST],
        events=[_event(event, positions) for event in events][-wire.MAX_LIST :],
    )


def merge(workloads: Sequence[Tuple[int, Workload]]) -> Workload:
    """One answer from those of several windows, given with their ends, in order.

    The newest facts of a job count; processes and sources are the last window's. An allocation that a later window no
    longer names ends with the last window that named it.
    """
    jobs: Dict[str, Job] = {}
    held: Dict[Tuple[Any, ...], Tuple[int, Allocation]] = {}
    for end_ms, workload in workloads:
        jobs.update((job.key, job) for job in workload.jobs)
        for item in workload.allocations:
            held[(item.uuid, item.job_key, item.source, item.share, item.start_ms)] = (end_ms, item)
    last_ms, last = workloads[-1] if workloads else (0, NO_WORKLOAD)
    allocations = [item if item.end_ms is not None or until == last_ms else replace(item, end_ms=until) for until, item in held.values()]
    return Workload(list(jobs.values()), allocations, last.processes, last.sources)


def clipped(text: str, limit: int) -> str:
    """The text as the wire takes it: without NUL and half surrogates, not longer than the limit."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:limit]


def _columns(windows: Sequence[GPUWindow], positions: Mapping[str, int]) -> wire.Columns:
    columns: wire.Columns = {
        "gpu": [positions[window.uuid] for window in windows],
        "start_ms": [window.start_ms for window in windows],
        "observed_ms": [window.observed_ms for window in windows],
    }
    for name in wire.WINDOW_COLUMNS:
        column: List[Optional[float]] = [window.columns.get(name) for window in windows]
        if any(value is not None for value in column):
            columns[name] = [_within_ratio(value) for value in column] if name in wire.RATIO_COLUMNS else column
    return columns


def _within_ratio(value: Optional[float]) -> Optional[float]:
    """Rounding of weighted means may leave 0 to 1 by a hair."""
    return None if value is None else min(1.0, max(0.0, value))


def _host(closed: Sequence[ClosedWindow]) -> wire.Columns:
    read = [window for window in closed if window.host]
    if not read:
        return {}
    columns: wire.Columns = {"start_ms": [window.start_ms for window in read]}
    for name in wire.HOST_COLUMNS:
        column = [window.host.get(name) for window in read]
        if any(value is not None for value in column):
            columns[name] = column
    return columns


def _gpu(gpu: GPUInfo) -> wire.Item:
    item = {name: getattr(gpu, name) for name in _GPU_FIELDS}  # asdict copies deeply: a fifth of a window's cost
    return dict(item, model=clipped(gpu.model, 100) if gpu.model is not None else None, unread=dict(gpu.unread))


def _job(job: Job) -> wire.Item:
    limits = {"scheduler": 64, "cluster": 128, "id": 200, "name": 300, "user": 128, "account": 128, "state": 32}
    item = asdict(job)
    labels = {clipped(key, 128): clipped(str(value), wire.MAX_TEXT) for key, value in job.labels.items()}
    texts = {name: clipped(item[name], limit) for name, limit in limits.items()}
    return {**item, **texts, "labels": dict(list(labels.items())[: wire.MAX_LABELS])}


def _allocation(item: Allocation, positions: Mapping[str, int], jobs: Mapping[str, int]) -> wire.Item:
    return {
        "gpu": positions[item.uuid],
        "job": jobs[item.job_key],
        "start_ms": item.start_ms,
        "end_ms": item.end_ms,
        "source": item.source,
        "share": item.share,
    }


def _process(item: Process, positions: Mapping[str, int], jobs: Mapping[str, int]) -> wire.Item:
    return {
        "gpu": positions[item.uuid],
        "job": jobs.get(item.job_key) if item.job_key is not None else None,
        "pid": item.pid,
        "started_ms": item.started_ms,
        "user": clipped(item.user, 128),
        "name": clipped(item.name, 300),
        "state": clipped(item.state, 8),
        "memory_bytes": item.memory_bytes,
    }


def _event(event: Event, positions: Mapping[str, int]) -> wire.Item:
    return {
        "gpu": positions.get(event.uuid) if event.uuid is not None else None,
        "at_ms": event.at_ms,
        "kind": event.kind,
        "code": event.code,
        "text": clipped(event.text, 300),
    }
