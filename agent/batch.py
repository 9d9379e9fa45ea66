"""Windows, jobs and events of a few windows -> one batch of the wire. Pure.

The hub refuses a batch for one wrong value, and all its windows with it. So what the wire does not
take is cut, or left out as not read, whoever said it: drivers, exporters, schedulers and users.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from agent import packed, wire
from agent.readings import (
    NO_WORKLOAD,
    Allocation,
    Events,
    GPUInfo,
    GPUs,
    Job,
    SourceStatus,
    Workload,
    unanswered,
)
from agent.sending.store import Entry
from agent.window import GPUWindow
from agent.wire_values import Labels, clipped

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
        windows=_windows(closed, positions),
        agent={
            name: wire.FIELDS["agent"][name].fit(value)
            for name, value in agent.items()
            if value not in (None, "")
        },
        node_labels=Labels().fit(sender.labels),
        host=_host(closed),
        events=_events(events, positions),
        **_items_of(workload, positions),
    )


def entry(content: wire.Batch, sequence: int) -> Entry:
    """The batch as the spool keeps it and the hub gets it, under this sequence."""
    body = packed.pack(replace(content, sequence=sequence))
    return Entry(sequence, len(content.windows["start_ms"]), body)


def _items_of(workload: Workload, positions: Positions) -> Dict[str, Any]:
    """The lists that tell of jobs."""
    jobs = {job.key: place for place, job in enumerate(workload.jobs)}
    allocations = [
        _allocation(held, positions, jobs)
        for held in workload.allocations
        if held.uuid in positions and held.job_key in jobs
    ]
    processes = [
        _item(
            "processes", process, gpu=positions[process.uuid], job=jobs.get(process.job_key or "")
        )
        for process in workload.processes
        if process.uuid in positions
    ]
    sources = [_source(source) for source in workload.sources]
    return {
        "jobs": [_item("jobs", job) for job in workload.jobs],
        "allocations": allocations,
        "processes": [item for item in processes if item["pid"] is not None][: wire.MAX_LIST],
        "sources": sources[: wire.MAX_LIST],
    }


def merge(workloads: Sequence[Tuple[int, Workload]]) -> Workload:
    """One answer from those of several windows, given with their ends, in order.

    The newest facts of a job count; processes and sources are the last window's. An allocation that
    a later window no longer names ends with the last window that named it, unless that window says
    otherwise since when it is held, or how much of the GPU: then its word stands for the former.
    """
    jobs: Dict[str, Job] = {}
    for _, workload in workloads:
        jobs.update((job.key, job) for job in workload.jobs)
    _, last = workloads[-1]
    return Workload(list(jobs.values()), _holds(workloads), last.processes, last.sources)


def _holds(workloads: Sequence[Tuple[int, Workload]]) -> List[Allocation]:
    named: Dict[Allocation, Tuple[int, Allocation]] = {}
    for end_ms, workload in workloads:
        for item in workload.allocations:
            named[replace(item, end_ms=None)] = (end_ms, item)
    last_ms, _ = workloads[-1]
    holds: List[Allocation] = []
    for until_ms, item in named.values():
        if item.end_ms is not None or until_ms == last_ms:
            holds.append(item)
        elif not _is_corrected(item, until_ms, named.values()):
            holds.append(replace(item, end_ms=until_ms))
    return holds


def _is_corrected(item: Allocation, until_ms: int, named: Iterable[Tuple[int, Allocation]]) -> bool:
    """Whether a later window tells of the same hold otherwise: one that began before the last
    window ended that named this. A file of Slurm's prolog is younger than the job's start.
    """
    return any(
        later_ms > until_ms
        and (other.uuid, other.job_key, other.source) == (item.uuid, item.job_key, item.source)
        and (other.start_ms is None or other.start_ms < until_ms)
        for later_ms, other in named
    )


def _fitting_gpus(gpus: GPUs) -> List[GPUInfo]:
    """Those that the wire can name, each once."""
    by_name = {gpu.uuid: gpu for gpu in gpus if _is_name(gpu.uuid, 96)}
    return list(by_name.values())[: wire.MAX_GPUS]


def _fitting(workload: Workload) -> Workload:
    """With no more of each than the wire takes; where a holder had to go, nothing may be concluded
    from who is left.
    """
    # by a ~ the hub tells jobs of one key apart (wire.py)
    named = [job for job in workload.jobs if _is_name(job.key, 400) and "~" not in job.key]
    jobs = named[: wire.MAX_LIST]
    allocations = workload.allocations[: wire.MAX_LIST]
    sources = workload.sources
    if len(jobs) < len(workload.jobs) or len(allocations) < len(workload.allocations):
        sources = unanswered(sources)
    return replace(workload, jobs=jobs, allocations=allocations, sources=sources)


def _events(events: Events, positions: Positions) -> List[wire.Item]:
    items = [_item("events", event, gpu=positions.get(event.uuid or "")) for event in events]
    return [item for item in items if item["at_ms"] is not None][-wire.MAX_LIST :]


def _windows(closed: Sequence[ClosedWindow], positions: Positions) -> wire.Columns:
    windows = [window for part in closed for window in part.windows if window.uuid in positions]
    return {
        "gpu": [positions[window.uuid] for window in windows],
        "start_ms": [window.start_ms for window in windows],
        "observed_ms": [window.observed_ms for window in windows],
        **_columns(wire.WINDOW_COLUMNS, [window.columns for window in windows]),
    }


def _host(closed: Sequence[ClosedWindow]) -> wire.Columns:
    read = [window for window in closed if window.host]
    if not read:
        return {}
    columns = _columns(wire.HOST_COLUMNS, [window.host for window in read])
    return {"start_ms": [window.start_ms for window in read], **columns}


def _columns(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> wire.Columns:
    """Those of these columns that any of the rows tells."""
    named = {name for row in rows for name in row}
    columns = {}
    for name in names:
        if name in named:
            column = _fitting_numbers(name, [row.get(name) for row in rows])
            if any(value is not None for value in column):
                columns[name] = column
    return columns


def _fitting_numbers(name: str, values: List[Optional[float]]) -> List[Optional[float]]:
    """The values as the column takes them; None for NaN, infinity and what is no reading of its
    kind.
    """
    try:
        return wire.as_numbers(name, values, name)
    except wire.WireError:
        if len(values) == 1:
            return [None]
        return [number for value in values for number in _fitting_numbers(name, [value])]


def _item(place: str, record: Any, **values: Any) -> wire.Item:
    """The record as an item of the wire: what fits of each field but those given as values."""
    # asdict copies deeply: a fifth of a window's cost
    return {
        name: values[name] if name in values else field.fit(getattr(record, name))
        for name, field in wire.FIELDS[place].items()
    }


def _gpu(gpu: GPUInfo) -> wire.Item:
    (limit_w,) = _fitting_numbers("power_w", [gpu.power_limit_w])
    return _item("gpus", gpu, power_limit_w=limit_w)


def _allocation(held: Allocation, positions: Positions, jobs: Positions) -> wire.Item:
    share = held.share if held.share is not None and 0 < held.share <= 1 else None
    gpu = positions[held.uuid]
    item = _item("allocations", held, gpu=gpu, job=jobs[held.job_key], share=share)
    if item["start_ms"] is not None and item["end_ms"] is not None:
        item["start_ms"] = min(item["start_ms"], item["end_ms"])
    return item


def _source(source: SourceStatus) -> wire.Item:
    item = _item("sources", source)
    if not source.why:
        del item["why"]
    return item


def _is_name(text: str, limit: int) -> bool:
    """True for what may name a GPU or a job: anything cut off or put in would name another."""
    return bool(text.strip()) and clipped(text, limit) == text
