"""Rows with large bytes in them, fetched as they are; ids by the ten thousand, sent as they are."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
from django.conf import settings
from django.db import NotSupportedError
from django.db.backends.base.base import BaseDatabaseWrapper
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

from fleetwatch.lib import replica

# https://github.com/postgres/postgres/blob/REL_18_STABLE/src/backend/utils/adt/arrayfuncs.c
# (array_recv): each element follows its length
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])


class _Ids(Dumper):
    """An array of whole numbers as bigint[], in the binary protocol: as text 50,000 would take
    longer to write than to look up.
    """

    format = Format.BINARY
    oid = types["int8"].array_oid

    def dump(self, obj: NDArray[np.int64]) -> bytes:
        elements = np.empty(len(obj), dtype=_ELEMENT)
        elements["length"] = _ELEMENT["value"].itemsize
        elements["value"] = obj
        # dimensions, whether there are NULLs, type of the elements; length and lower bound of the
        # one dimension
        return struct.pack(">iiIii", 1, 0, types["int8"].oid, len(obj), 1) + elements.tobytes()


def fetched(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any], *, is_fixed: bool = False
) -> list[tuple[Any, ...]]:
    """The rows of a SELECT, in the binary protocol: Django's own cursor would have every byte sent
    as two hex digits. One that is fixed is asked for often and always in the same way: Postgres
    plans it once per connection, but behind a pooler.
    """
    connection = replica.reading()
    try:
        return _fetched(connection, statement, parameters, is_fixed=is_fixed)
    except NotSupportedError:
        # "cached plan must not change result type": a migration changed the width of a column while
        # the process lives. Within a transaction its rollback forgets the plan.
        if not is_fixed or connection.in_atomic_block:
            raise
        connection.connection.close()  # for good: close() alone gives it back to the pool
        connection.close()
        # the pool's next one may have such a plan, too
        return _fetched(connection, statement, parameters, is_fixed=False)


def _fetched(
    connection: BaseDatabaseWrapper,
    statement: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    *,
    is_fixed: bool,
) -> list[tuple[Any, ...]]:
    connection.ensure_connection()
    raw = connection.connection
    is_prepared = is_fixed and not settings.BEHIND_POOLER
    raw.prepare_threshold = 0 if is_prepared else None
    try:
        with connection.wrap_database_errors, psycopg.Cursor(raw) as cursor:
            cursor.adapters.register_dumper(np.ndarray, _Ids)
            cursor.execute(statement.encode(), parameters, prepare=is_prepared, binary=True)
            return cursor.fetchall()
    finally:
        if is_fixed and connection.queries_logged:  # who counts what a page asks counts it too
            connection.queries_log.append({"sql": statement, "time": ""})
        raw.prepare_threshold = None  # the connection is Django's again
