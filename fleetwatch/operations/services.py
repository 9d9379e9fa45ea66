"""Writes of operations: runs of background work, heartbeats."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import connection
from django.utils import timezone

from fleetwatch.lib.sql import advisory_lock, execute
from fleetwatch.operations.models import KEEP_RUNS, LONGEST_NAME, OF_A_WORKER, Heartbeat, JobRun

KEEP_WORKERS = timedelta(days=1)
MAX_ERROR_CHARACTERS = 2000
LONGEST_PAUSE = timedelta(seconds=90)  # between two heartbeats of a process that lives

log = structlog.get_logger(__name__)


@contextmanager
def record_run(
    name: str, *, clock: Callable[[], datetime] = timezone.now
) -> Iterator[dict[str, Any]]:
    """A dict for what the run did; it is kept with how the run ended.

    The row is committed at the start, so that a killed run stays visible with
    `ok` None. Call it outside of any transaction. An exception is recorded and
    goes on to the caller.
    """
    run = JobRun.objects.create(name=name, started_at=clock())
    did: dict[str, Any] = {}
    try:
        yield did
        run.ok = True
    except Exception as error:
        _drop_dead_connection()
        run.ok = False
        run.error = f"{type(error).__name__}: {error}".replace("\x00", "")[:MAX_ERROR_CHARACTERS]
        log.warning("run failed", name=name, error=run.error)
        raise
    finally:
        if run.ok is not None:  # killed otherwise
            run.did = did
            run.finished_at = clock()
            run.save(update_fields=["ok", "did", "error", "finished_at"])


def run_alone(name: str, work: Callable[[datetime], Mapping[str, Any]], *, lock: str = "") -> None:
    """Records a run of the work; where another one (of that lock) is not over, one that skipped
    it.
    """
    with advisory_lock(lock or name) as held, record_run(name) as did:
        did.update(work(timezone.now()) if held else {"skipped": 1})


def _drop_dead_connection() -> None:
    """The database itself may be what failed: what follows then gets a connection that works."""
    if connection.errors_occurred and not connection.in_atomic_block and not connection.is_usable():
        connection.close()


def beat(name: str, now: datetime) -> None:
    """Says that the process kind `name` lives at `now`; a later beat is never moved back."""
    execute(
        "INSERT INTO operations_heartbeat AS kept (name, at, since) VALUES (%s, %s, %s)"
        " ON CONFLICT (name) DO UPDATE SET"
        " since = CASE WHEN excluded.at - kept.at > %s THEN excluded.at ELSE kept.since END,"
        " at = greatest(kept.at, excluded.at)",
        [name, now, now, LONGEST_PAUSE],
    )


def beat_of_worker(host: str, now: datetime) -> None:
    """Says that the worker on that host lives at `now`."""
    beat(f"{OF_A_WORKER}{host}"[:LONGEST_NAME], now)


def prune_runs(now: datetime) -> dict[str, int]:
    """How many runs older than 7 days were deleted; and workers that are gone for a day."""
    deleted, _ = JobRun.objects.filter(started_at__lt=now - KEEP_RUNS).delete()
    gone = Heartbeat.objects.filter(name__startswith=OF_A_WORKER, at__lt=now - KEEP_WORKERS)
    gone.delete()
    return {"deleted": deleted}
