"""Sealed columns, read: of a large chunk only its directory and the bodies of the wanted columns
leave the database.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fleetwatch.lib import rows
from fleetwatch.lib.intervals import from_ms
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import directory
from fleetwatch.telemetry.chunks import SPAN
from fleetwatch.telemetry.directory import Bytes, Directory
from fleetwatch.telemetry.kept_windows import ChunkKey

FIND = read_statement("telemetry/sql/sealed_columns.sql")
PARTS = read_statement("telemetry/sql/parts_of_payloads.sql")

# A payload up to so long comes whole: that takes less than to ask for parts of it.
WHOLE_BYTES = 65_536
# Postgres keeps so much of a value in one row beside the table; the directory of all columns there
# are takes half of it.
HEAD_BYTES = 1_996
# Bytes between two wanted columns that are fetched with them: a part more costs as much.
SLACK_BYTES = 4_096
_NO_LIMIT = 2**31 - 1

Place = tuple[int, int]
Piece = tuple[int, bytes]  # of a payload: where it begins, its bytes


class Sealed(NamedTuple):
    """A chunk (its id and version): its columns of windows, not decoded yet, and its host samples
    as bytes.
    """

    key: ChunkKey
    host: bytes | None  # None: not asked for
    directory: Directory | None  # None: it has no windows, or none of their columns is asked for
    bodies: dict[str, Bytes]


class _Row(NamedTuple):
    """A chunk's row as the database has it; `data` is the beginning of its payload, or all."""

    node_id: int
    host: bytes | None
    id: int
    version: int
    size: int
    data: bytes


class _Opened(NamedTuple):
    """A chunk's row, where in its payload the wanted columns are, and the pieces of that."""

    row: _Row
    directory: Directory | None
    places: dict[str, Place]
    pieces: list[Piece]


def read_chunks(
    node_ids: Sequence[int],
    within_ms: Span,
    names: Sequence[str] | None,
    *,
    with_host: bool = False,
) -> dict[int, list[Sealed]]:
    """Per node the chunks that may hold windows that start within the time, oldest first, with the
    named columns (None: with all of them).
    """
    asked = _asked(node_ids, within_ms) | _parts_asked(names) | {"with_host": with_host}
    opened = [_opened(_Row(*row), names) for row in rows.fetched(FIND, asked, is_fixed=True)]
    # sealing or joining came in between: once more, in one statement
    if not _fetch_missing(opened):
        return read_chunks(node_ids, within_ms, None, with_host=with_host)
    chunks: dict[int, list[Sealed]] = {node_id: [] for node_id in node_ids}
    for row, head, places, pieces in opened:
        key = row.id, row.version
        chunks[row.node_id].append(Sealed(key, row.host, head, _cut(pieces, places)))
    return chunks


def chunk_keys(node_ids: Sequence[int], within_ms: Span) -> dict[int, tuple[ChunkKey, ...]]:
    """Per node which chunks `read_chunks` would read."""
    asked = _asked(node_ids, within_ms) | _parts_asked(()) | {"with_host": False}
    keys: dict[int, tuple[ChunkKey, ...]] = dict.fromkeys(node_ids, ())
    for row in itertools.starmap(_Row, rows.fetched(FIND, asked, is_fixed=True)):
        keys[row.node_id] += ((row.id, row.version),)
    return keys


def _asked(node_ids: Sequence[int], within_ms: Span) -> dict[str, Any]:
    low, high = map(from_ms, within_ms)
    return {
        "node_ids": np.array(node_ids, dtype=np.int64),
        "after": low - SPAN,
        "before": high,
        "ends_after": low,
    }


def _parts_asked(names: Sequence[str] | None) -> dict[str, int]:
    """Of which payloads all is asked for, and of the others how much of the beginning."""
    if names is None:
        return {"whole_to": _NO_LIMIT, "head": 0}
    if not names:
        return {"whole_to": 0, "head": 0}
    return {"whole_to": WHOLE_BYTES, "head": HEAD_BYTES}


def _opened(row: _Row, names: Sequence[str] | None) -> _Opened:
    if not row.data:
        return _Opened(row, None, {}, [])
    head = directory.read_directory(row.data, row.size)
    places = head.places(head if names is None else names)
    return _Opened(row, head, places, [(0, row.data)])


def _spans(places: Iterable[Place]) -> list[Place]:
    """What covers all places beyond the beginning, as few spans."""
    spans: list[Place] = []
    for first, end in sorted(place for place in places if place[1] > HEAD_BYTES):
        if spans and first <= spans[-1][1] + SLACK_BYTES:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((first, end))
    return spans


def _fetch_missing(opened: Iterable[_Opened]) -> bool:
    """Adds the pieces that places beyond the rows' beginnings need; false where one of the rows is
    no longer what it was.
    """
    missing = [
        (row, pieces, first, end)
        for row, _, places, pieces in opened
        if len(row.data) < row.size
        for first, end in _spans(places.values())
    ]
    if not missing:
        return True
    asked = [(row.id, row.version, first, end - first) for row, _, first, end in missing]
    columns = np.array(asked, dtype=np.int64).T
    parts = rows.fetched(
        PARTS,
        dict(zip(("ids", "versions", "firsts", "sizes"), columns, strict=True)),
        is_fixed=True,
    )
    for number, part in sorted(parts):
        _, pieces, first, _ = missing[number - 1]
        pieces.append((first, part))
    return len(parts) == len(missing)


def _cut(pieces: Sequence[Piece], places: Mapping[str, Place]) -> dict[str, Bytes]:
    """The bytes of each place, out of the last piece that begins before it."""
    views = [(begin, memoryview(piece)) for begin, piece in reversed(pieces)]
    bodies: dict[str, Bytes] = {}
    for name, (first, end) in places.items():
        for begin, view in views:
            if begin <= first:
                bodies[name] = view[first - begin : end - begin]
                break
    return bodies
