"""Rows with large bytes in them, fetched as they are; ids by the ten thousand, sent as they are."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
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


def fetched(statement: str, parameters: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a SELECT, in the binary protocol: Django's own cursor would have every byte sent
    as two hex digits.
    """
    connection = replica.reading()
    connection.ensure_connection()
    with psycopg.Cursor(connection.connection) as cursor:
        cursor.adapters.register_dumper(np.ndarray, _Ids)
        cursor.execute(statement.encode(), parameters, binary=True)
        return cursor.fetchall()
