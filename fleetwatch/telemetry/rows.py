"""Rows with large bytes in them, fetched as they are."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.db import connection


def fetched(statement: str, parameters: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a SELECT, in the binary protocol: Django's own cursor would have every byte sent as two hex digits."""
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(statement.encode(), parameters, binary=True)
        return cursor.fetchall()
