"""Postgres things Django has no word for: advisory locks, statement files."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from django.db import OperationalError, connection, transaction
from psycopg.errors import SerializationFailure
from psycopg.sql import Composed

ROOMS = Path(__file__).parent.parent

Result = TypeVar("Result")


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
    """Reads within see the database as it was at the first of them, whatever others commit
    meanwhile; nothing can be written.

    Within a transaction that is open already its own view holds.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
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
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []
