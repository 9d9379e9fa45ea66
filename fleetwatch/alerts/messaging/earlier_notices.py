"""Which incidents the notices of a group named before, by place: why somebody is sent the end of
one, and why one has no notice of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from fleetwatch.alerts.models import Notification

CHANGES_EVERY = timedelta(hours=1)  # where nothing can be edited each is a message more
REACHED = (Notification.State.SENT, Notification.State.DIGESTED)
RESOLVED = "resolved"
CHANGED = "changed"
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


def why_changed(incident_id: int, row: Notification, before: Named) -> str:
    """Why a notice that named the incident before went out again: for those of its group that it
    names since. "" where it is the incident's first, and where none joined.
    """
    named = before.get((row.channel_id, row.address), ())
    joined = [pk for pk in row.shown if pk not in named]
    if not joined or incident_id in joined:
        return ""
    return f"names {', '.join(f'#{pk}' for pk in joined)} since, which joined its group"


def why_ended(incident_id: int, place: Place, named: Named) -> str:
    """Why its end is sent there: not that they own it still, but what they were sent before."""
    ids = named.get(place, ())
    if not ids or incident_id in ids:
        return NOTIFIED_BEFORE
    return f"was sent the notice of #{ids[0]}, which this one joined"
