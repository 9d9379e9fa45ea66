"""Postgres things Django has no word for: advisory locks, statement files."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection, transaction


def lock_key(name: str) -> int:
    """A stable signed 32-bit key for a lock's name."""
    return zlib.crc32(name.encode()) - 2**31


@contextmanager
def advisory_lock(name: str) -> Iterator[bool]:
    """True when this session holds the lock `name`; False when another one does.

    Fences a task against a second run of itself. A dead session's lock is gone
    with it. Never waits.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock_key(name)])
        held = bool(cursor.fetchone()[0])
        try:
            yield held
        finally:
            if held:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [lock_key(name)])


@contextmanager
def one_view() -> Iterator[None]:
    """Reads within see the database as it was at the first of them, whatever others commit meanwhile; nothing can be written.

    Within a transaction that is open already its own view holds.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def wait_for_lock(name: str) -> None:
    """Holds the lock `name` until the transaction ends; waits for whoever holds it. Needs a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(name)])


def read_statement(path: Path) -> str:
    """The SQL statement in a file."""
    return path.read_text(encoding="utf-8")
