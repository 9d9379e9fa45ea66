"""Statements of the hot path: prepared once per connection (but behind a pooler), parameters in the
binary protocol, whole columns at a time.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, get_type_hints

import psycopg
from django.conf import settings
from django.db import connection


def run(statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows that the statement answers with, in the transaction of Django's connection.

    Django binds parameters on the client and prepares nothing: for a statement of
    many columns planning alone would cost more than running it.
    """
    connection.ensure_connection()
    raw = connection.connection
    is_prepared = not settings.BEHIND_POOLER
    raw.prepare_threshold = 0 if is_prepared else None
    try:
        with connection.wrap_database_errors, psycopg.Cursor(raw) as cursor:
            cursor.execute(_compact(statement), parameters, prepare=is_prepared, binary=True)
            return cursor.fetchall()
    finally:
        raw.prepare_threshold = None  # the connection is Django's again


@cache
def _compact(statement: str) -> bytes:
    """Without remarks and indentation: psycopg parses what is longer than 4 KiB each time anew."""
    lines = [line.strip() for line in statement.splitlines()]
    return "\n".join([line for line in lines if line and not line.startswith("--")]).encode()


def integers(values: Iterable[int | None]) -> str:
    """The values as the text of a Postgres array: of one type whatever their size, so that the
    statement is prepared once.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def numbers(values: Iterable[float | None]) -> str:
    """As `integers`, of finite numbers: every one comes back with the bits it had."""
    return "{" + ",".join(["NULL" if value is None else repr(value) for value in values]) + "}"


def texts(values: Iterable[str]) -> str:
    """As `integers`, of texts: psycopg's own way takes ten times as long for each."""
    written = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    return '{"' + '","'.join(written) + '"}' if written else "{}"


def digests(values: Iterable[bytes]) -> str:
    """As `texts`, of a few bytes each."""
    return texts(["\\x" + value.hex() for value in values])


def moments(values: Iterable[datetime]) -> str:
    """As `texts`, of aware times."""
    return texts([value.isoformat() for value in values])


def columns(rows: Iterable[object]) -> dict[str, Any]:
    """Parameters of a statement that unnests the rows, which are of one class: each annotated
    attribute of all of them, numbers as `integers` and `numbers` write them.
    """
    every = list(rows)
    row_class: Any = type(every[0])
    return {
        name: _written(kind, [getattr(row, name) for row in every])
        for name, kind in _kinds(row_class).items()
    }


@cache
def _kinds(row_class: type) -> dict[str, object]:
    """Name -> annotation; kept, as to work them out takes longer than to write one row."""
    return get_type_hints(row_class)


def _written(kind: object, values: list[Any]) -> str | list[Any]:
    if kind in (int, int | None):
        return integers(values)
    return numbers(values) if kind in (float, float | None) else values
