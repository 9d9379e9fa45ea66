"""Of which cells of a map the time is not what filters of jobs name."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from fleetwatch.costs.models import Attribution
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.packed_spans import Bools
from fleetwatch.figures.totals import OWNERS, UNALLOCATED, Scope, without
from fleetwatch.jobs.models import Hold
from fleetwatch.lib.any_of import any_id
from fleetwatch.lib.intervals import Interval, to_ms
from fleetwatch.lib.spans import Span, clip

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
    owned = _owned(job_ids, scope, interval) if job_ids else {}
    held = _held([gpu.pk for gpu in gpus], job_ids, interval, count, owned)
    return held if is_free else ~held


def _owned(
    job_ids: Collection[int], scope: Scope, interval: Interval
) -> Mapping[int, Sequence[Span]]:
    """By job when its time is the scope's team's, project's and cost centre's; nothing of one whose
    time is always the same one's.
    """
    asked = {name: getattr(scope, name) for name in OWNERS if getattr(scope, name) is not None}
    owned: dict[int, list[Span]] = defaultdict(list)
    if not asked:
        return owned
    rows = Attribution.objects.filter(job__in=any_id(job_ids)).values_list(
        "job_id", "valid_from", "valid_to", "is_named", "team__slug", "project", "cost_centre"
    )
    for job_id, start, end, is_named, *owners in rows:
        spans = owned[job_id]
        if asked.items() <= _names(owners, is_named=is_named).items():
            spans.append((to_ms(start), to_ms(end) if end else interval.end_ms))
    return owned


def _names(owners: Sequence[str | None], *, is_named: bool) -> Mapping[str, str]:
    """Of a row's team, project and cost centre as a scope names them, those without one too."""
    return {
        name: owner or without(name, is_named=is_named)[0]
        for name, owner in zip(OWNERS, owners, strict=True)
    }


def _held(
    gpu_ids: Sequence[int],
    job_ids: Collection[int] | None,
    interval: Interval,
    count: int,
    owned: Mapping[int, Sequence[Span]],
) -> Bools:
    """Cells at whose middle one of the jobs (None = any) held the GPU, of those that are `owned`
    for a time within that.
    """
    cells = np.zeros((len(gpu_ids), count), dtype=bool)
    rows = {gpu_id: row for row, gpu_id in enumerate(gpu_ids)}
    holds = _holds(gpu_ids, job_ids, interval)
    named = holds.values_list("gpu_id", "gpu__parent_id", "job_id", "held")
    for gpu_id, parent_id, job_id, held in named:
        spans = held if job_id not in owned else _within(held, owned[job_id])
        for first, end in _cells_of(spans, interval, count):
            cells[rows[parent_id or gpu_id], first:end] = True
    return cells


def _holds(
    gpu_ids: Sequence[int], job_ids: Collection[int] | None, interval: Interval
) -> QuerySet[Hold]:
    """Holds of the GPUs and their instances that touch the interval, by one of the jobs or any."""
    ends_ms = [interval.start_ms, interval.start_ms, interval.end_ms]
    holds = Hold.objects.filter(
        Q(gpu__in=gpu_ids) | Q(gpu__parent__in=gpu_ids),
        RawSQL(_WITHIN, ends_ms, BooleanField()),  # noqa: S611 - a constant, moments beside it
    )
    return holds if job_ids is None else holds.filter(job__in=list(job_ids))


def _within(spans: Sequence[Span], owned: Iterable[Span]) -> list[Span]:
    return [part for start_ms, end_ms in owned for part in clip(spans, start_ms, end_ms)]


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
