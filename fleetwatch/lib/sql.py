"""Postgres things Django has no word for: advisory locks, statement files."""

import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from django.db import DatabaseError, OperationalError, connection, transaction
from psycopg.errors import SerializationFailure
from psycopg.sql import Composed

from fleetwatch.lib import replica

ROOMS = Path(__file__).parent.parent
# Whoever ends transactions that do nothing (the server, by a setting of its own) does not end this.
# The first of two keys (telemetry/locks.py has others) keeps turns apart from what transactions
# wait for: who has his turn under a name waits for the lock of that name as any other.
HOLD_LOCK = """
SELECT
    set_config('idle_in_transaction_session_timeout', '0', true),
    pg_try_advisory_xact_lock(0, %s)
"""
TRY_AGAIN_S = 1.0

Result = TypeVar("Result")


class LockHeldError(Exception):
    """Somebody else holds a lock for longer than is waited."""


def lock_key(name: str) -> int:
    """A stable signed 32-bit key for a lock's name."""
    return zlib.crc32(name.encode()) - 2**31


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """True when it is our turn to do what `name` stands for; False when somebody else is at it.

    Fences a task against a second run of itself, and against nothing else: wait_for_lock of that
    name is another lock. Who dies loses his turn with his connection. Never waits.
    """
    # Of a transaction, on a connection of its own: a pooler between us and Postgres hands each
    # transaction to any of its sessions, so a session's lock would be nobody's. A transaction that
    # only holds a lock has no snapshot, and keeps no vacuum and no index from being done.
    holder = connection.copy()
    try:
        holder.set_autocommit(False)
        with holder.cursor() as cursor:
            cursor.execute(HOLD_LOCK, [lock_key(name)])
            [_, is_held] = cursor.fetchone()
        yield bool(is_held)
    finally:
        with suppress(DatabaseError):  # a lost connection has lost its lock
            holder.rollback()
        holder.close()


@contextmanager
def awaited_lock(name: str, *, patience_s: float) -> Iterator[None]:
    """Holds the lock `name` within, as advisory_lock, once whoever holds it is done.

    Raises LockHeldError when that takes longer. It waits between statements: one that waits has a
    snapshot, for whose end who makes an index under this lock (CONCURRENTLY) would wait for ever.
    """
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        with advisory_lock(name) as is_held:
            if is_held:
                yield
                return
        time.sleep(TRY_AGAIN_S)
    raise LockHeldError(f"another process has not ended what it does ({name}) in {patience_s:g} s")


@contextmanager
def one_view() -> Iterator[None]:
    """Reads within see the database as it was at the first of them, whatever others commit
    meanwhile; nothing can be written.

    Within a transaction that is open already its own view holds. A page's view is of the replica,
    where there is a current one.
    """
    if replica.reading().in_atomic_block:
        yield
        return
    with replica.viewing() as alias, transaction.atomic(using=alias):
        execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def taken_back(look: Callable[[], Result]) -> Result:
    """What `look` says; whatever it wrote is taken back. It sees the database as it was when it
    began, and what it wrote itself.

    So before and after differ by what it did alone, on a hub that goes on meanwhile. Where somebody
    changed the same rows at that moment it is done once more. Within a transaction that is open
    already its own view holds.
    """
    try:
        return _taken_back(look)
    except OperationalError as error:
        if connection.in_atomic_block or not isinstance(error.__cause__, SerializationFailure):
            raise
        return _taken_back(look)


def _taken_back(look: Callable[[], Result]) -> Result:
    is_first = not connection.in_atomic_block
    with transaction.atomic():
        if is_first:
            execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        result = look()
        transaction.set_rollback(True)
    return result


def limit_waits(*, lock_ms: int, statement_ms: int) -> None:
    """Until the transaction ends no statement waits longer for a row, or takes longer: it raises
    OperationalError.

    Needs a transaction.
    """
    execute(
        "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)",
        [f"{lock_ms}ms", f"{statement_ms}ms"],
    )


def wait_for_lock(name: str) -> None:
    """Holds the lock `name` until the transaction ends; waits for whoever holds it.

    Needs a transaction.
    """
    execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(name)])


def has_lock(name: str) -> bool:
    """Whether the lock `name` is ours until the transaction ends; never waits.

    Needs a transaction.
    """
    [[is_ours]] = execute("SELECT pg_try_advisory_xact_lock(%s)", [lock_key(name)])
    return bool(is_ours)


def read_statement(path: str | Path) -> str:
    """The SQL statement in a file, which is named from `fleetwatch/` on."""
    return (ROOMS / path).read_text(encoding="utf-8")


def execute(
    statement: str | Composed, parameters: Sequence[Any] | Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    """The rows that the statement answers with, on Django's connection; none of one that answers
    with none.
    """
    with replica.reading().cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
