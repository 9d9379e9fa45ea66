"""Running jobs that waste most at this moment."""

from dataclasses import replace
from datetime import datetime, timedelta

from fleetwatch.dashboard.job_lines import JobLine, lines_of
from fleetwatch.figures import selectors as costs
from fleetwatch.figures.totals import Scope
from fleetwatch.jobs.outcomes import running_ids
from fleetwatch.lib.intervals import Interval

LATELY = timedelta(hours=1)


def wasting_now(now: datetime, *, size: int, scope: Scope) -> list[JobLine]:
    """Those that wasted most dollars in the last hour; potential is no waste, so that a service
    that waits is none of them.
    """
    hour = Interval(now - LATELY, now)
    held = costs.look(hour, "job", scope=replace(scope, is_allocated=True))
    ranked = held.of("job", running_ids()).ranked("job", size)
    return lines_of([group for group in ranked.groups if group.totals.wasted_ms], hour)
