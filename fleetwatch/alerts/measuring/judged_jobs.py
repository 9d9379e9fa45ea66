"""Which jobs are judged by how they work, and when they are over."""

from collections.abc import Iterable, Mapping

import numpy as np
from django.db.models import Q

from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.episodes import FORGET_MS, End
from fleetwatch.alerts.measuring.job_lanes import ALLOCATION_ENDED, Ints
from fleetwatch.diagnosis import lane_facts
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import selectors as ledger
from fleetwatch.ledger.judgement.cell_states import CELL_MS
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.lib.rows import fetched

# a service waits for requests, and who works by hand thinks: of these little work is no waste
JUDGED_KIND = Job.Kind.BATCH
# agents flush each 30 s, posting and diagnosis follow each minute: until then a part is there
SETTLED_MS = 3 * MINUTE_MS
_OF_KIND = "SELECT id FROM jobs_job WHERE id = ANY(%s) AND kind = %s ORDER BY id"


def of_judged_kind(job_ids: Ints) -> Ints:
    """Those of these jobs that are of the kind that is judged, ascending."""
    rows = fetched(_OF_KIND, [job_ids, JUDGED_KIND.value])
    return np.array(rows, dtype=np.int64).reshape(-1)


def judged_jobs(job_ids: Iterable[int], watch: Watch) -> dict[int, Job]:
    """By id the jobs that are judged, of these and of those that fire already: batch jobs alone,
    and no model servers.
    """
    wanted = Q(pk__in=list(job_ids)) | Q(key__in=watch.firing)
    rows = Job.objects.filter(wanted, kind=JUDGED_KIND)
    jobs = {job.pk: job for job in rows.only("pk", "key", "start_ms", "end_ms")}
    facts = lane_facts.jobs(np.array(list(jobs), dtype=np.int64))
    return {
        job.pk: job for job, fact in zip(jobs.values(), facts, strict=True) if not fact.is_serving
    }


def settled_ms(watch: Watch) -> int:
    """Until when all is there of what jobs did and what diagnosis says of it: what is newer may be
    known in part.
    """
    return (watch.end_ms - SETTLED_MS) // CELL_MS * CELL_MS


def ends(
    last_ms: Mapping[int, int], jobs: Mapping[int, Job], watch: Watch, *, judged_ms: int
) -> dict[str, End]:
    """The jobs that are over: by their scheduler's word, or because their GPUs were seen without
    them since. `last_ms`: by job until when it is known what it did; of none later than
    `judged_ms`, so what ended after that goes on until its last minutes are judged too.
    """
    over = {
        job.key: End(job.end_ms, ALLOCATION_ENDED)
        for job in jobs.values()
        if job.end_ms is not None and job.end_ms <= judged_ms
    }
    since_ms = watch.end_ms - FORGET_MS
    recent = [
        job_id
        for job_id, end_ms in last_ms.items()
        if since_ms < end_ms < judged_ms and jobs[job_id].end_ms is None
    ]
    held = ledger.still_held(recent, since_ms=since_ms)
    gone = (job_id for job_id in recent if job_id not in held)
    return over | {jobs[job_id].key: End(last_ms[job_id], ALLOCATION_ENDED) for job_id in gone}


def begun_ms(jobs: Mapping[int, Job]) -> dict[str, int]:
    """Since when each is there, as far as it is known."""
    return {job.key: job.start_ms for job in jobs.values() if job.start_ms is not None}
