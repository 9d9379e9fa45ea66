"""Parts of runs as bytes, as the database sends and takes them: compared whole, and nothing is
written as text or parsed.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg.postgres import types

from fleetwatch.ledger.judgement.observations import NOBODY, Ints, Judgement
from fleetwatch.ledger.policy import CONDITIONS, FIGURES, STATES
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.lib.rows import array_of, fetched
from fleetwatch.lib.spans import Span

Rows = NDArray[np.void]
Hour = TypeVar("Hour")

_COLUMNS = [
    ("gpu_id", ">i8"), ("start_ms", ">i8"), ("end_ms", ">i8"), ("continues", "?"),
    ("state_ms", array_of(">i4", len(STATES))), ("figures", array_of(">f8", len(FIGURES))),
]  # fmt: skip
# A row of the table without its node: what is compared.
_KEYED = [*_COLUMNS, ("job_id", ">i8"), ("condition", ">i2")]
_ROW = np.dtype(_KEYED)
NO_ROWS: Rows = np.zeros(0, dtype=_ROW)
# A row as it is stored: with its id, which no comparison looks at.
_STORED_ROW = np.dtype([*_KEYED, ("id", ">i8")])
NONE_STORED: Rows = np.zeros(0, dtype=_STORED_ROW)
_COPIED_NAMES = ("node_id", *(name for name, _ in _COLUMNS), "job_id", "condition")
# https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT
_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_NULL = -1  # as a length
_COPY = f"COPY ledger_run ({', '.join(_COPIED_NAMES)}) FROM STDIN (FORMAT BINARY)"

# a part lies within one hour: the lower bound on its end only lets the index be used
_STORED = """
SELECT node_id, string_agg(
    int8send(gpu_id) || int8send(start_ms) || int8send(end_ms) || boolsend(continues)
    || array_send(state_ms) || array_send(figures)
    || int8send(coalesce(job_id, %(nobody)s))
    || int2send(coalesce(array_position(%(conditions)s::varchar[], condition), 0)::smallint)
    || int8send(id), ''
)
FROM ledger_run
WHERE node_id = ANY(%(node_ids)s) AND end_ms > %(start_ms)s AND end_ms <= %(end_ms)s
AND start_ms >= %(start_ms)s
GROUP BY node_id
"""


def judged_rows(judged: Judgement, *, within: Span) -> Rows:
    """The judged parts that begin within the span, in their order."""
    start_ms = judged.parts.start_ms
    parts = judged.parts.where((start_ms >= within[0]) & (start_ms < within[1]))
    rows: Rows = np.zeros(len(parts.start_ms), dtype=_ROW)
    for name in ("gpu_id", "start_ms", "end_ms", "continues", "job_id"):
        rows[name] = getattr(parts, name)
    rows["condition"] = parts.condition + 1
    _fill(rows["state_ms"], parts.state_ms, "int4")
    _fill(rows["figures"], parts.figures, "float8")
    return _ordered(rows)


def stored_rows(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Rows]:
    """Each node's stored parts of [start_ms, end_ms), in their order."""
    wanted = {
        "node_ids": np.array(node_ids, dtype=np.int64),
        "start_ms": start_ms,
        "end_ms": end_ms,
        "nobody": NOBODY,
        "conditions": list(CONDITIONS),
    }
    stored = dict.fromkeys(node_ids, NONE_STORED)
    for node_id, packed in fetched(_STORED, wanted):
        stored[node_id] = _ordered(np.frombuffer(packed, dtype=_STORED_ROW))
    return stored


def as_bytes(rows: Rows) -> bytes:
    """The rows one after the other, without ids."""
    if rows.dtype == _ROW:
        return rows.tobytes()
    every = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), rows.dtype.itemsize)
    return every[:, : _ROW.itemsize].tobytes()


class Difference(NamedTuple):
    """What is to be done to an hour's rows: those that are new, and the ids of those that go."""

    new: Rows
    gone: list[int]


def difference(stored: Rows, judged: Rows) -> Difference:
    """What makes the judged rows, no two of which are alike, of the stored ones."""
    was = _each(stored)
    now = _each(judged)
    kept = set(was) & set(now)
    if len(set(was)) < len(was):
        kept = set()  # one that is there twice goes, whichever it is
    is_new = np.array([row not in kept for row in now], dtype=bool)
    ids = zip(was, stored["id"].tolist(), strict=True)
    return Difference(judged[is_new], [run_id for row, run_id in ids if row not in kept])


def _each(rows: Rows) -> list[bytes]:
    data = as_bytes(rows)
    return [data[at : at + _ROW.itemsize] for at in range(0, len(data), _ROW.itemsize)]


def by_hour(rows: Rows) -> dict[int, Rows]:
    """Clock hour -> its rows; `rows` are in their order."""
    hours, first = np.unique(_hours(rows), return_index=True)
    return dict(zip(hours.tolist(), np.split(rows, first[1:]), strict=True)) if len(rows) else {}


def differing(
    stored: Mapping[int, Hour], judged: Mapping[int, Hour], none: Hour, key: Callable[[Hour], Any]
) -> dict[int, Hour]:
    """The judged rows of every hour whose stored rows are not exactly these, by the key; `none` of
    an hour is without rows.
    """
    return {
        hour: rows
        for hour in sorted(stored.keys() | judged.keys())
        if key(rows := judged.get(hour, none)) != key(stored.get(hour, none))
    }


def copy(parts: Mapping[int, Mapping[int, Rows]]) -> None:
    """Appends the nodes' rows to the table."""
    counts = {node_id: sum(map(len, hours.values())) for node_id, hours in parts.items()}
    node_ids = np.repeat(np.array([*counts], dtype=np.int64), [*counts.values()])
    if not len(node_ids):
        return
    # as bytes: numpy would compare every column of every hour before it joins two
    rows = np.frombuffer(
        b"".join(some.tobytes() for hours in parts.values() for some in hours.values()), dtype=_ROW
    )
    payload = _BEGIN + b"".join(_by_kind(node_ids, rows)) + _END
    with connection.cursor() as cursor, cursor.copy(_COPY) as sink:
        sink.write(payload)


def _by_kind(node_ids: Ints, rows: Rows) -> Iterator[bytes]:
    """The rows as COPY takes them, those of one condition, held or not, together."""
    kind = 2 * rows["condition"] + (rows["job_id"] != NOBODY)
    for number in np.unique(kind).tolist():
        condition, is_held = divmod(number, 2)
        own = kind == number
        yield _copied(node_ids[own], rows[own], CONDITIONS[condition - 1], is_held=bool(is_held))


def _copied(node_ids: Ints, rows: Rows, condition: str, *, is_held: bool) -> bytes:
    """Rows of one condition, held or not, as COPY takes them, without its head and end."""
    copied: Rows = np.zeros(len(rows), dtype=_copied_row(condition, is_held=is_held))
    values: dict[str, Any] = {name: rows[name] for name in _ROW.names or ()}
    values |= {"node_id": node_ids, "condition": condition}
    copied["columns"] = len(_COPIED_NAMES)
    for name in _COPIED_NAMES:
        length = copied.dtype[name].itemsize
        copied[f"length of {name}"] = length or _NULL
        if length:
            copied[name] = values[name]
    return copied.tobytes()


@cache
def _copied_row(condition: str, *, is_held: bool) -> np.dtype[np.void]:
    """A row as COPY takes it: each column after its length; nothing follows that of a NULL."""
    kinds = dict(_COLUMNS) | {
        "node_id": ">i8",
        "job_id": ">i8" if is_held else "V0",
        "condition": f"S{len(condition)}",
    }
    fields: list[tuple[str, Any]] = [("columns", ">i2")]
    for name in _COPIED_NAMES:
        fields += [(f"length of {name}", ">i4"), (name, kinds[name])]
    return np.dtype(fields)


def _fill(array: Any, values: Any, kind: str) -> None:
    array["dimensions"] = array["lower_bound"] = 1
    array["type"] = types[kind].oid
    array["count"] = values.shape[1]
    array["each"]["length"] = array.dtype["each"].base["value"].itemsize
    array["each"]["value"] = values


def _ordered(rows: Rows) -> Rows:
    """By clock hour, GPU, start, holder, condition and end: as no two parts are alike."""
    keys = ("end_ms", "condition", "job_id", "start_ms", "gpu_id")
    return rows[np.lexsort([*(rows[name] for name in keys), _hours(rows)])]


def _hours(rows: Rows) -> Ints:
    start_ms: Ints = rows["start_ms"].astype(np.int64)
    return start_ms // HOUR_MS * HOUR_MS
