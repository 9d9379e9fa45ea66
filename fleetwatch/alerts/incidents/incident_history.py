"""One incident's past: who was told of it and why, and the times before."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from fleetwatch.accounts.models import User
from fleetwatch.alerts.measuring.cause_words import LIKELY, OF_SEVERAL
from fleetwatch.alerts.messaging.earlier_notices import (
    CHANGED,
    CHANGES_EVERY,
    OPENED,
    REACHED,
    RESOLVED,
    is_first_of,
    named_before,
    why_changed,
    why_ended,
)
from fleetwatch.alerts.messaging.routing import NO_ACCOUNT, Step
from fleetwatch.alerts.models import Incident, Notification
from fleetwatch.alerts.selectors import (
    IncidentView,
    notifications,
    views_of,
    visible_incidents,
)
from fleetwatch.lib.intervals import HOUR_MS, to_ms
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.selectors import is_kept

MAX_SENDS = 100
MAX_BEFORE = 10
LOOKS_BACK = timedelta(days=30)
WITH_ESCALATION = "reminder with the escalation"
AGAIN_MS = 24 * HOUR_MS  # after the one before: the same trouble, begun again


@dataclass(frozen=True, slots=True)
class Send:
    """One message about the incident, sent or not: to a person by the channel, or to the channel
    (None). `moment` is what happened to it at `at`: queued (and not sent) or due; "" of what was
    sent or kept. `what` is what it says (opened, escalation, reminder, resolved), `state` how it
    went, `answer` what the other side said, `why` how it came to go there; "" = not written down.
    `names_cause`: whether it said what it likely is; None of what was not sent. `message_id`: of
    the message as it was sent or kept; None: there is none yet. `is_kept`: it reached nobody.
    """

    at: datetime
    moment: str
    what: str
    channel: Channel
    person: User | None
    state: str
    answer: str
    why: str
    names_cause: bool | None = None
    message_id: int | None = None
    is_kept: bool = False

    @property
    def lacks_account(self) -> bool:
        """Whether it went there as its owner has no account here that is known."""
        return self.why.startswith(NO_ACCOUNT)


@dataclass(frozen=True, slots=True)
class Joined:
    """Of an incident without a notice of its own: the first (id) that the notices of its group
    name, since when, and when a further one may follow the last.
    """

    first: int
    since: datetime
    next_at: datetime
    over_at: datetime | None

    @property
    def is_over_before(self) -> bool:
        """Whether it was over by then."""
        return self.over_at is not None and self.over_at < self.next_at


@dataclass(frozen=True, slots=True)
class Before:
    """The newest earlier incidents of the same subject, and all of them in LOOKS_BACK."""

    lines: list[IncidentView]
    count: int
    cost_usd: Decimal | None


def sends(incident: Incident) -> list[Send]:
    """The messages that tell of it, the newest first: those of its group's others are theirs."""
    if incident.group_id is None:
        return []
    notified = notifications(incident)
    _say_why(notified, incident)
    own = _own(notified, incident)
    waiting = [each for each in own if each.state != Notification.State.SENT]
    theirs = {_moment_of(each) for each in notified} - {_moment_of(each) for each in own}
    rows = [*_of_deliveries(_deliveries(incident, theirs), own), *map(_unsent, waiting)]
    return sorted(rows, key=lambda send: send.at, reverse=True)


def _say_why(notes: Iterable[Notification], incident: Incident) -> None:
    """In memory alone, of ends as the timeline has it, and of notices that went out again for
    others: a row is its group's, and may tell of several. To one that it names first it is the
    notice that it is there.
    """
    rows = list(notes)
    for at, row in enumerate(rows):
        before = named_before(rows[:at])
        if row.kind == RESOLVED:
            row.why = why_ended(incident.pk, (row.channel_id, row.address), before)
        elif row.kind == CHANGED:
            row.why = why_changed(incident.pk, row, before) or row.why
            row.kind = OPENED if is_first_of(incident.pk, row, before) else row.kind


def joined(incident: Incident) -> Joined | None:
    """None where a notice named it, where none of its group stood before it was raised, and of
    what is muted.
    """
    every = _notices(incident)
    raised_ms = incident.raised_ms
    if not every or raised_ms is None or any(incident.pk in shown for _, shown in every):
        return None
    since, named = every[0]
    if to_ms(since) > raised_ms or not visible_incidents().filter(pk__in=named[:1]).exists():
        return None
    over_at = incident.resolved_at
    last = max(at for at, _ in every if at == since or over_at is None or at <= over_at)
    return Joined(named[0], since, last + CHANGES_EVERY, over_at)


def _notices(incident: Incident) -> list[tuple[datetime, list[int]]]:
    """When those of its group went out that are of no end, the oldest first, and what each named;
    [] of what is muted.
    """
    if incident.group is None or incident.muted:
        return []
    rows = incident.group.notifications.filter(state__in=REACHED).exclude(kind=RESOLVED)
    return list(rows.order_by("created_at").values_list("created_at", "shown"))


def waits_for(incident: Incident) -> list[int]:
    """The ids of the incidents with which its end is told, once they are over too: those of the
    message that told of it. None where its end is told, or nobody heard that it began.
    """
    group = incident.group
    if group is None or group.closed_at is not None or incident.resolved_at is None:
        return []
    if not group.notifications.filter(state__in=REACHED, shown__contains=incident.pk).exists():
        return []
    others = visible_incidents().filter(group=group, resolved_at=None)
    return list(others.order_by("pk").values_list("pk", flat=True)[:MAX_BEFORE])


def is_at_the_top(incident: Incident) -> bool:
    """Whether it was told up to the last step, and nobody acknowledged it."""
    group = incident.group
    is_left = incident.state == Incident.State.FIRING and not incident.muted
    is_told = group is not None and group.stepped_at is not None
    return is_left and is_told and group is not None and group.step >= Step.OPERATORS


def first_of(delivery: Delivery) -> Incident | None:
    """The incident that its message is about first; None where it is about none."""
    kind, _, number = delivery.thread.partition("/")
    if kind != "group" or not number.isdecimal():
        return None
    return visible_incidents().filter(group=int(number)).order_by("pk").first()


def _deliveries(incident: Incident, theirs: Collection[object]) -> list[Delivery]:
    """The newest of its group since it was opened, without those that are others'."""
    every = Delivery.objects.filter(
        thread=f"group/{incident.group_id}", created_at__gte=incident.opened_at
    )
    newest = every.select_related("channel").order_by("-pk")[:MAX_SENDS]
    return [each for each in newest if _moment_of(each) not in theirs]


def _own(notes: Sequence[Notification], incident: Incident) -> list[Notification]:
    """Those of the group's that tell of the incident."""
    ended_at = _told_over_at(notes, incident)
    return [each for each in notes if _tells_of(each, incident, ended_at)]


def _told_over_at(notes: Iterable[Notification], incident: Incident) -> datetime | None:
    """When its end was told: the ends of a group are one message; None where it was not."""
    over_at = incident.resolved_at
    ends = (each.created_at for each in notes if each.kind == RESOLVED)
    return min((at for at in ends if over_at and at >= over_at), default=None)


def _tells_of(note: Notification, incident: Incident, ended_at: datetime | None) -> bool:
    """Whether it names what goes on of the incident, or tells that it is over."""
    if incident.pk in note.shown or note.created_at == ended_at:
        return True
    is_open = incident.resolved_at is None and note.created_at >= incident.opened_at
    return is_open and not note.shown


def _moment_of(row: Notification | Delivery) -> tuple[int, str, datetime]:
    """By what a delivery is known as that of a notification: both are written at once."""
    return row.channel_id, row.address, row.created_at


def before(incident: Incident, now: datetime) -> Before:
    """The times before that the rule fired of the subject."""
    earlier = visible_incidents().filter(
        rule=incident.rule, subject=incident.subject, pk__lt=incident.pk, fired_ms__isnull=False
    )
    lines = views_of(earlier.order_by("-pk")[:MAX_BEFORE])
    recent = [line for line in lines if line.incident.opened_at >= now - LOOKS_BACK]
    costs = [line.breach.cost_usd for line in recent if line.breach.cost_usd is not None]
    return Before(lines, len(recent), sum(costs, Decimal(0)) if costs else None)


def again_after(incidents: Collection[Incident]) -> dict[int, int]:
    """By id of those that began again, less than AGAIN_MS after another of the same rule and
    subject, when that one was over, as its own page says it.
    """
    earlier = visible_incidents().filter(
        rule__in={incident.rule_id for incident in incidents},
        subject__in={incident.subject for incident in incidents},
        fired_ms__isnull=False,
        ended_ms__gt=min((incident.since_ms for incident in incidents), default=0) - AGAIN_MS,
    )
    rows = earlier.order_by("ended_ms").values_list("rule_id", "subject", "ended_ms", "until_ms")
    return {
        incident.pk: until_ms
        for rule_id, subject, ended_ms, until_ms in rows
        for incident in incidents
        if ended_ms is not None
        and (rule_id, subject) == (incident.rule_id, incident.subject)
        and incident.since_ms - AGAIN_MS < ended_ms <= incident.since_ms
    }


def _of_deliveries(deliveries: Iterable[Delivery], notified: Iterable[Notification]) -> list[Send]:
    """Each with why it went to that address: by the note of its moment, else by the newest."""
    every = list(notified)
    of_moment = {_moment_of(each): each for each in every}
    newest = {(each.channel_id, each.address): each for each in every}
    escalated_at = {each.created_at for each in every if each.kind == "step"}
    return [
        _sent(
            each,
            _what(each, of_moment.get(_moment_of(each)), escalated_at),
            of_moment.get(_moment_of(each)) or newest.get((each.channel_id, each.address)),
        )
        for each in deliveries
    ]


def _what(delivery: Delivery, note: Notification | None, escalated_at: Collection[datetime]) -> str:
    """By its own note, as the timeline has it; without one by its key. A step of the escalation is
    a reminder to whom was told before.
    """
    key = delivery.key.removeprefix(f"{delivery.thread}/").partition("/")[0]
    kind = note.kind if note else key
    is_reminder = (kind, key) == ("reminder", "step")
    return WITH_ESCALATION if is_reminder and delivery.created_at in escalated_at else _kind(kind)


def _sent(delivery: Delivery, what: str, note: Notification | None) -> Send:
    # whom the reader may not know has no id here; a mail server's answer names the address
    is_log = is_kept(delivery.channel.kind, delivery.state)
    is_hidden = note is not None and note.person is not None and note.person.pk is None
    return Send(
        delivery.shown_at,
        _moment(delivery),
        what,
        delivery.channel,
        note.person if note else None,
        _state(delivery),
        "" if is_hidden or is_log else delivery.last_answer,
        note.why if note else "",
        names_cause(delivery),
        delivery.pk,
        is_log,
    )


def names_cause(delivery: Delivery) -> bool:
    """Whether the message said what it likely is; one of several jobs says so below them."""
    fields = dict(delivery.message.get("fields", ()))
    return LIKELY in fields or OF_SEVERAL in delivery.message.get("text", "")


def _kind(kind: str) -> str:
    """As the timeline calls it."""
    return "escalation" if kind == "step" else kind


def _state(delivery: Delivery) -> str:
    """How it went: what reaches nobody was kept, not sent."""
    return (
        "Kept"
        if is_kept(delivery.channel.kind, delivery.state)
        else Delivery.State(delivery.state).label
    )


def _moment(delivery: Delivery) -> str:
    return "" if delivery.sent_at else "queued"


def _unsent(note: Notification) -> Send:
    label = Notification.State(note.state).label
    return Send(
        note.due_at, "due", _kind(note.kind), note.channel, note.person, label, "", note.why
    )
