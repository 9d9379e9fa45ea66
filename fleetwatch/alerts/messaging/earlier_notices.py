"""Which incidents the notices of a group named before, by place: why a further one goes there, and
why the end of one does.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from fleetwatch.alerts.models import Notification

CHANGES_EVERY = timedelta(hours=1)  # where nothing can be edited each is a message more
REACHED = (Notification.State.SENT, Notification.State.DIGESTED)
RESOLVED = "resolved"
CHANGED = "changed"
OPENED = "opened"
Place = tuple[int, str]  # a channel's id and an address there
Named = Mapping[Place, Sequence[int]]  # the ids, those that were named first first

# sent, not heard: a log reaches nobody, and a server may refuse a message
NOTIFIED_BEFORE = "was sent an earlier notice of it"


def named_before(rows: Iterable[Notification]) -> Named:
    """By the rows of one group, the oldest first; what its end was sent with is no earlier one."""
    named: dict[Place, dict[int, None]] = {}
    for row in rows:
        if row.state in REACHED and row.kind != RESOLVED:
            named.setdefault((row.channel_id, row.address), {}).update(dict.fromkeys(row.shown))
    return {place: list(ids) for place, ids in named.items()}


def is_first_of(incident_id: int, row: Notification, before: Named) -> bool:
    """Whether it is the first there that names the incident."""
    place = (row.channel_id, row.address)
    return incident_id in row.shown and incident_id not in before.get(place, ())


def why_changed(incident_id: int, row: Notification, before: Named) -> str:
    """Why a notice of its group went out again: for those that it names since. "" where none
    joined.
    """
    place = (row.channel_id, row.address)
    if is_first_of(incident_id, row, before):
        return why_joined(place, before)
    return names_since(place, row.shown, before)


def names_since(place: Place, shown: Iterable[int], before: Named) -> str:
    """Which of those that a notice names joined since the one before; "" where none did."""
    joined = ", ".join(f"#{pk}" for pk in shown if pk not in before.get(place, ()))
    return f"names {joined} since, which joined its group" if joined else ""


def why_joined(place: Place, before: Named) -> str:
    """Why a further notice names one that was in none there; "" where there was no other."""
    ids = before.get(place, ())
    return f"was sent a notice of #{ids[0]}, whose group this one joined" if ids else ""


def why_ended(incident_id: int, place: Place, named: Named) -> str:
    """Why its end is sent there: not that they own it still, but what they were sent before."""
    ids = named.get(place, ())
    if not ids or incident_id in ids:
        return NOTIFIED_BEFORE
    return f"was sent the notice of #{ids[0]}, which this one joined"
