"""What came after an incident that is over, and whether its job goes on."""

from collections.abc import Iterable
from datetime import datetime

from fleetwatch.alerts.incidents.past_ends import how_it_ended, is_past, without_past
from fleetwatch.alerts.measuring.job_lanes import ALLOCATION_ENDED
from fleetwatch.alerts.models import Incident, IncidentEvent
from fleetwatch.alerts.stopped_words import OPENS_AGAIN
from fleetwatch.jobs.models import Job
from fleetwatch.ledger import selectors as ledger
from fleetwatch.lib.intervals import HOUR_MS, to_ms


def say_what_came(incident: Incident, events: Iterable[IncidentEvent], now: datetime) -> None:
    """In memory alone: its history says what came after its end, as how_it_ended() leaves it."""
    if OPENS_AGAIN not in incident.resolution or not is_past(incident, now):
        return
    later = Incident.objects.filter(
        rule=incident.rule, subject=incident.subject, pk__gt=incident.pk, fired_ms__isnull=False
    )
    came = later.order_by("pk").values_list("pk", flat=True).first()
    what = f"; incident #{came} came after it" if came else ""
    for event in events:
        if event.kind == "resolved" and OPENS_AGAIN in event.text:
            event.text = f"{without_past(event.text, incident, now)}{what}"
    incident.resolution = f"{how_it_ended(incident, now)}{what}"


def is_held_still(incident: Incident, now: datetime) -> bool:
    """Whether the job that it is about holds its GPUs though it is over."""
    if incident.ended_ms is None or ALLOCATION_ENDED in incident.resolution:
        return False
    running = Job.objects.filter(key=incident.subject, end_ms=None)
    job_id = running.values_list("pk", flat=True).first()
    return job_id is not None and bool(ledger.still_held([job_id], since_ms=to_ms(now) - HOUR_MS))
