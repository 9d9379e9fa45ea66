"""Since when it has been so without a gap, by the live evaluator's own measure."""

from datetime import datetime, timedelta

from fleetwatch.actions.decision import FRESH_MS
from fleetwatch.alerts.breach import Watch
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.episodes import Firing, Level
from fleetwatch.alerts.models import Incident
from fleetwatch.alerts.services import settings_of
from fleetwatch.lib.intervals import MINUTE_MS, to_ms

# the agent's shortest grace, however short the rule's minutes are
LEAST_GRACE = timedelta(minutes=10)


def grace_of(incident: Incident) -> timedelta:
    """For how long it must have been so, whoever looks."""
    return max(timedelta(minutes=incident.rule.minutes), LEAST_GRACE)


def unbroken_since_ms(incident: Incident, *, back_to_ms: int, now: datetime) -> int | None:
    """Since when, in the telemetry's time; None where it is not so up to now. What was before
    `back_to_ms` is not looked at.
    """
    end_ms = to_ms(now)
    firing = Firing(incident.since_ms, incident.fired_ms or incident.since_ms, incident.until_ms)
    watch = Watch(
        settings=settings_of(incident.rule),
        start_ms=back_to_ms - MINUTE_MS,
        end_ms=end_ms,
        firing={incident.subject: firing},
    )
    spans = condition(incident.rule.condition).measure(watch).spans.get(incident.subject, ())
    last = spans[-1] if spans else None
    if last is None or last.level != Level.BREACH or last.end_ms < end_ms - FRESH_MS:
        return None
    return last.start_ms
