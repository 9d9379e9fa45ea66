"""When findings of jobs were seen: on some of the jobs' GPUs, and last of all."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from django.db.models import Q, QuerySet

from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.findings.ranked_findings import Line
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.intervals import floor_hour_ms, from_ms, to_ms

Seen = tuple[int, int]  # from and to, milliseconds


def seen_on(keys: Collection[Key], which: Q) -> dict[Key, Seen]:
    """By job and cause from the first to the end of the last five minutes with that cause on the
    GPUs `which`; those that were never seen there are left out.
    """
    by_key = _of(keys, which).values_list("job_id", "cause", "start", "cells")
    firsts = {
        (job_id, cause): floor_hour_ms(to_ms(start)) + _first_cell(cells) * CELL_MS
        for job_id, cause, start, cells in by_key.order_by("job_id", "cause", "start")
    }
    lasts = _lasts(keys, which)
    return {key: (firsts[key], lasts[key]) for key in keys if key in firsts and key in lasts}


def with_last_seen(lines: Sequence[Line]) -> list[Line]:
    """The same lines of jobs, each with the end of the last five minutes with its cause: also where
    nothing of them could be saved, unlike the finding's own last time.
    """
    if not lines:
        return []
    keys = {line.finding.pk: (line.job.pk, line.finding.cause) for line in lines}
    # what is older than all of them says nothing new
    since = from_ms(floor_hour_ms(min(line.finding.last_ms for line in lines)))
    lasts = _lasts(keys.values(), Q(start__gte=since))
    return [replace(line, cause_end_ms=lasts.get(keys[line.finding.pk], 0)) for line in lines]


def _lasts(keys: Collection[Key], which: Q) -> dict[Key, int]:
    """Of several GPUs in the last hour the one that was seen last."""
    by_key = _of(keys, which).values_list("job_id", "cause", "start", "cells")
    return {
        (job_id, cause): floor_hour_ms(to_ms(start)) + cells.bit_length() * CELL_MS
        for job_id, cause, start, cells in by_key.order_by("job_id", "cause", "-start", "-cells")
    }


def _of(keys: Collection[Key], which: Q) -> QuerySet[CauseEntry]:
    """One row of each job and cause, by the order that is asked for."""
    entries = CauseEntry.objects.filter(
        which, job__in={job_id for job_id, _ in keys}, cause__in={cause for _, cause in keys}
    )
    return entries.distinct("job_id", "cause")


def _first_cell(cells: int) -> int:
    """The place of the lowest bit."""
    return (cells & -cells).bit_length() - 1
