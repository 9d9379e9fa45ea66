"""What people said by incidents of a subject is no waste, as far as that holds now: also where the
incident is over meanwhile, for it is said until a day.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fleetwatch.accounts.colleagues import show_people
from fleetwatch.alerts.incidents.muted_incidents import labels_of, mute_of
from fleetwatch.alerts.models import Incident, Silence
from fleetwatch.alerts.selectors import visible_incidents
from fleetwatch.lib.intervals import from_ms

MOST = 50  # incidents of the subject, the newest


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Who said so (`silence`), and the newest incident that it is about."""

    silence: Silence
    incident: Incident


def acceptances(subject: str, now: datetime) -> list[Acceptance]:
    """Of each rule with incidents that the reader sees the one that lasts longest."""
    rows = Silence.objects.filter(
        kind=Silence.Kind.JUSTIFICATION, starts_at__lte=now, ends_at__gt=now
    )
    silences = list(rows.select_related("by").order_by("-ends_at", "-pk"))
    if not silences:
        return []
    incidents = list(visible_incidents().filter(subject=subject).order_by("-pk")[:MOST])
    by_rule: dict[int, Acceptance] = {}
    for silence in silences:
        incident = _newest_of(silence, incidents, now)
        if incident is not None:
            by_rule.setdefault(incident.rule_id, Acceptance(silence, incident))
    show_people([each.silence for each in by_rule.values()], "by")
    return list(by_rule.values())


def acceptance_of(incident: Incident, now: datetime) -> Silence | None:
    """By which it counts as no waste, `by` whom the reader may know: the one that lasts longest, of
    what is over also one that is past. None where it counts as waste.
    """
    if not incident.is_accepted:
        return None
    holds_after = now if incident.resolved_at is None else from_ms(incident.since_ms)
    rows = Silence.objects.filter(
        kind=Silence.Kind.JUSTIFICATION, starts_at__lte=now, ends_at__gt=holds_after
    )
    silences = rows.select_related("by").order_by("-ends_at", "-pk")
    labels = labels_of(incident)
    silence = next((each for each in silences if mute_of(each).is_for(labels)), None)
    show_people([silence] if silence else [], "by")
    return silence


def _newest_of(silence: Silence, incidents: Iterable[Incident], now: datetime) -> Incident | None:
    mute = mute_of(silence)
    return next((each for each in incidents if mute.holds(labels_of(each), now)), None)
