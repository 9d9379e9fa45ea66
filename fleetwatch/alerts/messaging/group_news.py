"""A group of incidents as it stands: who was told what of it, and what there is to say now."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from django.conf import settings

from fleetwatch.accounts.colleagues import people_shown, person_shown
from fleetwatch.accounts.models import User
from fleetwatch.alerts.breach import Breach, stored_breach
from fleetwatch.alerts.incidents.late_incidents import late_in_words
from fleetwatch.alerts.incidents.muting import muted_in_words
from fleetwatch.alerts.incidents.open_names import in_words, name_of
from fleetwatch.alerts.incidents.past_ends import how_it_went_on
from fleetwatch.alerts.measuring.month_drivers import opens_budget, with_drivers
from fleetwatch.alerts.messaging.earlier_notices import REACHED, Named, Place, named_before
from fleetwatch.alerts.messaging.ladder import Standing
from fleetwatch.alerts.messaging.messages import Case, Setting, of_group, reminder
from fleetwatch.alerts.messaging.page_steps import advised, left, with_causes, without_asking
from fleetwatch.alerts.messaging.sparks import NOTHING, Spark, of_breach
from fleetwatch.alerts.models import Incident, IncidentGroup, Notification, Severity
from fleetwatch.alerts.selectors import breach_of, counted_to
from fleetwatch.notify import wording
from fleetwatch.notify.message import Message, one_line

State = Incident.State
KEPT = (Notification.State.HELD, Notification.State.CAPPED)


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a message: strangers (nobody said who they are), the owner, or who is asked next as
    nobody acknowledged it.
    """

    is_stranger: bool = False
    is_owner: bool = False
    is_next: bool = False


ANYBODY = Reader()


@dataclass(frozen=True, slots=True)
class GroupNews:
    """An open group with its incidents, by place the last that was told there, where something is
    kept for later, and what of them was named where.
    """

    group: IncidentGroup
    incidents: Sequence[Incident]
    reached: dict[Place, Notification]
    kept: Collection[Place]
    named: Named

    @property
    def thread(self) -> str:
        """What its messages are about for ever."""
        return f"group/{self.group.pk}"

    @property
    def going_on(self) -> list[Incident]:
        """What fires and is not muted; what is acknowledged too."""
        return [each for each in self.incidents if each.resolved_at is None and not each.muted]

    def is_of(self, user: User) -> bool:
        """Whether all of it is that person's."""
        return all(each.person_id == user.pk for each in self.incidents)

    @property
    def is_over(self) -> bool:
        """Whether all of it is resolved."""
        return all(each.resolved_at is not None for each in self.incidents)

    @property
    def is_pressing(self) -> bool:
        """Whether somebody has to act: by telemetry that is there nobody did."""
        return any(each.state == State.FIRING and not each.note for each in self.going_on)

    @property
    def stepped_at(self) -> datetime | None:
        """When the ladder took its last step; None where nobody heard of it, or will: not yet, or
        what was kept for somebody was dropped.
        """
        return self.group.stepped_at if self.reached or self.kept else None

    @property
    def standing(self) -> Standing:
        """How far it was told; what is kept for somebody is waited for."""
        presses = self.is_pressing and not self.kept
        return Standing(presses, self.stepped_at, self.group.reminded_at)

    @property
    def shown(self) -> list[int]:
        """The ids of what goes on."""
        return [each.pk for each in self.going_on]

    @property
    def digest(self) -> str:
        """Of all that a message says but for what grows with time."""
        facts = [
            (each.pk, each.state, each.muted, bool(each.note), status_of(each))
            for each in self.incidents
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def first_breach(self) -> Breach:
        """Of the incident that was there first; the others of the group have the same owner."""
        return stored_breach(self.incidents[0].facts)

    def message(
        self, zone: ZoneInfo, now: datetime, *, again: bool = False, reader: Reader = ANYBODY
    ) -> Message:
        """How it stands, or (again) that it still does."""
        setting = replace(
            setting_of(self.group, zone, now),
            severity=self.severity,
            leads_to_budgets=not reader.is_stranger and opens_budget(self.first_breach),
            escalated=self._asked(zone, now) if reader.is_next else "",
        )
        cases = _advised(self.cases(setting), now, reader)
        if reader.is_owner:
            cases = [replace(each, breach=without_asking(each.breach)) for each in cases]
        if again:
            return reminder(cases, setting)
        spark = self.spark
        return replace(of_group(cases, setting), spark=spark.shares, spark_label=spark.label)

    @property
    def severity(self) -> str:
        """Its rule's; critical where something of it that goes on is."""
        is_critical = any(each.severity == Severity.CRITICAL for each in self.going_on)
        return Severity.CRITICAL.value if is_critical else self.group.rule.severity

    @property
    def spark(self) -> Spark:
        """Of the one thing that goes on; nothing of several, and of what is over."""
        breaches = [stored_breach(each.facts) for each in self.going_on[:2]]
        return of_breach(breaches[0]) if len(breaches) == 1 else NOTHING

    def _asked(self, zone: ZoneInfo, now: datetime) -> str:
        """Since when nobody acknowledged it, and who was asked."""
        rows = list(self.reached.values())
        channels = [row.channel.name for row in rows if row.person is None]
        people = [name_of(_shown(row.person)) for row in rows if row.person is not None]
        whom = ", ".join(one_line(name, 60) for name in dict.fromkeys([*people, *channels]))
        since = wording.moment(self.group.opened_at, zone, now=now)
        return f"nobody acknowledged it since {since}{whom and f' (asked: {whom})'}"

    def cases(self, setting: Setting) -> list[Case]:
        """What messages speak of: nothing that is muted, unless there is nothing else."""
        shown = [each for each in self.incidents if each.resolved_at is not None or not each.muted]
        is_muted = not self.is_over and not self.going_on
        clear_minutes = self.group.rule.clear_minutes
        return [
            replace(_case(each, setting), clear_minutes=clear_minutes)
            for each in (self.incidents if is_muted else shown)
        ]


def read_news(groups: Sequence[IncidentGroup]) -> list[GroupNews]:
    """Each group as it stands; one without incidents (they were deleted) is over."""
    incidents = _incidents(groups)
    rows: dict[int, list[Notification]] = defaultdict(list)
    for row in Notification.objects.filter(group__in=groups).order_by("pk"):
        rows[row.group_id].append(row)
    return [_news(group, incidents[group.pk], rows[group.pk]) for group in groups]


def _news(
    group: IncidentGroup, incidents: Sequence[Incident], rows: Sequence[Notification]
) -> GroupNews:
    reached = {_place(row): row for row in rows if row.state in REACHED}
    kept = {_place(row) for row in rows if row.state in KEPT}
    return GroupNews(group, incidents, reached, kept, named_before(rows))


def _place(row: Notification) -> Place:
    return row.channel_id, row.address


def _incidents(groups: Sequence[IncidentGroup]) -> dict[int, list[Incident]]:
    by_group: dict[int, list[Incident]] = defaultdict(list)
    # facts are read of those of which something is told: of hundreds a minute a few
    rows = Incident.objects.filter(group__in=groups).order_by("pk").defer("facts")
    # the same few people and teams are named in many of them
    for incident in rows.prefetch_related("team", "acknowledged_by", "assignee", "resolved_by"):
        by_group[incident.group_id or 0].append(incident)
    return by_group


def setting_of(group: IncidentGroup, zone: ZoneInfo, now: datetime) -> Setting:
    """What a message of the group needs besides its incidents."""
    return Setting(
        rule_name=group.rule.name,
        severity=group.rule.severity,
        zone=zone,
        now=now,
        base=settings.PUBLIC_URL,
    )


def status_of(incident: Incident) -> str:
    """What people made of it, in a sentence or two; "" for nothing. Who the reader may not know is
    somebody.
    """
    sentences = []
    if incident.state == State.ACKNOWLEDGED:
        sentences.append(f"Acknowledged by {name_of(_shown(incident.acknowledged_by))}.")
    if incident.assignee is not None:
        sentences.append(f"Given to {name_of(_shown(incident.assignee))}.")
    if incident.muted:
        sentences.append(f"Nobody is notified: {muted_in_words(incident.muted)}.")
    return " ".join(sentences)


def _shown(user: User | None) -> User | None:
    return person_shown(user, people_shown([user.username])) if user else None


def _advised(bare: Sequence[Case], now: datetime, reader: Reader) -> list[Case]:
    """Each with what its page says of the cause and to do first; who spent a budget is named to no
    strangers.
    """
    standing = [_standing(each, now, reader) for each in bare]
    breaches = with_causes([advised(each, now) for each in standing], now)
    return [replace(each, breach=of) for each, of in zip(bare, breaches, strict=True)]


def _standing(case: Case, now: datetime, reader: Reader) -> Breach:
    if case.resolution:
        return left(case.breach)
    return case.breach if reader.is_stranger else with_drivers(case.breach, now)


def _case(incident: Incident, setting: Setting) -> Case:
    return Case(
        id=incident.pk,
        breach=counted_to(breach_of(incident), incident, setting.now),
        note=incident.note,
        resolution=in_words(
            how_it_went_on(incident, setting.now, setting.clock), by=_shown(incident.resolved_by)
        ),
        status=status_of(incident),
        is_acknowledged=incident.state == State.ACKNOWLEDGED,
        snoozed_until=incident.snoozed_until,
        resolved_at=incident.resolved_at,
        late=late_in_words(incident, setting.clock),
    )
