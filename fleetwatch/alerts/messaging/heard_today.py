"""How many messages a person heard today, which the daily number of them is compared with."""

from datetime import datetime

from fleetwatch.alerts.messaging.address_book import Person
from fleetwatch.alerts.messaging.quiet_hours import Habits, day_start
from fleetwatch.alerts.models import Notification
from fleetwatch.notify.models import Channel, Delivery
from fleetwatch.notify.transports import transport

# of these an editing channel makes no new message: nobody hears it
EDITS = ("changed", "resolved")
State = Notification.State
BY_HAND = "finding/"  # so begin the threads and keys of what somebody told the owner of a job


def heard_today(person: Person, habits: Habits, now: datetime) -> int:
    """How many were told him since his midnight, by rules and by other people; what was kept and
    told in one message is one.
    """
    since = day_start(habits, now)
    today = Notification.objects.filter(person=person.user, created_at__gte=since)
    rows = today.filter(state=State.SENT).select_related("channel")
    by_rules = sum(not is_edit(row.kind, row.channel) for row in rows)
    of_several = today.filter(state=State.DIGESTED).values("created_at").distinct().count()
    return by_rules + of_several + _by_hand(person, since)


def is_edit(kind: str, channel: Channel) -> bool:
    """Whether it changes what was sent there, which nobody hears."""
    return kind in EDITS and can_edit(channel)


def can_edit(channel: Channel) -> bool:
    """Whether what was sent there can change."""
    return transport(channel.kind).can_edit


def _by_hand(person: Person, since: datetime) -> int:
    sent = Delivery.objects.filter(
        channel__in=Channel.objects.all(),  # by the index of all three
        address__in={name for _, name in person.names},
        key__startswith=BY_HAND,
        created_at__gte=since,
    )
    return sent.exclude(state=Delivery.State.FAILED).count()
