"""Reads of alerts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import Q, QuerySet

from fleetwatch.accounts.colleagues import show_people
from fleetwatch.accounts.visibility import sight
from fleetwatch.alerts.breach import Breach, Condition, stored_breach
from fleetwatch.alerts.conditions import condition
from fleetwatch.alerts.incidents.open_names import in_words
from fleetwatch.alerts.models import Incident, IncidentEvent, Notification, Rule
from fleetwatch.lib.intervals import Interval, clock_ms, to_ms

# lines of a history that telemetry writes: they name nobody who has an account
OF_TELEMETRY = ("fired", "resolved", "muted", "unmuted")
AGREEMENTS = ("not_waste",)
DECISIONS = ("ack", "snooze", *AGREEMENTS)
PEOPLE = ("person", "assignee", "acknowledged_by", "resolved_by")


@dataclass(frozen=True, slots=True)
class IncidentView:
    """An incident as pages show it, with what was true when it was looked at last: its figures are
    until `breach.until_ms`, where it was judged last.
    """

    incident: Incident
    breach: Breach
    decided: str = ""  # who acknowledged or snoozed it, or said that it is no waste, and why

    @property
    def what(self) -> str:
        """What is wrong while it goes on; what was, once it is over."""
        is_over = self.incident.ended_ms is not None or self.incident.rests
        return self.breach.what if is_over else self.breach.does or self.breach.what

    @property
    def ended_ms(self) -> int | None:
        """When it was over, as pages and messages say it: where it was seen last, until when its
        time and dollars are counted. None: it goes on.
        """
        return None if self.incident.ended_ms is None else self.breach.until_ms

    @property
    def lasted_ms(self) -> int:
        """For how long it is judged to be so, pauses included."""
        if self.incident.fired_ms is None:
            return clock_ms(self.incident.since_ms, self.incident.until_ms)
        return clock_ms(self.breach.since_ms, self.breach.until_ms)

    @property
    def passed_for_ms(self) -> int | None:
        """For how long all of a budget is spent; None where it is not, or of no budget."""
        passed_ms = self.breach.passed_ms
        return None if passed_ms is None else clock_ms(passed_ms, self.breach.until_ms)

    def counted_to(self, now: datetime) -> "IncidentView":
        """Of a budget that goes on its length until now: what is spent stays spent, also between
        two evaluations. All others as they are.
        """
        return replace(self, breach=counted_to(self.breach, self.incident, now))


def breach_of(incident: Incident) -> Breach:
    """What is kept of it, which is written anew each five minutes, with its figures until it was
    judged last.
    """
    return stored_breach(incident.facts).judged_until(incident.until_ms)


def counted_to(breach: Breach, incident: Incident, now: datetime) -> Breach:
    """As IncidentView.counted_to() has the incident's breach."""
    if breach.kind != "budget" or incident.ended_ms is not None:
        return breach
    return replace(breach, until_ms=max(breach.until_ms, to_ms(now)))


def visible_incidents() -> QuerySet[Incident]:
    """The incidents that the reader may see, with rule, team and people: of who does not see
    everything those that are his or his teams'.
    """
    incidents = Incident.objects.select_related("rule", "team", *PEOPLE)
    seen = sight()
    if seen is None:
        return incidents
    return incidents.filter(
        Q(person=seen.user_id) | Q(assignee=seen.user_id) | Q(team__in=seen.team_ids)
    )


def open_within(incidents: QuerySet[Incident], interval: Interval) -> QuerySet[Incident]:
    """Those of them that were open at some moment of the interval, the newest first."""
    is_over = Q(resolved_at__lt=interval.start)
    overlapping = incidents.filter(opened_at__lt=interval.end).exclude(is_over)
    return overlapping.order_by("-opened_at", "-pk")


def timeline(incident: Incident) -> list[IncidentEvent]:
    """What happened to it and who did what, the oldest first; in memory alone, of whom the reader
    may know.
    """
    events = list(incident.events.select_related("by", "person").order_by("at", "pk"))
    show_people(events, "by", "person")
    for event in events:
        if event.kind not in OF_TELEMETRY:
            event.text = in_words(event.text, by=event.by, person=event.person)
    return events


def notifications(incident: Incident) -> list[Notification]:
    """Who was told of it, the oldest first; in memory alone, whom the reader may know."""
    sent = Notification.objects.filter(group__incidents=incident)
    rows = list(sent.select_related("person", "channel").order_by("pk"))
    show_people(rows, "person")
    return rows


def view_of(incident: Incident) -> IncidentView:
    """The incident with its breach."""
    return views_of([incident])[0]


def views_of(incidents: Iterable[Incident]) -> list[IncidentView]:
    """The incidents with their breaches; in memory alone, theirs whom the reader may know."""
    rows = list(incidents)
    show_people(rows, *PEOPLE)
    for incident in rows:
        incident.resolution = in_words(incident.resolution, by=incident.resolved_by)
    return [IncidentView(incident, breach_of(incident)) for incident in rows]


def with_decisions(views: Iterable[IncidentView]) -> list[IncidentView]:
    """The views, each with who decided of it last, and why; of what is no waste who said so. No
    acknowledgement or snooze is left of what is over.
    """
    every = list(views)
    going_on = [each.incident.pk for each in every if each.incident.resolved_at is None]
    agreed = [each.incident.pk for each in every if each.incident.is_accepted]
    texts = decisions(going_on) | dict.fromkeys(agreed, "") | decisions(agreed, AGREEMENTS)
    return [replace(each, decided=texts.get(each.incident.pk, "")) for each in every]


def decisions(incident_ids: Collection[int], kinds: Collection[str] = DECISIONS) -> dict[int, str]:
    """By incident who decided of it last (acknowledged or snoozed it, said that it is no waste) and
    why, as the reader may know; of what nobody decided of there is nothing.
    """
    rows = IncidentEvent.objects.filter(incident__in=incident_ids, kind__in=kinds)
    events = list(rows.select_related("by", "person").order_by("at", "pk"))
    show_people(events, "by", "person")
    return {
        each.incident_id: in_words(each.text, by=each.by, person=each.person) for each in events
    }


def rules() -> list[tuple[Rule, Condition]]:
    """Every rule with the condition it watches (its label, unit and bounds)."""
    by_name = Rule.objects.prefetch_related("channels").order_by("name")
    return [(rule, condition(rule.condition)) for rule in by_name]
