"""The series of one GPU: windows, hot and sealed, drawn together to points."""

import re
from typing import Any

import numpy as np

from fleetwatch.api.period import RequestError
from fleetwatch.api.series import fold, points, to_json
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import SERIES_STEPS_S
from fleetwatch.telemetry import frames

FEW_POINTS = 400  # as many as a chart draws
MAX_POINTS = 20_000
MAX_METRICS = 40
MAX_INTERVAL_MS = 35 * 86_400_000  # the raw columns' retention; a longer one reads hundreds of megabytes

_METRIC = re.compile(r"[a-z][a-z0-9_]{1,63}")


def series_of(gpu: GPU, interval: Interval, *, metrics: str, step_s: int | None) -> dict[str, Any]:
    """The answer of /gpus/{uuid}/series; steps begin at multiples of step_s.

    Raises RequestError for what can't be read or would be too much.
    """
    names = _names(metrics)
    if interval.duration_ms > MAX_INTERVAL_MS:
        raise RequestError("a series is of at most 35 days", field="from")
    step_ms = 1000 * (step_s or _round_step_s(interval))
    first_ms = interval.start_ms // step_ms * step_ms
    count = -(-(interval.end_ms - first_ms) // step_ms)
    if count > MAX_POINTS:
        raise RequestError(f"{count} points are more than {MAX_POINTS}: take a longer step", field="step_s")
    frame = frames.read_gpu(gpu.pk, gpu.node_id, interval.start_ms, interval.end_ms, names)
    frame = frame.where(_last_of_twins(frame))
    span = {"first_ms": first_ms, "last_ms": first_ms + count * step_ms, "step_ms": step_ms}
    values = {
        name: to_json(points(frame.start_ms, frame.end_ms, frame.observed_ms, frame.columns[name], how=fold(name), **span))
        for name in names
    }
    starts = [first_ms + i * step_ms for i in range(count)]
    return {"uuid": gpu.uuid, "start_ms": starts, "step_s": step_ms // 1000, "values": values}


def _names(metrics: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in metrics.split(",") if name.strip()))
    if not names or len(names) > MAX_METRICS:
        raise RequestError(f"name 1 to {MAX_METRICS} metrics", field="metrics")
    for name in names:
        if not _METRIC.fullmatch(name):
            raise RequestError(f"{name!r} is no metric", field="metrics")
    return names


def _round_step_s(interval: Interval) -> int:
    return next((step for step in SERIES_STEPS_S if interval.duration_ms <= step * 1000 * FEW_POINTS), SERIES_STEPS_S[-1])


def _last_of_twins(frame: frames.Frame) -> Any:
    """Of windows over exactly the same time only the last in (boot_start_ms, sequence): a re-sent hour counts once."""
    order = np.lexsort((frame.sequence, frame.boot_start_ms, frame.end_ms, frame.start_ms))
    start, end = frame.start_ms[order], frame.end_ms[order]
    keep = np.ones(len(order), dtype=bool)
    if len(order) > 1:
        keep[order[:-1]] = (start[1:] != start[:-1]) | (end[1:] != end[:-1])
    return keep
