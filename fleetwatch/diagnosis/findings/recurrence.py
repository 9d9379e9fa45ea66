"""What a finding will cost if nothing changes: told of recurring jobs alone, for others only what
is past.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Sum

from fleetwatch.diagnosis.findings.patterns import recorded_part
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.jobs.models import Job
from fleetwatch.jobs.visible_jobs import visible
from fleetwatch.lib.intervals import DAY_MS, Interval, ms_in, to_ms

LOOKS_BACK = timedelta(days=14)
TIMES = 3  # the same user, name and number of GPUs, within LOOKS_BACK
AHEAD = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Projection:
    """GPU time that could be recovered in the next 30 days, if runs go on as in the last
    two weeks.
    """

    runs: int
    low_ms: int
    high_ms: int


def projection(job: Job, cause: str, *, now: datetime) -> Projection | None:
    """None for a job that does not recur: TIMES runs of the same user, name and number of GPUs in
    the last two weeks.
    """
    if not job.name or not job.user:
        return None
    alike = _alike(job, now)
    if len(alike) < TIMES:
        return None
    entries = CauseEntry.objects.filter(job__in=alike, cause=cause, start__gte=now - LOOKS_BACK)
    lost = entries.aggregate(low=Sum("low_ms"), high=Sum("high_ms"))
    recorded = recorded_part(Interval(now - LOOKS_BACK, now))
    low_ms, high_ms = (ahead(lost[end] or 0, recorded) for end in ("low", "high"))
    return Projection(len(alike), low_ms, high_ms)


def _alike(job: Job, now: datetime) -> list[int]:
    """The ids of the runs of the last two weeks that the reader sees."""
    began = {"start_ms__gte": to_ms(now - LOOKS_BACK), "start_ms__lt": to_ms(now)}
    runs = (
        visible(Job.objects.filter(user=job.user, name=job.name, **began))
        .annotate(gpus=Count("allocations__gpu", distinct=True))
        .values_list("pk", "gpus")
    )
    gpus = job.allocations.values("gpu").distinct().count()
    return [pk for pk, count in runs if count == gpus]


def ahead(past_ms: int, recorded: Interval) -> int:
    """Of what was lost in the part of LOOKS_BACK that was recorded: as much a day, for 30 days; of
    less than a day as if it were one.
    """
    return past_ms * ms_in(AHEAD) // max(ms_in(recorded.end - recorded.start), DAY_MS)
