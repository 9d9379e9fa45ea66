"""Sealed columns, read: of a large chunk only its directory and the bodies of the wanted columns
leave the database.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

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


@dataclass(frozen=True, slots=True)
class Sealed:
    """A chunk: its columns of windows that start in [start_ms, end_ms), not decoded yet, and its
    host samples as bytes.
    """

    start_ms: int
    end_ms: int
    host: bytes | None  # None: not asked for
    directory: Directory | None  # None: it has no windows, or none were asked for
    bodies: dict[str, Bytes]


@dataclass(frozen=True, slots=True)
class _Row:
    """A chunk's row as the database has it; `data` is the beginning of its payload, or all."""

    node_id: int
    start_ms: int
    end_ms: int
    host: bytes | None
    id: int
    version: int
    size: int
    data: bytes

    def directory(self) -> Directory | None:
        return directory.read_directory(self.data, self.size) if self.data else None


def read_chunks(
    node_ids: Sequence[int],
    low: datetime,
    high: datetime,
    names: Sequence[str] | None,
    *,
    with_host: bool = False,
) -> dict[int, list[Sealed]]:
    """Per node the chunks that may hold windows that start in (low, high), oldest first, with the
    named columns.

    None: with all of them; no name: without windows, for host samples alone.
    """
    chunk_rows = _rows(node_ids, low, high, names, with_host=with_host)
    heads = [row.directory() for row in chunk_rows]
    places = [_places(head, names) for head in heads]
    parts = _parts(chunk_rows, places)
    if parts is None:  # sealing or joining came in between: once more, in one statement
        return read_chunks(node_ids, low, high, None, with_host=with_host)
    chunks: dict[int, list[Sealed]] = defaultdict(list)
    for row, head, part, wanted in zip(chunk_rows, heads, parts, places, strict=True):
        bodies = _cut(row.data, part, wanted)
        chunks[row.node_id].append(Sealed(row.start_ms, row.end_ms, row.host, head, bodies))
    return chunks


def _rows(
    node_ids: Sequence[int],
    low: datetime,
    high: datetime,
    names: Sequence[str] | None,
    *,
    with_host: bool,
) -> list[_Row]:
    asked = {
        "node_ids": np.array(node_ids, dtype=np.int64),
        "after": low - SPAN,
        "before": high,
        "ends_after": low,
        "with_host": with_host,
    }
    return [_Row(*row) for row in rows.fetched(FIND, {**asked, **_portion(names)})]


def _portion(names: Sequence[str] | None) -> dict[str, int]:
    """Which payloads come whole at first, and how much of the others."""
    if names is None:
        return {"whole_to": _NO_LIMIT, "head": 0}
    return {"whole_to": WHOLE_BYTES, "head": HEAD_BYTES} if names else {"whole_to": -1, "head": 0}


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


def _parts(
    chunk_rows: Sequence[_Row], places: Sequence[Mapping[str, Place]]
) -> list[list[tuple[int, bytes]]] | None:
    """Of each row what its places need beyond its beginning, as (where it begins, bytes); None when
    one of the rows is no longer what it was.
    """
    parts: list[list[tuple[int, bytes]]] = [[] for _ in chunk_rows]
    spans = [
        (number, *span)
        for number, (row, wanted) in enumerate(zip(chunk_rows, places, strict=True))
        if len(row.data) < row.size
        for span in _spans(wanted.values())
    ]
    bodies = _fetched([(chunk_rows[number], first, end) for number, first, end in spans])
    if bodies is None:
        return None
    for (number, first, _), body in zip(spans, bodies, strict=True):
        parts[number].append((first, body))
    return parts


def _fetched(spans: Sequence[tuple[_Row, int, int]]) -> list[bytes] | None:
    """The bytes of each span; None when one of the rows is no longer what it was."""
    if not spans:
        return []
    asked = [(row.id, row.version, first, end - first) for row, first, end in spans]
    columns = np.array(asked, dtype=np.int64).T
    bodies = rows.fetched(
        PARTS, dict(zip(("ids", "versions", "firsts", "sizes"), columns, strict=True))
    )
    return [body for _, body in sorted(bodies)] if len(bodies) == len(spans) else None


def _cut(
    data: bytes, parts: Sequence[tuple[int, bytes]], places: Mapping[str, Place]
) -> dict[str, Bytes]:
    """The bytes of each place: out of the beginning, or of the part that holds it."""
    bodies: dict[str, Bytes] = {}
    for name, (first, end) in places.items():
        if end <= len(data):
            bodies[name] = data[first:end]
        else:
            begin, part = next(part for part in reversed(parts) if part[0] <= first)
            bodies[name] = memoryview(part)[first - begin : end - begin]
    return bodies
