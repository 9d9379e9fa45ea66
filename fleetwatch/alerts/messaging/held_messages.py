"""What was kept from people for the night, or as too much for a day: told when it is due, all of it
in one message; what is over by then and was never told is dropped.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from django.conf import settings
from django.db import transaction

from fleetwatch.accounts.visibility import seeing, sight_of
from fleetwatch.alerts.incidents.open_names import BEFORE_REASON, PERSON
from fleetwatch.alerts.messaging.address_book import AddressBook, Person, read_address_book
from fleetwatch.alerts.messaging.group_news import KEPT, GroupNews, Reader, read_news
from fleetwatch.alerts.messaging.mail_links import for_person
from fleetwatch.alerts.messaging.messages import Setting, several_groups
from fleetwatch.alerts.messaging.notifications import habits_of, place_now
from fleetwatch.alerts.models import IncidentEvent, IncidentGroup, Notification
from fleetwatch.lib.fences import Fences
from fleetwatch.notify.message import Message
from fleetwatch.notify.services import Recipient, enqueue

REMINDER = "reminder"
State = Notification.State


def send_due(now: datetime, fences: Fences) -> int:
    """How many people got what was kept for them."""
    kept = Notification.objects.filter(state__in=KEPT, due_at__lte=now)
    due = kept.select_related("channel").order_by("pk")
    by_person: dict[int, list[Notification]] = defaultdict(list)
    for row in due:
        by_person[row.person_id or 0].append(row)
    if not by_person:
        return 0
    groups = IncidentGroup.objects.filter(pk__in={row.group_id for row in due})
    news = {each.group.pk: each for each in read_news(list(groups.select_related("rule")))}
    book = read_address_book(by_person.keys())
    return sum(
        fences.within(
            f"what was kept for person {user_id}",
            partial(_send, book.people.get(user_id), rows, news, book, now=now),
            False,
        )
        for user_id, rows in by_person.items()
    )


@transaction.atomic
def _send(
    person: Person | None,
    rows: Sequence[Notification],
    news: dict[int, GroupNews],
    book: AddressBook,
    *,
    now: datetime,
) -> bool:
    """Whether there was something to tell the person."""
    if person is None or person.place is None:
        _mark(rows, State.DROPPED)
        return False
    quiet = habits_of(person).quiet
    if quiet is not None and quiet.hold(now):  # he set other hours since
        _put_off(rows, quiet.end_after(now))
        return False
    wanted = [row for row in rows if _is_worth(row, news[row.group_id])]
    _mark([row for row in rows if row not in wanted], State.DROPPED)
    if wanted:
        _readdress(wanted, book)
        _queue(person, wanted, [news[row.group_id] for row in wanted], now=now)
    return bool(wanted)


def _put_off(rows: Iterable[Notification], until: datetime) -> None:
    ids = [row.pk for row in rows]
    Notification.objects.filter(pk__in=ids).update(due_at=until)


def _is_worth(row: Notification, news: GroupNews) -> bool:
    """Whether the person should still hear of it: it presses, or he was told and it is over."""
    if news.is_over:
        return bool(news.incidents) and (row.channel_id, row.address) in news.reached
    return news.is_pressing


def _queue(
    person: Person,
    rows: Sequence[Notification],
    groups: Sequence[GroupNews],
    *,
    now: datetime,
) -> None:
    first = rows[0]
    key = f"kept/{first.pk}"
    first.shown = groups[0].shown
    message = for_person(_message(person, rows, groups, now), person.user, first)
    thread = groups[0].thread if len(groups) == 1 else key
    recipient = Recipient(first.channel, first.address)
    enqueue([recipient], message, key=f"{thread}/{key}", now=now, thread=thread)
    _mark(rows, State.SENT if len(groups) == 1 else State.DIGESTED)
    for row, news in zip(rows, groups, strict=True):
        _note(row, news, person, now)


def _readdress(rows: Iterable[Notification], book: AddressBook) -> None:
    """To where the person is now, whose name it may have been in the evening."""
    for row in rows:
        channel_id, address = place_now(row, book)
        row.channel = book.channels[channel_id]
        row.address = address
        row.save(update_fields=["channel", "address"])


def _message(
    person: Person, rows: Sequence[Notification], groups: Sequence[GroupNews], now: datetime
) -> Message:
    what = sight_of(person.user)
    with seeing(lambda: what):
        if len(groups) == 1:
            # said by an edit of the message above it nobody would hear it
            again = rows[0].kind == REMINDER and not groups[0].is_over
            reader = Reader(is_owner=groups[0].is_of(person.user))
            return groups[0].message(person.zone, now, again=again, reader=reader)
        setting = _setting(person, now)
        return several_groups([each.cases(setting) for each in groups], setting)


def _note(row: Notification, news: GroupNews, person: Person, now: datetime) -> None:
    """What was told, and when; from now on the group's ladder waits for an answer."""
    row.shown = news.shown
    if row.kind != REMINDER:  # it leaves the message above it as it was: that is edited next
        row.digest = news.digest
    row.created_at = now
    row.save(update_fields=["shown", "digest", "created_at"])
    news.group.stepped_at = now
    news.group.save(update_fields=["stepped_at"])
    IncidentEvent.objects.bulk_create(
        IncidentEvent(
            incident=each,
            at=now,
            kind="told_later",
            text=f"{PERSON}{BEFORE_REASON}{row.why}",
            person=person.user,
        )
        for each in news.going_on
    )


def _mark(rows: Iterable[Notification], state: State) -> None:
    for row in rows:
        row.state = state
        row.save(update_fields=["state"])


def _setting(person: Person, now: datetime) -> Setting:
    return Setting(
        rule_name="", severity="info", zone=person.zone, now=now, base=settings.PUBLIC_URL
    )
