"""The series of one GPU: windows, hot and sealed, drawn together to points."""

import re
from typing import Any

from fleetwatch.api.request_period import RequestError
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.timeframes import SERIES_STEPS_S
from fleetwatch.telemetry.selectors import series

FEW_POINTS = 400  # as many as a chart draws
MAX_POINTS = 20_000
MAX_METRICS = 40
# the raw columns' retention; a longer one reads hundreds of megabytes
MAX_INTERVAL_MS = 35 * 86_400_000

_METRIC = re.compile(r"[a-z][a-z0-9_]{1,63}")


def series_of(gpu: GPU, interval: Interval, *, metrics: str, step_s: int | None) -> dict[str, Any]:
    """The answer of /gpus/{uuid}/series; steps begin at multiples of step_s.

    Raises RequestError for what can't be read or would be too much.
    """
    names = _names(metrics)
    if interval.duration_ms > MAX_INTERVAL_MS:
        raise RequestError("a series is of at most 35 days", field="from")
    few_s = interval.duration_ms / 1000 / FEW_POINTS
    step_s = step_s or next((step for step in SERIES_STEPS_S if step >= few_s), SERIES_STEPS_S[-1])
    count = -(-interval.end_ms // (1000 * step_s)) - interval.start_ms // (1000 * step_s)
    if count > MAX_POINTS:
        raise RequestError(
            f"{count} points are more than {MAX_POINTS}: take a longer step", field="step_s"
        )
    points = series(gpu, interval.start_ms, interval.end_ms, columns=names, step_s=step_s)
    return {
        "uuid": gpu.uuid,
        "start_ms": points.start_ms,
        "step_s": step_s,
        "values": points.columns,
    }


def _names(metrics: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in metrics.split(",") if name.strip()))
    if not names or len(names) > MAX_METRICS:
        raise RequestError(f"name 1 to {MAX_METRICS} metrics", field="metrics")
    for name in names:
        if not _METRIC.fullmatch(name):
            raise RequestError(f"{name!r} is no metric", field="metrics")
    return names
