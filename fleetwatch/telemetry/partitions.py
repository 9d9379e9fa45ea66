"""The hot table's partitions, six hours of receipt each: made ahead, dropped behind.

A partition goes only when every mark that names one of its batches is gone, so
everything in it that counts is sealed. Nothing here deletes rows, and nothing
waits for long: ingest never queues behind it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.conf import settings
from django.db import OperationalError, transaction
from psycopg import sql

from fleetwatch.lib.sql import execute, wait_for_lock
from fleetwatch.telemetry.models import SealMark

log = structlog.get_logger()

PARENT = "telemetry_batch"
LENGTH = timedelta(hours=6)
AHEAD = 8  # two days: beat may be down over a night, and inserts make what is missing anyway
LOCK_TIMEOUT = "2s"
ATTACHED = "attached"
DETACHING = "half detached"
DETACHED = "detached"
# The tables named as partitions, and what they are.
TABLES = """
SELECT
    relname,
    CASE
        WHEN NOT relispartition THEN 'detached'
        WHEN inhdetachpending THEN 'half detached'
        ELSE 'attached'
    END
FROM pg_class
LEFT JOIN pg_inherits ON inhrelid = pg_class.oid
WHERE relkind = 'r'
  AND relnamespace = current_schema()::regnamespace
  AND relname ~ %s
ORDER BY relname
"""
ATTACH = "ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})"


@dataclass(frozen=True, slots=True)
class Partition:
    """Batches received in [start, end)."""

    name: str
    start: datetime

    @property
    def end(self) -> datetime:
        return self.start + LENGTH


def partition_for(moment: datetime) -> Partition:
    """The partition that takes a batch received at `moment`."""
    utc = moment.astimezone(UTC)
    start = utc.replace(hour=utc.hour // 6 * 6, minute=0, second=0, microsecond=0)
    return Partition(f"{PARENT}_p{start:%Y%m%d%H}", start)


def existing() -> list[Partition]:
    """The attached partitions, oldest first; a half-detached one is not among them."""
    return _in_state(ATTACHED)


def keep(now: datetime) -> dict[str, int]:
    """How many partitions were made and dropped."""
    return {"made": ensure(now), "dropped": len(drop_sealed(now))}


def ensure(now: datetime) -> int:
    """How many partitions were made, so that those from `now` to two days ahead exist."""
    made = [ensure_for(now + step * LENGTH) for step in range(AHEAD + 1)]
    return sum(made)


def ensure_for(moment: datetime) -> bool:
    """True when the partition for `moment` was missing and has been made (in the caller's
    transaction, if any).
    """
    wanted = partition_for(moment)
    if _is_attached(wanted.name):
        return False
    with transaction.atomic():
        wait_for_lock(PARENT)
        attached = _is_attached(wanted.name)
        if attached:
            return False
        if attached is None:
            # CREATE TABLE ... PARTITION OF would lock the parent against every reader and writer;
            # ATTACH does not.
            _run("CREATE TABLE {name} (LIKE {parent} INCLUDING ALL)", wanted)
        _run(ATTACH, wanted)
    log.info("partition made", name=wanted.name)
    return True


def drop_sealed(now: datetime) -> list[str]:
    """Names of the partitions dropped: those that are sealed whole and ended
    FLEETWATCH_HOT_RETENTION_HOURS ago or earlier.

    That is at least an hour: a batch that is being stored now carries the time of its receipt. Runs
    outside a transaction (DETACH CONCURRENTLY demands it). One that is in use is left for the next
    run.
    """
    _finish_interrupted()
    behind = timedelta(hours=settings.HOT_RETENTION_HOURS)
    old = [partition for partition in existing() if partition.end + behind <= now]
    return [partition.name for partition in old if not _is_needed(partition) and _drop(partition)]


def _drop(partition: Partition) -> bool:
    try:
        _execute("ALTER TABLE {parent} DETACH PARTITION {name} CONCURRENTLY", partition)
    # lock_timeout: someone reads it; the next run goes on from here
    except OperationalError as error:
        log.warning(
            "partition in use, left for the next run", name=partition.name, error=str(error).strip()
        )
        return False
    return _finish(partition)


def _finish(partition: Partition) -> bool:
    """Drops a detached partition, or attaches it again when a batch came in while it was being
    detached.
    """
    with transaction.atomic():
        # the lock under which inserts attach what they need: nothing comes in between the look and
        # the drop
        wait_for_lock(PARENT)
        if _is_attached(partition.name) is not False:
            return False
        is_needed = _is_needed(partition)
        _run(ATTACH if is_needed else "DROP TABLE {name}", partition)
    log.info(
        "partition attached again: it holds unsealed batches" if is_needed else "partition dropped",
        name=partition.name,
    )
    return not is_needed


def _finish_interrupted() -> None:
    """Ends what a killed run left: half-detached partitions, and detached tables that nobody
    dropped.
    """
    for partition in _in_state(DETACHING):
        try:
            _execute("ALTER TABLE {parent} DETACH PARTITION {name} FINALIZE", partition)
        except OperationalError as error:
            log.warning(
                "partition still in use, left for the next run",
                name=partition.name,
                error=str(error).strip(),
            )
    for partition in _in_state(DETACHED):
        _finish(partition)


def _execute(statement: str, partition: Partition) -> None:
    """Runs one statement about a partition with a short lock timeout, in autocommit."""
    execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_TIMEOUT])
    try:
        _run(statement, partition)
    finally:
        execute("RESET lock_timeout")


def _run(statement: str, partition: Partition) -> None:
    execute(
        sql.SQL(statement).format(
            name=sql.Identifier(partition.name),
            parent=sql.Identifier(PARENT),
            start=sql.Literal(partition.start),
            end=sql.Literal(partition.end),
        )
    )


def _is_needed(partition: Partition) -> bool:
    """True while a mark names a batch received in the partition's time."""
    return SealMark.objects.filter(
        batch_received_at__gte=partition.start, batch_received_at__lt=partition.end
    ).exists()


def _is_attached(name: str) -> bool | None:
    """True for a partition, False for a table that was one (a killed run left it), None when there
    is no such table.
    """
    rows = execute("SELECT relispartition FROM pg_class WHERE oid = to_regclass(%s)", [name])
    return bool(rows[0][0]) if rows else None


def _in_state(state: str) -> list[Partition]:
    """The partitions in that state, oldest first."""
    return [
        Partition(
            name,
            datetime.strptime(name.removeprefix(f"{PARENT}_p"), "%Y%m%d%H").replace(tzinfo=UTC),
        )
        for name, actual in execute(TABLES, [rf"^{PARENT}_p\d{{10}}$"])
        if actual == state
    ]
