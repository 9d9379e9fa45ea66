"""Of which cells of a map the time is not what filters of jobs name."""

from collections.abc import Collection, Iterable, Sequence
from math import ceil
from typing import Any

import numpy as np
from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL

from fleetwatch.figures import selectors as costs
from fleetwatch.figures.packed_spans import Bools
from fleetwatch.figures.totals import UNALLOCATED, Scope
from fleetwatch.jobs.models import Hold
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.spans import Span

# fields of a Scope that name jobs
OF_JOBS = ("job", "user", "team", "project", "cost_centre", "kind", "cluster", "label")

# what ended before is not looked at, however much of it there is (the index held_until)
_WITHIN = "jobs_hold.until_ms > %s AND jobs_hold.held && int8range(%s, %s)"


def names_jobs(scope: Scope) -> bool:
    """Whether it is of some of the jobs, or of what none held; not of machines alone."""
    return any(getattr(scope, name) is not None for name in OF_JOBS)


def others_cells(gpus: Sequence[Any], interval: Interval, count: int, scope: Scope) -> Bools:
    """GPUs x `count` equal cells of the interval: those at whose middle no job of the scope held
    the GPU or an instance of it; of what no job held those at which one did. GPUs are rows with pk.
    """
    is_free = any(getattr(scope, name) == UNALLOCATED for name in OF_JOBS)
    job_ids = None if is_free else costs.held_by_job(interval, scope)
    held = _held([gpu.pk for gpu in gpus], job_ids, interval, count)
    return held if is_free else ~held


def _held(
    gpu_ids: Sequence[int], job_ids: Collection[int] | None, interval: Interval, count: int
) -> Bools:
    """Cells at whose middle one of the jobs (None = any) held the GPU."""
    cells = np.zeros((len(gpu_ids), count), dtype=bool)
    rows = {gpu_id: row for row, gpu_id in enumerate(gpu_ids)}
    ends_ms = [interval.start_ms, interval.start_ms, interval.end_ms]
    holds = Hold.objects.filter(
        Q(gpu__in=gpu_ids) | Q(gpu__parent__in=gpu_ids),
        RawSQL(_WITHIN, ends_ms, BooleanField()),  # noqa: S611 - a constant, moments beside it
    )
    if job_ids is not None:
        holds = holds.filter(job__in=list(job_ids))
    for gpu_id, parent_id, spans in holds.values_list("gpu_id", "gpu__parent_id", "held"):
        for first, end in _cells_of(spans, interval, count):
            cells[rows[parent_id or gpu_id], first:end] = True
    return cells


def _cells_of(spans: Iterable[Span], interval: Interval, count: int) -> Iterable[tuple[int, int]]:
    """From which cell to which (not in it) each span holds the middles."""
    step_ms = interval.duration_ms / count
    for start_ms, end_ms in spans:
        first, end = (
            ceil((moment_ms - interval.start_ms) / step_ms - 0.5)
            for moment_ms in (start_ms, end_ms)
        )
        if first < count and end > 0:
            yield max(first, 0), min(end, count)
