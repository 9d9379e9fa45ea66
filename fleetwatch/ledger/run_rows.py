"""Parts of runs of an hour cut as the database sends and takes them, a row for each GPU and holder:
compared whole, and nothing is written as text or parsed.
"""

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg.postgres import types

from fleetwatch.ledger.judgement.observations import NOBODY, Floats, Ints, Judgement, RunParts
from fleetwatch.ledger.models import Run
from fleetwatch.ledger.policy import CONDITIONS, FIGURES, STATES
from fleetwatch.lib.intervals import floor_hour_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.spans import Span

Given = TypeVar("Given")


class _Array(NamedTuple):
    """A column that has `width` numbers of each part."""

    kind: str  # of an element, as the database names it
    element: np.dtype[np.void]  # as array_send packs it
    width: int

    @property
    def part_bytes(self) -> int:
        return self.width * self.element.itemsize


def _array(kind: str, number: str, width: int = 1) -> _Array:
    return _Array(kind, np.dtype([("length", ">i4"), ("value", number)]), width)


# in the order of _STORED and _values
_ARRAYS = {
    "conditions": _array("int2", ">i2"),
    "begins": _array("int4", ">i4"),
    "ends": _array("int4", ">i4"),
    "continues": _array("bool", "?"),
    "state_ms": _array("int4", ">i4", len(STATES)),
    "figures": _array("float8", ">f8", len(FIGURES)),
}
# https://github.com/postgres/postgres/blob/REL_18_STABLE/src/backend/utils/adt/arrayfuncs.c
# (array_send): dimensions, whether there are NULLs, type of the elements; length and lower bound of
# the one dimension
_ARRAY_HEAD = struct.Struct(">iiIii")
# https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-BINARY-FORMAT
_BEGIN = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_END = struct.pack(">h", -1)
_NULL = -1  # as a length
_NAMES = ("node_id", "gpu_id", "cut_ms", "in_trouble", "job_id", *_ARRAYS)
_COPY = f"COPY ledger_hourruns ({', '.join(_NAMES)}) FROM STDIN (FORMAT BINARY)"
# each after its length; nothing follows that of a NULL
_HEAD = struct.Struct(">hiqiqiqi?i")
_JOB = struct.Struct(">q")

_STORED = """
SELECT node_id, cut_ms, gpu_id, coalesce(job_id, %(nobody)s), id,
       array_send(conditions) || array_send(begins) || array_send(ends) || array_send(continues)
       || array_send(state_ms) || array_send(figures)
FROM ledger_hourruns
WHERE node_id = ANY(%(node_ids)s) AND cut_ms >= %(start_ms)s AND cut_ms < %(end_ms)s
"""
_TROUBLES = (CONDITIONS.index("spinning"), CONDITIONS.index("orphaned"))
_QUIET = CONDITIONS.index("quiet")
_IDLE = STATES.index("idle")


class Row(NamedTuple):
    """The parts of a GPU and holder (NOBODY: nobody) in a cut: their columns as array_send packs
    them, one after the other.
    """

    cut_ms: int
    gpu_id: int
    job_id: int
    packed: bytes
    parts: int
    in_trouble: bool

    @property
    def compared(self) -> tuple[int, int, int, bytes]:
        """What makes it the same as a stored one."""
        return self[:4]


class Stored(NamedTuple):
    """The same, as it is stored."""

    cut_ms: int
    gpu_id: int
    job_id: int
    packed: bytes
    id: int

    @property
    def compared(self) -> tuple[int, int, int, bytes]:
        """What makes it the same as a judged one."""
        return self[:4]


# by clock hour
Rows = dict[int, list[Row]]
StoredRows = dict[int, list[Stored]]


def judged_rows(judged: Judgement, *, within: Span) -> Rows:
    """The rows of the cuts that begin within the span."""
    return rows(_of_cuts(judged.parts, within))


def rows_of_nodes(judged: Mapping[int, Judgement], *, within: Span) -> dict[int, Rows]:
    """The same of each node, made all at once; no GPU is in two of them."""
    nodes: dict[int, Rows] = {node_id: defaultdict(list) for node_id in judged}
    if not judged:
        return nodes
    node_of = {
        gpu_id: node_id
        for node_id, of_node in judged.items()
        for gpu_id in np.unique(of_node.parts.gpu_id).tolist()
    }
    parts = RunParts.together([of_node.parts for of_node in judged.values()])
    for row in _rows(_of_cuts(parts, within)):
        nodes[node_of[row.gpu_id]][floor_hour_ms(row.cut_ms)].append(row)
    return nodes


def rows(parts: RunParts) -> Rows:
    """The parts, in any order, as rows."""
    hours: Rows = defaultdict(list)
    for row in _rows(parts):
        hours[floor_hour_ms(row.cut_ms)].append(row)
    return hours


def _of_cuts(parts: RunParts, within: Span) -> RunParts:
    return parts.where((parts.cut_ms >= within[0]) & (parts.cut_ms < within[1]))


def _rows(parts: RunParts) -> Iterator[Row]:
    """By cut, GPU and holder."""
    parts = parts.where(np.lexsort(_keys(parts)))
    first = _first_of_rows(parts)
    counts = np.diff(first, append=len(parts.cut_ms))
    return map(
        Row,
        parts.cut_ms[first].tolist(),
        parts.gpu_id[first].tolist(),
        parts.job_id[first].tolist(),
        _packed(parts, first, counts),
        counts.tolist(),
        _any_in_trouble(parts, first),
    )


def as_parts(runs: Sequence[Run]) -> RunParts:
    """What the rows of the view say, as columns."""

    def numbers(name: str) -> Ints:
        return np.array([getattr(run, name) for run in runs], dtype=np.int64)

    return RunParts(
        gpu_id=numbers("gpu_id"),
        job_id=np.array([run.job_id or NOBODY for run in runs], dtype=np.int64),
        cut_ms=numbers("cut_ms"),
        condition=np.array([CONDITIONS.index(run.condition) for run in runs], dtype=np.int64),
        start_ms=numbers("start_ms"),
        end_ms=numbers("end_ms"),
        continues=numbers("continues") != 0,
        state_ms=_table([run.state_ms for run in runs], STATES).astype(np.int64),
        figures=_table([run.figures for run in runs], FIGURES),
    )


def _table(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Floats:
    """Rows x names; 0 where a name is missing. Whole numbers up to 2 ** 53 stay what they are."""
    values = [[row.get(name, 0) for name in names] for row in rows]
    return np.array(values, dtype=np.float64).reshape(len(rows), len(names))


def stored_rows(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, StoredRows]:
    """Each node's stored rows of the cuts that begin in [start_ms, end_ms)."""
    wanted = {
        "node_ids": np.array(node_ids, dtype=np.int64),
        "start_ms": start_ms,
        "end_ms": end_ms,
        "nobody": NOBODY,
    }
    stored: dict[int, StoredRows] = {node_id: defaultdict(list) for node_id in node_ids}
    for node_id, cut_ms, gpu_id, job_id, row_id, packed in fetched(_STORED, wanted):
        row = Stored(cut_ms, gpu_id, job_id, packed, row_id)
        stored[node_id][floor_hour_ms(cut_ms)].append(row)
    return stored


def compared(rows: Iterable[Row | Stored]) -> list[tuple[int, int, int, bytes]]:
    """What makes an hour's rows the same as others."""
    return sorted(row.compared for row in rows)


class Difference(NamedTuple):
    """What is to be done to an hour's rows: those that are new, and the ids of those that go."""

    new: list[Row]
    gone: list[int]


def difference(stored: Sequence[Stored], judged: Sequence[Row]) -> Difference:
    """What makes the judged rows, no two of which are alike, of the stored ones."""
    was = {row.compared for row in stored}
    kept = was & {row.compared for row in judged}
    if len(was) < len(stored):
        kept = set()  # one that is there twice goes, whichever it is
    return Difference(
        [row for row in judged if row.compared not in kept],
        [row.id for row in stored if row.compared not in kept],
    )


def differing(
    stored: Mapping[int, Sequence[Any]],
    judged: Mapping[int, list[Given]],
    key: Callable[[Sequence[Any]], Any],
) -> dict[int, list[Given]]:
    """The judged rows of every hour whose stored rows are not exactly these, by the key."""
    return {
        hour: judged.get(hour, [])
        for hour in sorted(stored.keys() | judged.keys())
        if key(judged.get(hour, [])) != key(stored.get(hour, []))
    }


def count_parts(hours: Mapping[int, Iterable[Row]]) -> int:
    """How many parts of runs there are in all rows."""
    return sum(row.parts for rows in hours.values() for row in rows)


def copy(hours: Mapping[int, Mapping[int, Iterable[Row]]]) -> None:
    """Appends the nodes' rows, by clock hour, to the table."""
    every = [
        (node_id, row)
        for node_id, of_node in hours.items()
        for rows in of_node.values()
        for row in rows
    ]
    if every:
        columns = _copied([row for _, row in every])
        copied = [
            _copied_head(node_id, row) + own
            for (node_id, row), own in zip(every, columns, strict=True)
        ]
        with connection.cursor() as cursor, cursor.copy(_COPY) as sink:
            sink.write(b"".join((_BEGIN, *copied, _END)))


def _copied_head(node_id: int, row: Row) -> bytes:
    """The row as COPY takes it, up to its arrays."""
    is_held = row.job_id != NOBODY
    head = _HEAD.pack(
        len(_NAMES), 8, node_id, 8, row.gpu_id, 8, row.cut_ms, 1, row.in_trouble,
        _JOB.size if is_held else _NULL,
    )  # fmt: skip
    return head + _JOB.pack(row.job_id) if is_held else head


def _copied(rows: Sequence[Row]) -> list[bytes]:
    """The arrays of each row as COPY takes them: each after its length."""
    alike: dict[int, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        alike[row.parts].append(number)
    copied = [b""] * len(rows)
    for parts, numbers in alike.items():
        _put(copied, numbers, _after_lengths([rows[number].packed for number in numbers], parts))
    return copied


def _after_lengths(packed: Sequence[bytes], parts: int) -> NDArray[np.void]:
    """Rows of so many parts: each of their arrays after its length."""
    sizes = {name: _ARRAY_HEAD.size + parts * array.part_bytes for name, array in _ARRAYS.items()}
    layout: list[tuple[str, str]] = []
    for name, size in sizes.items():
        layout += ((_length_of(name), ">i4"), (name, f"V{size}"))
    stored = np.frombuffer(
        b"".join(packed), dtype=[(name, f"V{size}") for name, size in sizes.items()]
    )
    sent = np.empty(len(packed), dtype=layout)
    for name, size in sizes.items():
        sent[_length_of(name)] = size
        sent[name] = stored[name]
    return sent


def _length_of(name: str) -> str:
    return f"length of {name}"


def _put(rows: list[bytes], numbers: Sequence[int], packed: NDArray[np.void]) -> None:
    """The bytes of each row of the array to its place among the rows."""
    data = packed.tobytes()
    size = packed.itemsize
    for place, number in enumerate(numbers):
        rows[number] = data[place * size : (place + 1) * size]


def _keys(parts: RunParts) -> tuple[Ints, ...]:
    """What parts are in order of, the last first: no two of them are alike."""
    return (
        parts.end_ms, parts.condition, parts.start_ms, parts.job_id, parts.gpu_id, parts.cut_ms
    )  # fmt: skip


def _first_of_rows(parts: RunParts) -> Ints:
    """Where each row begins."""
    if not len(parts.cut_ms):
        return np.zeros(0, dtype=np.int64)
    is_first = np.ones(len(parts.cut_ms), dtype=bool)
    is_first[1:] = False
    for key in (parts.cut_ms, parts.gpu_id, parts.job_id):
        is_first[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(is_first)


def _any_in_trouble(parts: RunParts, first: Ints) -> list[bool]:
    """Of the rows that begin there whether some part is in trouble."""
    is_idle = (parts.condition == _QUIET) & (parts.state_ms[:, _IDLE] > 0)
    in_trouble = np.isin(parts.condition, _TROUBLES) | is_idle
    return np.logical_or.reduceat(in_trouble, first).tolist() if len(first) else []


def _values(parts: RunParts) -> tuple[NDArray[Any], ...]:
    """The columns of _ARRAYS."""
    return (
        parts.condition,
        parts.start_ms - parts.cut_ms,
        parts.end_ms - parts.cut_ms,
        parts.continues,
        parts.state_ms,
        parts.figures,
    )


def _packed(parts: RunParts, first: Ints, counts: Ints) -> list[bytes]:
    """Of each row, which begins with this `first` part and has so many, the columns as array_send
    packs them, one after the other; rows of as many parts at once.
    """
    columns = {
        name: _elements(values, array)
        for (name, array), values in zip(_ARRAYS.items(), _values(parts), strict=True)
    }
    packed = [b""] * len(first)
    for count in np.unique(counts).tolist():
        numbers = np.flatnonzero(counts == count)
        place = first[numbers, np.newaxis] + np.arange(count)
        rows = np.empty(len(numbers), dtype=_packed_row(count))
        for name, elements in columns.items():
            rows[_head_of(name)] = _array_head(_ARRAYS[name], count)
            rows[name] = elements[place]
        _put(packed, numbers.tolist(), rows)
    return packed


def _elements(values: NDArray[Any], array: _Array) -> NDArray[np.void]:
    """A column's elements of each part as array_send packs them, without a head."""
    elements = np.empty(values.size, dtype=array.element)
    elements["length"] = array.element["value"].itemsize
    elements["value"] = values.ravel()
    return elements.view(f"V{array.part_bytes}")


@lru_cache(maxsize=1024)
def _packed_row(parts: int) -> np.dtype[np.void]:
    """A row of so many parts, as it is packed."""
    return np.dtype(
        [
            field
            for name, array in _ARRAYS.items()
            for field in (
                (_head_of(name), f"V{_ARRAY_HEAD.size}"),
                (name, f"V{array.part_bytes}", (parts,)),
            )
        ]
    )


def _array_head(array: _Array, parts: int) -> np.void:
    return np.void(_ARRAY_HEAD.pack(1, 0, types[array.kind].oid, parts * array.width, 1))


def _head_of(name: str) -> str:
    return f"head of {name}"
