"""How an incident that is over ended, as it is said later: without promises that are past."""

from collections.abc import Callable
from datetime import datetime, timedelta

from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.stopped_words import OPENS_AGAIN
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import to_ms


def how_it_ended(incident: Incident, now: datetime) -> str:
    """Why it is over; without that a new one may open, once that would have been."""
    return without_past(incident.resolution, incident, now)


def how_it_went_on(incident: Incident, now: datetime, clock: Callable[[int], str]) -> str:
    """The same where its job may rest; of one that ended since that it did: no new one opens."""
    if OPENS_AGAIN not in incident.resolution:
        return incident.resolution
    end_ms = Job.objects.filter(key=incident.subject).values_list("end_ms", flat=True).first()
    if end_ms is None or end_ms > to_ms(now):
        return how_it_ended(incident, now)
    return f"{incident.resolution.partition(OPENS_AGAIN)[0]}; its job ended at {clock(end_ms)}"


def without_past(text: str, incident: Incident, now: datetime) -> str:
    """What was said of its end, without what would have been by then."""
    return text.partition(OPENS_AGAIN)[0] if is_past(incident, now) else text


def is_past(incident: Incident, now: datetime) -> bool:
    """Whether it is over for longer than its rule waits."""
    over_at = incident.resolved_at
    return over_at is not None and now > over_at + timedelta(minutes=incident.rule.minutes)
