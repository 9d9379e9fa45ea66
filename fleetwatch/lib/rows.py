"""Rows with large bytes in them, fetched as they are; ids by the ten thousand, sent as they are."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import psycopg
from django.conf import settings
from django.db import NotSupportedError
from django.db.backends.base.base import BaseDatabaseWrapper
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

from fleetwatch.lib import memo, replica

# https://github.com/postgres/postgres/blob/REL_18_STABLE/src/backend/utils/adt/arrayfuncs.c
# (array_recv): each element follows its length
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])


Parameters = Sequence[Any] | Mapping[str, Any]
Row = tuple[Any, ...]


class Asked(NamedTuple):
    """A SELECT, and what it is asked with."""

    statement: str
    parameters: Parameters


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


def fetched(statement: str, parameters: Parameters, *, is_fixed: bool = False) -> list[Row]:
    """The rows of a SELECT, in the binary protocol: Django's own cursor would have every byte sent
    as two hex digits. One that is fixed is asked for often and always in the same way: Postgres
    plans it once per connection, but behind a pooler.
    """
    if is_fixed and (ahead := _asked_ahead(statement, parameters)) is not None:
        return ahead
    connection = replica.reading()
    try:
        return _fetched(connection, statement, parameters, is_fixed=is_fixed)
    except NotSupportedError:
        # "cached plan must not change result type": a migration changed the width of a column while
        # the process lives. Within a transaction its rollback forgets the plan.
        if not is_fixed or connection.in_atomic_block:
            raise
        _end(connection)
        # the pool's next one may have such a plan, too
        return _fetched(connection, statement, parameters, is_fixed=False)


def fetch_ahead(*asked: Asked) -> None:
    """Asks for the rows of several fixed SELECTs in one go, where somebody only looks: within the
    same look `fetched` has them when it is asked for one with the same parameters.
    """
    if not memo.is_looking() or settings.BEHIND_POOLER:
        return
    connection = replica.reading()
    try:
        with _raw(connection, prepares=True) as raw, raw.pipeline():
            cursors = [_executed(raw, *each, is_prepared=True) for each in asked]
            answers = [cursor.fetchall() for cursor in cursors]
    except NotSupportedError:  # as above: each is then asked for alone
        if connection.in_atomic_block:
            raise
        _end(connection)
        return
    for (statement, parameters), answer in zip(asked, answers, strict=True):
        memo.keep_answer((parameters, answer), fetch_ahead, statement)
        _log(connection, statement)


def _asked_ahead(statement: str, parameters: Parameters) -> list[Row] | None:
    """What was asked ahead, with the same parameters."""
    kept: Any = memo.kept_answer(fetch_ahead, statement)
    if kept is memo.NOT_KEPT or _comparable(kept[0]) != _comparable(parameters):
        return None
    answer: list[Row] = kept[1]
    return answer


def _comparable(parameters: Parameters) -> dict[Any, Any]:
    """By name or place; of an array its numbers: two arrays are not equal or unequal, but each of
    their numbers.
    """
    named = parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters)
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in named
    }


def _fetched(
    connection: BaseDatabaseWrapper, statement: str, parameters: Parameters, *, is_fixed: bool
) -> list[Row]:
    is_prepared = is_fixed and not settings.BEHIND_POOLER
    with _raw(connection, prepares=is_prepared) as raw:
        answer = _executed(raw, statement, parameters, is_prepared=is_prepared).fetchall()
    if is_fixed:
        _log(connection, statement)
    return answer


@contextmanager
def _raw(connection: BaseDatabaseWrapper, *, prepares: bool) -> Iterator[Any]:
    """psycopg's connection; afterwards it is Django's again."""
    connection.ensure_connection()
    raw = connection.connection
    raw.prepare_threshold = 0 if prepares else None
    try:
        with connection.wrap_database_errors:
            yield raw
    finally:
        raw.prepare_threshold = None


def _executed(
    raw: Any, statement: str, parameters: Parameters, *, is_prepared: bool
) -> "psycopg.Cursor[Row]":
    cursor: psycopg.Cursor[Row] = psycopg.Cursor(raw)
    values = parameters.values() if isinstance(parameters, Mapping) else parameters
    if any(isinstance(value, np.ndarray) for value in values):  # else it copies what it adapts by
        cursor.adapters.register_dumper(np.ndarray, _Ids)
    return cursor.execute(statement.encode(), parameters, prepare=is_prepared, binary=True)


def _end(connection: BaseDatabaseWrapper) -> None:
    connection.connection.close()  # for good: close() alone gives it back to the pool
    connection.close()


def _log(connection: BaseDatabaseWrapper, statement: str) -> None:
    """Who counts what a page asks counts it too."""
    if connection.queries_logged:
        connection.queries_log.append({"sql": statement, "time": ""})
