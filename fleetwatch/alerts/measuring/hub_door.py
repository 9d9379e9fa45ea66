"""Since when the hub takes batches: of other times nobody who was not heard is accused."""

from dataclasses import dataclass

from fleetwatch.lib.intervals import to_ms
from fleetwatch.operations.selectors import heartbeat

DOOR = "door"  # of the web process (front/application.py)
# the door beats each 10 s: what is older says that it is shut now
FRESH_MS = 90_000


@dataclass(frozen=True, slots=True)
class Open:
    """The door took batches over [start_ms, end_ms) without a pause."""

    start_ms: int
    end_ms: int


def open_span(now_ms: int) -> Open | None:
    """The time up to now in which the door was open; None while it is shut, or nobody knows."""
    door = heartbeat(DOOR)
    if door is None or to_ms(door.at) < now_ms - FRESH_MS:
        return None
    return Open(to_ms(door.since), min(to_ms(door.at), now_ms))


def shut_since_ms(now_ms: int) -> int | None:
    """Since when the door is shut; None while it is open, or where it never was."""
    door = heartbeat(DOOR)
    if door is None or to_ms(door.at) >= now_ms - FRESH_MS:
        return None
    return to_ms(door.at)
