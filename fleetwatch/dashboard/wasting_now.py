"""Running jobs that waste most at this moment, and what one costs and wastes by now."""

from dataclasses import replace
from datetime import datetime

from fleetwatch.dashboard.job_lines import JobLine, lines_of
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.posted import posted_hour
from fleetwatch.figures.totals import Scope, Totals
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.outcomes import RUNNING, running_ids


def wasting_now(now: datetime, *, size: int, scope: Scope) -> list[JobLine]:
    """Those that wasted most dollars in the last hour; potential is no waste, so that a service
    that waits is none of them.
    """
    hour = posted_hour(now)
    held = costs.look(hour, "job", scope=replace(scope, is_allocated=True))
    ranked = held.of("job", running_ids()).ranked("job", size)
    return lines_of([group for group in ranked.groups if group.totals.wasted_ms], hour)


def last_hour(job: Job, now: datetime) -> Totals | None:
    """What a job (with its outcome) costs and wastes in the last hour that the ledger has whole;
    None of one that is over.
    """
    if job.state != RUNNING or job.end_ms is not None:
        return None
    return costs.totals(posted_hour(now), scope=Scope(job=job.key))
