"""Telling: one row for each person or channel that is told of a group, and why it is they; the
message itself waits in notify. What a person has not to hear now is a row that is due later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fleetwatch.accounts.visibility import Sight, seeing, sight_of, sight_of_teams
from fleetwatch.alerts.incidents.open_names import BEFORE_REASON, PERSON
from fleetwatch.alerts.incidents.owners import may_see
from fleetwatch.alerts.messaging.address_book import AddressBook, Person
from fleetwatch.alerts.messaging.earlier_notices import (
    CHANGED,
    REACHED,
    RESOLVED,
    Place,
    names_since,
    why_ended,
    why_joined,
)
from fleetwatch.alerts.messaging.group_news import GroupNews, Reader
from fleetwatch.alerts.messaging.heard_today import heard_today, is_edit
from fleetwatch.alerts.messaging.mail_links import for_person
from fleetwatch.alerts.messaging.quiet_hours import Gate, Habits, Passage, passage
from fleetwatch.alerts.messaging.routing import Destination
from fleetwatch.alerts.models import Incident, IncidentEvent, Notification, Severity
from fleetwatch.alerts.weekly_hours import Hours
from fleetwatch.notify.message import one_line
from fleetwatch.notify.services import Recipient, enqueue
from fleetwatch.notify.transports import transport

Line = tuple[Incident, str, str]  # of a history: whose, the event's kind, why it came to be
STATES = {Gate.HOLD: Notification.State.HELD, Gate.CAP: Notification.State.CAPPED}


@dataclass(frozen=True, slots=True)
class Telling:
    """One thing to tell of a group: `kind` as Notification has it, `key` what no other one has;
    `again`: as a reminder to whom was told before.
    """

    news: GroupNews
    kind: str
    key: str
    again: bool = False


def notify(
    telling: Telling, destinations: Iterable[Destination], book: AddressBook, now: datetime
) -> int:
    """How many are told now; for the others it is kept. Where something is kept already it will be
    told with that.
    """
    count = 0
    for each in destinations:
        if each.place in telling.news.kept:
            continue
        where = _passage(telling, each, book, now)
        notification = _note(telling, each, where, book, now)
        if where.gate == Gate.SEND:
            _queue(telling, notification, book, now)
            count += 1
        _record(telling, each, where, book, now)
    return count


def habits_of(person: Person) -> Habits:
    """When the person wants to hear of things."""
    preference = person.preference
    quiet = None
    if preference.quiet_from is not None and preference.quiet_until is not None:
        quiet = Hours(preference.quiet_from, preference.quiet_until, str(person.zone))
    return Habits(person.zone, quiet, preference.daily_cap)


def _passage(
    telling: Telling, destination: Destination, book: AddressBook, now: datetime
) -> Passage:
    """Channels have no night."""
    person = book.people.get(destination.person_id or 0)
    if person is None:
        return Passage(Gate.SEND, now)
    habits = habits_of(person)
    is_counted = not _is_edit(telling, destination, book)
    return passage(
        habits,
        now,
        is_critical=telling.news.group.rule.severity == Severity.CRITICAL,
        had_today=heard_today(person, habits, now) if is_counted else None,
    )


def _is_edit(telling: Telling, destination: Destination, book: AddressBook) -> bool:
    """Whether it changes a message of the group's own, which nobody hears."""
    last = telling.news.reached.get(destination.place)
    has_message = last is not None and last.state == Notification.State.SENT
    return has_message and is_edit(telling.kind, book.channels[destination.channel_id])


def _note(
    telling: Telling, destination: Destination, where: Passage, book: AddressBook, now: datetime
) -> Notification:
    # a reply leaves the message above it as it was: that is edited next
    last = telling.news.reached.get(destination.place) if telling.again else None
    return Notification.objects.create(
        group=telling.news.group,
        step=telling.news.group.step,
        kind=telling.kind,
        person_id=destination.person_id,
        channel=book.channels[destination.channel_id],
        address=destination.address,
        why=one_line(destination.why, 200),
        shown=telling.news.shown,
        digest=last.digest if last else telling.news.digest,
        state=STATES.get(where.gate, Notification.State.SENT),
        due_at=where.due_at,
        created_at=now,
    )


def _queue(telling: Telling, notification: Notification, book: AddressBook, now: datetime) -> None:
    person = book.people.get(notification.person_id or 0)
    zone = person.zone if person else book.zone
    what = sight_of(person.user) if person else _sight_of_channel(notification, book)
    with seeing(lambda: what):
        reader = Reader(
            is_stranger=person is None and _is_read_by_strangers(notification, book),
            is_owner=person is not None and telling.news.is_of(person.user),
            is_next=telling.kind == "step",
        )
        message = telling.news.message(zone, now, again=telling.again, reader=reader)
    if person:
        message = for_person(message, person.user, notification)
    thread = telling.news.thread
    recipient = Recipient(notification.channel, notification.address)
    enqueue([recipient], message, key=f"{thread}/{telling.key}", now=now, thread=thread)


def _sight_of_channel(notification: Notification, book: AddressBook) -> Sight | None:
    """What those see who read it: a team's channel names whom the team may know."""
    teams = book.routes.readers(notification.channel_id)
    return None if teams is None else sight_of_teams(teams)


def _is_read_by_strangers(notification: Notification, book: AddressBook) -> bool:
    """Whether some who read the channel may see less than others, and nobody knows who they are."""
    sees_all = sight_of_teams(frozenset()) is None
    return not sees_all and book.routes.has_strangers(notification.channel_id)


def _record(
    telling: Telling, destination: Destination, where: Passage, book: AddressBook, now: datetime
) -> None:
    """The incidents' own histories say who was told and why."""
    person = book.people.get(destination.person_id or 0)
    who = f"{_who(destination, person, book)}{_when(where, book.zone)}"
    lines = _lines_of_change if telling.kind == CHANGED else _lines
    IncidentEvent.objects.bulk_create(
        IncidentEvent(
            incident=incident,
            at=now,
            kind=kind,
            text=one_line(f"{who}{BEFORE_REASON}{why}", 400),
            person=person.user if person else None,
        )
        for incident, kind, why in lines(telling, destination)
    )


def _lines(telling: Telling, destination: Destination) -> list[Line]:
    """Why it goes there; of an end what that waited for."""
    news = telling.news
    kind = f"told_{telling.kind}"
    if telling.kind != RESOLVED:
        return [(each, kind, destination.why) for each in news.going_on or news.incidents]
    place = destination.place
    return [
        (each, kind, f"{why_ended(each.pk, place, news.named)}{_waited(each, news)}")
        for each in news.going_on or news.incidents
    ]


def _lines_of_change(telling: Telling, destination: Destination) -> list[Line]:
    """An edit is worth a line where others joined with it: to them it is the first that told of
    them, to those that were named there before it says which.
    """
    news = telling.news
    last = news.reached.get(destination.place)
    before = set(last.shown if last else news.shown)
    place = destination.place
    lines = [
        (each, "told_opened", why_joined(place, news.named) or destination.why)
        for each in news.going_on
        if each.pk not in before
    ]
    since = names_since(place, news.shown, news.named)
    named = [each for each in news.going_on if each.pk in before]
    return lines + [(each, "told_changed", since) for each in named if since]


def _waited(incident: Incident, news: GroupNews) -> str:
    """For which of its group the end waited, that was over before them; "" where for none."""
    over_at = incident.resolved_at
    later = [
        f"#{each.pk}"
        for each in news.incidents
        if over_at and each.resolved_at and each.resolved_at > over_at
    ]
    were = f"{', '.join(later)} {'was' if len(later) == 1 else 'were'}"
    return (
        f"; it waited until {were} over too: the ends of a group are one message" if later else ""
    )


def _who(destination: Destination, person: Person | None, book: AddressBook) -> str:
    channel = book.channels[destination.channel_id]
    way = transport(channel.kind).label
    return f"{PERSON} by {way}" if person else f"{channel.name} ({way})"


def _when(where: Passage, zone: ZoneInfo) -> str:
    if where.gate == Gate.SEND:
        return ""
    due = where.due_at.astimezone(zone)
    why = "quiet hours" if where.gate == Gate.HOLD else "enough for a day"
    return f" at {due:%Y-%m-%d %H:%M} {due.tzname()} ({why})"


def reached_before(news: GroupNews, book: AddressBook) -> list[Destination]:
    """Everybody who was told of the group and may still hear of it, with the reason of before."""
    places = [
        Destination(*place_now(row, book), row.person_id, row.why)
        for row in news.reached.values()
        if row.state in REACHED and _may_hear(row, news, book)
    ]
    return list({each.place: each for each in places}.values())


def place_now(row: Notification, book: AddressBook) -> Place:
    """Where it was told, or is to be; elsewhere where that is no longer the person's own."""
    person = book.people.get(row.person_id or 0)
    if person is None or person.place is None:
        return row.channel_id, row.address
    is_theirs = person.is_at(book.channels[row.channel_id], row.address)
    return (row.channel_id, row.address) if is_theirs else person.place


def _may_hear(row: Notification, news: GroupNews, book: AddressBook) -> bool:
    """A channel may; a person who is still here, wants to be told and sees one of them."""
    if row.person_id is None:
        return True
    person = book.people.get(row.person_id)
    if person is None or person.place is None:
        return False
    return any(may_see(person.user, incident) for incident in news.incidents)
