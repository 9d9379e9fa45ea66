"""Keeps of each incident that fires why nobody is told of it (muting.py), as it is now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from django.db.models import Q

from fleetwatch.accounts.selectors import zone as organisation_zone
from fleetwatch.alerts import matchers, weekly_hours
from fleetwatch.alerts.conditions import CONDITIONS, condition
from fleetwatch.alerts.covered_causes import COVERED
from fleetwatch.alerts.incidents.dismissed_findings import (
    BY_DISMISSAL,
    dismissals,
    dismissed_jobs,
)
from fleetwatch.alerts.incidents.muting import ACCEPTED, Mute, Mutes, Speaker, Subject
from fleetwatch.alerts.models import Incident, IncidentEvent, Rule, Silence
from fleetwatch.lib.fences import Fences
from fleetwatch.lib.intervals import from_ms, to_ms

UNKNOWN = "an error: it can't be told whether something mutes it"
FIRES = (Incident.State.FIRING, Incident.State.ACKNOWLEDGED)


def mute(now: datetime, fences: Fences) -> set[int]:
    """Writes down of every incident that fires whether and why it is muted; the groups of those
    that are no longer, and were told before. Of whom that can't be known nobody is told.
    """
    firing = Incident.objects.filter(state__in=FIRES).prefetch_related("rule").order_by("pk")
    mutes = _mutes(now, firing.values_list("subject", flat=True))
    # few rules have many incidents: each is read once
    incidents = list(firing if mutes.asks_labels else firing.defer("facts"))
    why = _reasons(incidents, mutes, fences)
    returned = set()
    for incident in incidents:
        reason = why[incident.pk]
        if reason != incident.muted:
            returned |= _change(incident, reason, now)
    fences.within("incidents that are over", partial(_keep_dismissed, now), None)
    return returned


def _keep_dismissed(now: datetime) -> None:
    """Of what is over too whether somebody closed its finding as no waste, which lists and counts
    read there; or took that back. Its finding's history has the event.
    """
    is_said = Q(subject__in=dismissed_jobs(), rule__condition__in=COVERED)
    is_so = is_said & ~Q(muted__startswith=ACCEPTED)
    over = Incident.objects.filter(state=Incident.State.RESOLVED)
    rows = over.filter(is_so | Q(muted__startswith=BY_DISMISSAL))
    incidents = list(rows.prefetch_related("rule").order_by("pk"))
    subjects = {incident.subject for incident in incidents}
    mutes = Mutes(now, organisation_zone(), dismissals(subjects) if subjects else ())
    for incident in incidents:
        reason = mutes.accepted(labels_of(incident))
        if reason != incident.muted and (reason or incident.muted.startswith(BY_DISMISSAL)):
            Incident.objects.filter(pk=incident.pk).update(muted=reason)


def mute_reasons(incidents: Iterable[Incident], now: datetime) -> dict[int, str]:
    """By id of each of these why nobody is told of it at this moment; "" where people are."""
    every = list(incidents)
    mutes = _mutes(now, {incident.subject for incident in every})
    return _reasons(every, mutes, Fences())


def _mutes(now: datetime, subjects: Iterable[str]) -> Mutes:
    """What may hold incidents of these subjects back at this moment."""
    speaking = [each.name for each in CONDITIONS if each.speaks_for]
    speakers = Incident.objects.filter(state__in=FIRES, rule__condition__in=speaking)
    ordered = speakers.prefetch_related("rule").order_by("pk")
    mutes = [*read_mutes(now, now), *dismissals(subjects)]
    return Mutes(now, organisation_zone(), mutes, _speakers(ordered))


def _reasons(incidents: Iterable[Incident], mutes: Mutes, fences: Fences) -> dict[int, str]:
    return {
        incident.pk: fences.within(
            f"incident {incident.pk}", partial(_reason, mutes, incident), UNKNOWN
        )
        for incident in incidents
    }


def _reason(mutes: Mutes, incident: Incident) -> str:
    labels = labels_of(incident) if mutes.asks_labels else {}
    return mutes.reason(_subject(incident, labels))


def read_mutes(start: datetime, end: datetime) -> list[Mute]:
    """What was set for some moment from start to end."""
    rows = Silence.objects.filter(starts_at__lte=end, ends_at__gt=start)
    return [mute_of(row) for row in rows.order_by("pk")]


def mute_of(silence: Silence) -> Mute:
    """What it holds back, as far as that matters here."""
    return Mute(
        kind=silence.kind,
        matchers=tuple(matchers.stored(silence.matchers)),
        starts_at=silence.starts_at,
        ends_at=silence.ends_at,
        hours=weekly_hours.stored(silence.weekly),
        reason=silence.reason,
        of_teams_alone=silence.is_of_teams_alone,
        silence_id=silence.pk,
    )


def muted_counts(silences: Collection[Silence], now: datetime) -> Mapping[int, int]:
    """By the id of each how many incidents that it is about fired while it held so far."""
    began = [silence.starts_at for silence in silences if silence.starts_at < now]
    if not began:
        return dict.fromkeys((silence.pk for silence in silences), 0)
    fired = Incident.objects.filter(fired_ms__gte=to_ms(min(began))).select_related("rule")
    seen = [(from_ms(each.fired_ms or 0), labels_of(each)) for each in fired.iterator()]
    return {silence.pk: _muted(mute_of(silence), seen) for silence in silences}


def _muted(mute: Mute, fired: Iterable[tuple[datetime, matchers.Labels]]) -> int:
    return sum(mute.holds(labels, at) for at, labels in fired)


def labels_of(incident: Incident) -> matchers.Labels:
    """What silences and routes match of it: what its breach has, its rule's name and severity."""
    stored = incident.facts.get("labels", {})
    labels = {name: tuple(values) for name, values in stored.items()}
    return with_rule(labels, incident.rule, incident.subject)


def with_rule(labels: matchers.Labels, rule: Rule, subject: str) -> matchers.Labels:
    """The labels of a breach with those that its rule gives an incident."""
    own = {"rule": rule.name, "severity": rule.severity, "subject": subject}
    return {**labels, **{name: (value,) for name, value in own.items()}}


def _subject(incident: Incident, labels: matchers.Labels) -> Subject:
    return Subject(
        rule_id=incident.rule_id,
        labels=labels,
        schedule=weekly_hours.stored(incident.rule.schedule),
        snoozed_until=incident.snoozed_until,
        is_late=incident.is_late,
        speaks=bool(condition(incident.rule.condition).speaks_for),
    )


def _speakers(incidents: Iterable[Incident]) -> Sequence[Speaker]:
    speaking = []
    for incident in incidents:
        text = f"{incident.rule.name} of {incident.subject} speaks for it"
        for label in condition(incident.rule.condition).speaks_for:
            values = frozenset(incident.facts.get("labels", {}).get(label, ()))
            speaking.append(Speaker(incident.rule_id, label, values, text))
    return speaking


def _change(incident: Incident, reason: str, now: datetime) -> set[int]:
    """Writes it down; the incident's group where it comes back to people who were told of it."""
    is_back = not reason and incident.group_id is not None
    # only this column: whoever acts on the incident meanwhile is not undone
    Incident.objects.filter(pk=incident.pk).update(muted=reason)
    IncidentEvent.objects.create(
        incident=incident,
        at=now,
        kind="muted" if reason else "unmuted",
        text=reason or "nothing holds it back any more",
    )
    return {incident.group_id} if is_back and incident.group_id is not None else set()
