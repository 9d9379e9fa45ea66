"""What `check` prints: what this host offers, which metrics can be read and why not, and whose jobs are known. Pure."""

from typing import List, Optional, Sequence, Tuple

from agent.batch import ClosedWindow
from agent.reading import GPUInfo

METRICS = (
    ("utilisation", "util_mean"),
    ("memory", "memory_used_bytes"),
    ("power", "power_w"),
    ("energy", "energy_j"),
    ("temperature", "temperature_c"),
    ("SM clock", "sm_clock_hz"),
    ("SM active", "sm_active"),
    ("tensor active", "tensor_active"),
    ("processes", "process_count"),
)


def report(*, source: str, driver: str, gpus: Sequence[GPUInfo], window: ClosedWindow) -> str:
    """The text of a check that found GPUs."""
    lines = ["source   %s" % source, "driver   %s" % (driver or "unknown"), ""]
    lines += table([("GPU", "model", "memory", "limit", "uuid"), *(_gpu_row(place, gpu) for place, gpu in enumerate(gpus))])
    lines += ["", *table([("metric", "works on", "why not"), *(_metric_row(metric, gpus, window) for metric in METRICS)])]
    lines += ["", *table([("job source", "answers"), *_job_rows(window)])]
    if any(gpu.persistence is False for gpu in gpus):
        lines += ["", "note     persistence mode is off: idle GPUs may read as busy; enable nvidia-persistenced"]
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]]) -> List[str]:
    """The rows with aligned columns; the first is the head."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def _gpu_row(place: int, gpu: GPUInfo) -> Tuple[str, ...]:
    memory = "-" if gpu.memory_total_bytes is None else "%.1f GiB" % (gpu.memory_total_bytes / 2**30)
    limit = "-" if gpu.power_limit_w is None else "%.0f W" % gpu.power_limit_w
    return (str(place if gpu.index is None else gpu.index), gpu.model or "unknown", memory, limit, gpu.uuid)


def _metric_row(metric: Tuple[str, str], gpus: Sequence[GPUInfo], window: ClosedWindow) -> Tuple[str, ...]:
    name, column = metric
    works = {one.uuid for one in window.windows if one.columns.get(column) is not None}
    reasons = sorted({gpu.unread.get(column, "not read") for gpu in gpus if gpu.uuid not in works})
    return (name, "%d of %d" % (len(works), len(gpus)), ", ".join(reason.replace("_", " ") for reason in reasons))


def _job_rows(window: ClosedWindow) -> List[Tuple[str, str]]:
    sources = window.workload.sources
    return [(source.kind, "yes" if source.ok else "no") for source in sources] or [("none", "no")]


def nothing(reason: Optional[str]) -> str:
    """The text of a check that found nothing."""
    return "no GPU can be read: %s" % (reason or "the driver names none")
