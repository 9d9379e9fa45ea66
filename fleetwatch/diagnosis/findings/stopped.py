"""Reads which jobs may be ended: those that do nothing on any GPU, as far as they were
judged last, and have none that nobody sees.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from django.db.models import Max, Q, QuerySet

from fleetwatch.diagnosis.judgement.rules import MEDIUM
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.scheduled import reaches_beyond
from fleetwatch.lib.intervals import floor_hour

LOOKS_BACK = timedelta(hours=1)  # nodes of one job are not judged at the same moment
# a GPU of the job that nobody judged since may work: its node is silent
REMEMBERS = timedelta(days=1)

# clock hour, number of the last cell from 1 on, cause, confidence
_Last = tuple[datetime, int, str, int]


def stopped(job_ids: Collection[int]) -> set[tuple[int, str]]:
    """(job, cause) of each of these jobs whose last cell has that cause on every GPU, with medium
    confidence at least; none of a job that its scheduler gave more than was judged.
    """
    own = CauseEntry.objects.filter(job__in=job_ids).order_by()
    newest = dict(own.values_list("job_id").annotate(Max("start")))
    if not newest:
        return set()
    last = _last(own.filter(_since(newest, LOOKS_BACK)))
    of_day = list(
        own.filter(_since(newest, REMEMBERS)).values_list("job_id", "gpu_id", "node_id").distinct()
    )
    unknown = {job_id for job_id, gpu_id, _ in of_day if gpu_id not in last[job_id]}
    unknown |= _partly_seen(of_day)
    return {
        (job_id, cause)
        for job_id, gpus in last.items()
        if job_id not in unknown
        for cause in _shared(list(gpus.values()))
    }


def _last(entries: QuerySet[CauseEntry]) -> dict[int, dict[int, _Last]]:
    """By job and GPU what its last cell was."""
    last: dict[int, dict[int, _Last]] = defaultdict(dict)
    columns = ("job_id", "gpu_id", "start", "cells", "cause", "confidence")
    for job_id, gpu_id, start, cells, cause, confidence in entries.values_list(*columns):
        entry = (floor_hour(start), cells.bit_length(), cause, confidence)
        last[job_id][gpu_id] = max(entry, last[job_id].get(gpu_id, entry))
    return last


def _since(newest: Mapping[int, datetime], back: timedelta) -> Q:
    """Of each job what began so long before its newest entry, and later."""
    return reduce(or_, (Q(job=job_id, start__gt=at - back) for job_id, at in newest.items()))


def _partly_seen(held: Collection[tuple[int, int, int]]) -> set[int]:
    """Of (job, GPU, node) the jobs that may hold more elsewhere."""
    gpus: dict[int, set[int]] = defaultdict(set)
    nodes: dict[int, set[int]] = defaultdict(set)
    for job_id, gpu_id, node_id in held:
        gpus[job_id].add(gpu_id)
        nodes[job_id].add(node_id)
    labels = Job.objects.filter(pk__in=gpus.keys()).values_list("pk", "labels")
    return {
        job_id
        for job_id, facts in labels
        if reaches_beyond(facts, gpus=len(gpus[job_id]), nodes=len(nodes[job_id]))
    }


def _shared(last: list[_Last]) -> set[str]:
    """The one cause of all GPUs, where it is sure enough."""
    causes = {cause for _, _, cause, _ in last}
    is_sure = all(confidence >= MEDIUM for _, _, _, confidence in last)
    return causes if len(causes) == 1 and is_sure else set()
