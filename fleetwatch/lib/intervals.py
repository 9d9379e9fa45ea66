"""Half-open intervals of UTC time, and their milliseconds."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_ms(moment: datetime) -> int:
    """Milliseconds since the epoch of an aware datetime, rounded down."""
    return (moment - EPOCH) // MILLISECOND


def from_ms(moment_ms: int) -> datetime:
    """The aware UTC datetime of milliseconds since the epoch, exactly."""
    return EPOCH + timedelta(milliseconds=moment_ms)


def ms_in(length: timedelta) -> int:
    """Milliseconds of a duration, rounded down."""
    return length // MILLISECOND


def floor_hour(moment: datetime) -> datetime:
    """The start of the UTC clock hour that holds `moment`."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def floor_hour_ms(moment_ms: int) -> int:
    """The same in milliseconds."""
    return moment_ms // HOUR_MS * HOUR_MS


def ceil_hour(moment: datetime) -> datetime:
    """The first UTC hour boundary at or after `moment`."""
    floor = floor_hour(moment)
    return floor if floor == moment else floor + timedelta(hours=1)


def ceil_hour_ms(moment_ms: int) -> int:
    """The same in milliseconds."""
    return -(-moment_ms // HOUR_MS) * HOUR_MS


def clock_ms(start_ms: int, end_ms: int) -> int:
    """How long it was for who reads both ends in hours and minutes."""
    return (end_ms // MINUTE_MS - start_ms // MINUTE_MS) * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Interval:
    """[start, end) in UTC. Raises ValueError when empty, reversed or naive."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("an interval needs aware datetimes")
        if self.start >= self.end:
            raise ValueError(f"{self.start} is not before {self.end}")

    @property
    def start_ms(self) -> int:
        return to_ms(self.start)

    @property
    def end_ms(self) -> int:
        return to_ms(self.end)

    @property
    def duration_ms(self) -> int:
        return self.end_ms - self.start_ms

    def outward_to_hours(self) -> "Interval":
        """The smallest interval of whole UTC hours that covers this one."""
        return Interval(floor_hour(self.start), ceil_hour(self.end))
