"""When findings of jobs were seen on some of the jobs' GPUs."""

from collections.abc import Collection

from django.db.models import Q

from fleetwatch.diagnosis.findings.alternatives import Key
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.intervals import floor_hour_ms, to_ms

Seen = tuple[int, int]  # from and to, milliseconds


def seen_on(keys: Collection[Key], which: Q) -> dict[Key, Seen]:
    """By job and cause from the first to the end of the last five minutes with that cause on the
    GPUs `which`; those that were never seen there are left out.
    """
    entries = CauseEntry.objects.filter(
        which, job__in={job_id for job_id, _ in keys}, cause__in={cause for _, cause in keys}
    )
    by_key = entries.distinct("job_id", "cause").values_list("job_id", "cause", "start", "cells")
    firsts = {
        (job_id, cause): floor_hour_ms(to_ms(start)) + _first_cell(cells) * CELL_MS
        for job_id, cause, start, cells in by_key.order_by("job_id", "cause", "start")
    }
    lasts = {
        (job_id, cause): floor_hour_ms(to_ms(start)) + cells.bit_length() * CELL_MS
        for job_id, cause, start, cells in by_key.order_by("job_id", "cause", "-start")
    }
    return {key: (firsts[key], lasts[key]) for key in keys if key in firsts and key in lasts}


def _first_cell(cells: int) -> int:
    """The place of the lowest bit."""
    return (cells & -cells).bit_length() - 1
