"""What is kept for how long, and what of it is there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from fleetwatch.lib.sql import execute, read_statement

DAY = timedelta(days=1)
_STORED = read_statement("dashboard/sql/stored.sql")


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes on disk, indexes included, and the moment that the oldest of it is of (None = there is
    none).
    """

    size: int
    oldest: datetime | None

    def per_day(self, now: datetime) -> int | None:
        """How many bytes a day of it takes, on average; None where it is of less than a day."""
        if self.oldest is None or now - self.oldest < DAY:
            return None
        return int(self.size / ((now - self.oldest) / DAY))


@dataclass(frozen=True, slots=True)
class Kept:
    """Data of one kind, how many bytes a day adds, and how many it will be once it is as old as it
    is kept, at that pace; None where that is not known yet.
    """

    stored: Stored
    per_day: int | None
    in_full: int | None


def stored_data() -> dict[str, Stored]:
    """By kind: batches, columns, curves, ledger."""
    return {kind: Stored(size, oldest) for kind, size, oldest in execute(_STORED, {})}


def retention_days() -> dict[str, int]:
    """By kind for how many days it is kept; what has none here is kept until it is sealed."""
    return {
        "columns": settings.RAW_RETENTION_DAYS,
        "curves": settings.MATRIX_RETENTION_DAYS,
        "ledger": settings.LEDGER_RETENTION_DAYS,
    }


def kept_data(days_of: Mapping[str, int], now: datetime) -> dict[str, Kept]:
    """By kind what is stored, and what it comes to by how many days each is kept."""
    return {kind: kept(stored, days_of.get(kind), now) for kind, stored in stored_data().items()}


def kept(stored: Stored, days: int | None, now: datetime) -> Kept:
    """What is kept for so many days; without any it is as large as it gets."""
    if days is None:
        return Kept(stored, None, stored.size)
    per_day = stored.per_day(now)
    return Kept(stored, per_day, None if per_day is None else max(stored.size, per_day * days))


def whole(parts: Iterable[Kept]) -> Kept:
    """All of them together; None where that of one is not known."""
    every = list(parts)
    return Kept(
        Stored(sum(each.stored.size for each in every), None),
        sum(each.per_day or 0 for each in every),
        _sum_if_all_known(each.in_full for each in every),
    )


def _sum_if_all_known(sizes: Iterable[int | None]) -> int | None:
    """None where one of them is not."""
    every = list(sizes)
    return None if None in every else sum(size or 0 for size in every)
