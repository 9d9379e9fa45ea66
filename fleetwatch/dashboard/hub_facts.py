"""What /status says of the hub itself: its version, its disk, its backups, how busy it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from fleetwatch.accounts.audit import newest_entry
from fleetwatch.accounts.models import AuditEntry
from fleetwatch.dashboard.stored_data import Kept, kept_data, retention_days, whole
from fleetwatch.ingest import agent_package
from fleetwatch.lib.sql import execute
from fleetwatch.notify.models import Delivery
from fleetwatch.notify.selectors import is_kept, newest_tried
from fleetwatch.operations.disk import Space, space
from fleetwatch.operations.selectors import Rhythm

BACKUP_OLD = timedelta(days=7)
FAR = timedelta(days=3650)  # nobody asks when a disk is full after that


@dataclass(frozen=True, slots=True)
class Room:
    """A disk beside what will be on it.

    `missing` are the bytes that come before all is as old as it is kept, None = not known yet;
    `full_at` is when, at the pace so far, the disk is short of room before that, None = it is not.
    """

    space: Space
    missing: int | None
    full_at: datetime | None


@dataclass(frozen=True, slots=True)
class HubFacts:
    """`room` is None where the database's disk is another server's; `backup` the newest that
    `manage.py backup` made, and whether that is longer ago than is wanted; `busy` how many
    processes background work keeps busy; `last_delivery` the newest that was tried.
    """

    version: str
    postgres: str
    is_embedded: bool
    room: Room | None
    backup: AuditEntry | None
    is_backup_old: bool
    busy: float
    last_delivery: Delivery | None

    @property
    def is_kept_only(self) -> bool:
        """Whether the newest notification was kept here, and sent nowhere."""
        last = self.last_delivery
        return last is not None and is_kept(last.channel.kind, last.state)


def hub_facts(rhythms: Iterable[Rhythm], now: datetime) -> HubFacts:
    disk = space()
    backup = newest_entry("export.backup")
    [[postgres]] = execute("SELECT current_setting('server_version')", {})
    return HubFacts(
        version=agent_package.version(),  # they are released together
        postgres=postgres.partition(" ")[0],
        is_embedded=settings.DATABASE_FOLDER is not None,
        room=None if disk is None else room(disk, _kept(now), now),
        backup=backup,
        is_backup_old=backup is not None and now - backup.at > BACKUP_OLD,
        busy=sum(rhythm.busy for rhythm in rhythms),
        last_delivery=newest_tried(),
    )


def _kept(now: datetime) -> Kept:
    return whole(kept_data(retention_days(), now).values())


def room(disk: Space, kept: Kept, now: datetime) -> Room:
    """What will come to the disk, at the pace so far."""
    if kept.in_full is None:
        return Room(disk, None, None)
    missing = max(0, kept.in_full - kept.stored.size)
    left = disk.free - disk.reserve
    if missing <= left or not kept.per_day:
        return Room(disk, missing, None)
    until = timedelta(days=max(0, left) / kept.per_day)
    return Room(disk, missing, now + until if until < FAR else None)
