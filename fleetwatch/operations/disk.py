"""Room on the disk of the database: how much, and what is said while there is too little.

The embedded database's disk is looked at; of another server's it is only known what Postgres said
of late. While room is short agents keep their batches, retention runs first, and what only adds
rows waits: the last of it is for retention, which needs some to free more, and for people.
"""

import os
import time
from dataclasses import dataclass

from django.conf import settings

from fleetwatch.lib.trouble import DISK_FULL

MIB = 1024 * 1024
# Kept free: a twentieth of the disk, but a log segment or three at least and a gibibyte at most.
RESERVE_SHARE = 20
LEAST_RESERVE_BYTES = 48 * MIB
MOST_RESERVE_BYTES = 1024 * MIB
# So long after Postgres said that its disk is full it is still said.
REMEMBERED_S = 60.0


@dataclass(frozen=True, slots=True)
class Space:
    """A disk, in bytes; `free` of them are for who is not root."""

    free: int
    total: int

    @property
    def reserve(self) -> int:
        """What is kept free."""
        return max(LEAST_RESERVE_BYTES, min(MOST_RESERVE_BYTES, self.total // RESERVE_SHARE))

    @property
    def is_short(self) -> bool:
        return self.free < self.reserve


class Refusals:
    """When Postgres last said to this process that its disk is full."""

    def __init__(self) -> None:
        self._at: float | None = None

    def note(self) -> None:
        """It says so now."""
        self._at = time.monotonic()

    def forget(self) -> None:
        """As if it never had."""
        self._at = None

    @property
    def is_recent(self) -> bool:
        at = self._at
        return at is not None and time.monotonic() - at < REMEMBERED_S


refusals = Refusals()


def space() -> Space | None:
    """The embedded database's disk; None where the database is not ours, or has no folder yet."""
    if settings.DATABASE_FOLDER is None:
        return None
    try:
        volume = os.statvfs(settings.DATABASE_FOLDER)
    except OSError:
        return None
    return Space(free=volume.f_bavail * volume.f_frsize, total=volume.f_blocks * volume.f_frsize)


def is_short() -> bool:
    """Whether the embedded database's disk has less room than is kept free."""
    now = space()
    return now is not None and now.is_short


def trouble() -> str | None:
    """That the disk is full, in words, with what is left where it is known; None while it
    is not.
    """
    now = space()
    if now is not None and now.is_short:
        return (
            f"{DISK_FULL} ({now.free // MIB} of {now.total // MIB} MiB are free,"
            f" {now.reserve // MIB} are kept for retention)"
        )
    return DISK_FULL if refusals.is_recent else None
