"""Sealed columns, read: of a large chunk only its directory and the bodies of the wanted columns
leave the database.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from fleetwatch.lib import rows
from fleetwatch.lib.sql import read_statement
from fleetwatch.telemetry import directory
from fleetwatch.telemetry.chunks import SPAN
from fleetwatch.telemetry.directory import Bytes, Directory

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
    """A chunk: its columns of windows, not decoded yet, and its host samples as bytes."""

    host: bytes | None  # None: not asked for
    directory: Directory | None  # None: it has no windows
    bodies: dict[str, Bytes]


class _Row(NamedTuple):
    """A chunk's row as the database has it; `data` is the beginning of its payload, or all."""

    node_id: int
    host: bytes | None
    id: int
    version: int
    size: int
    data: bytes


def read_chunks(
    node_ids: Sequence[int],
    low: datetime,
    high: datetime,
    names: Sequence[str] | None,
    *,
    with_host: bool = False,
) -> dict[int, list[Sealed]]:
    """Per node the chunks that may hold windows that start in (low, high), oldest first, with the
    named columns (None: with all of them).
    """
    chunk_rows = _rows(node_ids, (low, high), is_whole=names is None, with_host=with_host)
    heads = [
        directory.read_directory(row.data, row.size) if row.data else None for row in chunk_rows
    ]
    places = [_places(head, names) for head in heads]
    pieces = _pieces(chunk_rows, places)
    if pieces is None:  # sealing or joining came in between: once more, in one statement
        return read_chunks(node_ids, low, high, None, with_host=with_host)
    chunks: dict[int, list[Sealed]] = defaultdict(list)
    for row, head, parts, wanted in zip(chunk_rows, heads, pieces, places, strict=True):
        chunks[row.node_id].append(Sealed(row.host, head, _cut(parts, wanted)))
    return chunks


def _rows(
    node_ids: Sequence[int], within: tuple[datetime, datetime], *, is_whole: bool, with_host: bool
) -> list[_Row]:
    low, high = within
    asked = {
        "node_ids": np.array(node_ids, dtype=np.int64),
        "after": low - SPAN,
        "before": high,
        "ends_after": low,
        "with_host": with_host,
        "whole_to": _NO_LIMIT if is_whole else WHOLE_BYTES,
        "head": HEAD_BYTES,
    }
    return [_Row(*row) for row in rows.fetched(FIND, asked)]


def _places(head: Directory | None, names: Sequence[str] | None) -> dict[str, Place]:
    if head is None:
        return {}
    return {name: head.place(name) for name in (head if names is None else names) if name in head}


def _spans(places: Iterable[Place]) -> list[Place]:
    """What covers all places beyond the beginning, as few spans."""
    spans: list[Place] = []
    for first, end in sorted(place for place in places if place[1] > HEAD_BYTES):
        if spans and first <= spans[-1][1] + SLACK_BYTES:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((first, end))
    return spans


def _pieces(
    chunk_rows: Sequence[_Row], places: Sequence[Mapping[str, Place]]
) -> list[list[Piece]] | None:
    """Of each row its beginning and the parts beyond it that its places need; None when one of the
    rows is no longer what it was.
    """
    pieces: list[list[Piece]] = [[(0, row.data)] for row in chunk_rows]
    spans = [
        (own, row, first, end)
        for own, row, wanted in zip(pieces, chunk_rows, places, strict=True)
        if len(row.data) < row.size
        for first, end in _spans(wanted.values())
    ]
    parts = _parts([(row.id, row.version, first, end - first) for _, row, first, end in spans])
    if len(parts) < len(spans):
        return None
    for (own, _, first, _), part in zip(spans, parts, strict=True):
        own.append((first, part))
    return pieces


def _parts(asked: Sequence[tuple[int, int, int, int]]) -> list[bytes]:
    """Of each (chunk, version, first byte, length) the bytes, but of chunks that are no longer what
    they were.
    """
    if not asked:
        return []
    columns = np.array(asked, dtype=np.int64).T
    parts = rows.fetched(
        PARTS, dict(zip(("ids", "versions", "firsts", "sizes"), columns, strict=True))
    )
    return [part for _, part in sorted(parts)]


def _cut(pieces: Sequence[Piece], places: Mapping[str, Place]) -> dict[str, Bytes]:
    """The bytes of each place, out of the last piece that begins before it."""
    bodies: dict[str, Bytes] = {}
    for name, (first, end) in places.items():
        begin, piece = next(piece for piece in reversed(pieces) if piece[0] <= first)
        bodies[name] = memoryview(piece)[first - begin : end - begin]
    return bodies
