"""Parts of runs as bytes, as the database sends and takes them: compared whole, and nothing is
written as text or parsed.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

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
_ROW = np.dtype([*_COLUMNS, ("job_id", ">i8"), ("condition", ">i2")])
NO_ROWS: Rows = np.zeros(0, dtype=_ROW)
_COPIED_NAMES = ("node_id", *(name for name, _ in _COLUMNS), "job_id", "condition")
# https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT
_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_NULL = -1  # as a length
_COPY = f"COPY ledger_run ({', '.join(_COPIED_NAMES)}) FROM STDIN (FORMAT BINARY)"

# a part lies within one hour: the lower bound on its end only lets the index be used
_STORED = """
SELECT string_agg(
    int8send(gpu_id) || int8send(start_ms) || int8send(end_ms) || boolsend(continues)
    || array_send(state_ms) || array_send(figures)
    || int8send(coalesce(job_id, %(nobody)s))
    || int2send(coalesce(array_position(%(conditions)s::varchar[], condition), 0)::smallint), ''
)
FROM ledger_run
WHERE node_id = %(node_id)s AND end_ms > %(start_ms)s AND end_ms <= %(end_ms)s
AND start_ms >= %(start_ms)s
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


def stored_rows(node_id: int, start_ms: int, end_ms: int) -> Rows:
    """The stored parts of [start_ms, end_ms), in their order."""
    wanted = {
        "node_id": node_id,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "nobody": NOBODY,
        "conditions": list(CONDITIONS),
    }
    (packed,) = fetched(_STORED, wanted)[0]
    return _ordered(np.frombuffer(packed or b"", dtype=_ROW))


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


def copy(node_id: int, hours: Mapping[int, Rows]) -> None:
    """Appends the rows to the table."""
    if not any(map(len, hours.values())):
        return
    rows = np.concatenate(list(hours.values()))
    kind = 2 * rows["condition"] + (rows["job_id"] != NOBODY)
    payload = _BEGIN
    for number in np.unique(kind).tolist():
        condition, is_held = divmod(number, 2)
        some = rows[kind == number]
        payload += _copied(node_id, some, CONDITIONS[condition - 1], is_held=bool(is_held))
    with connection.cursor() as cursor, cursor.copy(_COPY) as sink:
        sink.write(payload + _END)


def _copied(node_id: int, rows: Rows, condition: str, *, is_held: bool) -> bytes:
    """Rows of one condition, held or not, as COPY takes them, without its head and end."""
    copied: Rows = np.zeros(len(rows), dtype=_copied_row(condition, is_held=is_held))
    values: dict[str, Any] = {name: rows[name] for name in _ROW.names or ()}
    values |= {"node_id": node_id, "condition": condition}
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
