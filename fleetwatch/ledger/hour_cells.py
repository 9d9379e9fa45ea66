"""The ledger's five-minute pieces as rows: written with the entries that they are pieces of, read
by diagnosis.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate

import numpy as np

from fleetwatch.ledger.judgement import cell_states
from fleetwatch.ledger.judgement.cell_states import NAMES, Table
from fleetwatch.ledger.models import HourCells
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import execute
from fleetwatch.telemetry.directory import compress, decompress

# columns of a payload, 64 bits each and then 32; start_ms from the hour on
_WIDE = ("gpu_id", "job_id")
_NARROW = ("start_ms", *NAMES)
_WIDE_BYTES = 8 * len(_WIDE)
_ROW_BYTES = _WIDE_BYTES + 4 * len(_NARROW)
_READ = (
    "SELECT node_id, hour, payload FROM ledger_hourcells WHERE node_id = ANY(%s) AND hour >= %s AND"
    " hour < %s ORDER BY node_id, hour"
)
_REPLACE = """
INSERT INTO ledger_hourcells (node_id, hour, payload)
SELECT %s, hour, payload FROM unnest(%s::timestamptz[], %s::bytea[]) AS given (hour, payload)
ON CONFLICT (node_id, hour) DO UPDATE SET payload = excluded.payload
"""


def write(node_id: int, cells: Table, hours: Iterable[int], *, start_ms: int, end_ms: int) -> None:
    """Replaces the pieces of these clock hours within [start_ms, end_ms), in the transaction that
    writes their entries.
    """
    wanted = sorted(hours)
    fresh = cell_states.by_hour(cells)
    none = cell_states.joined([])
    payloads = []
    for hour in wanted:
        table = _within(fresh.get(hour, none), start_ms, end_ms)
        if not start_ms <= hour <= end_ms - HOUR_MS:
            # an hour that a closed month's end cuts keeps the pieces of its other side
            kept = read([node_id], hour, hour + HOUR_MS).get(node_id, none)
            table = cell_states.joined(
                [table, _within(kept, hour, start_ms), _within(kept, end_ms, hour + HOUR_MS)]
            )
        payloads.append(_packed(table, hour))
    execute(_REPLACE, [node_id, list(map(from_ms, wanted)), payloads])


def read(node_ids: Sequence[int], start_ms: int, end_ms: int) -> dict[int, Table]:
    """Node -> its pieces in the clock hours of [start_ms, end_ms), sorted by start, GPU and job; a
    node without any is left out.
    """
    rows = fetched(_READ, [list(node_ids), from_ms(start_ms), from_ms(end_ms)])
    if not rows:
        return {}
    nodes, hours, payloads = zip(*rows, strict=True)
    table, bounds = _unpacked(payloads, list(map(to_ms, hours)))
    first = np.flatnonzero(np.diff(nodes, prepend=nodes[0] - 1)).tolist()
    return {
        nodes[row]: {name: values[bounds[row] : bounds[end]] for name, values in table.items()}
        for row, end in zip(first, [*first[1:], len(nodes)], strict=True)
    }


def forget(before: datetime) -> int:
    """How many hours of pieces were deleted: of hours whose windows are gone nothing is diagnosed
    any more.
    """
    return HourCells.objects.filter(hour__lt=before).delete()[0]


def _within(table: Table, start_ms: int, end_ms: int) -> Table:
    inside = (table["start_ms"] >= start_ms) & (table["start_ms"] < end_ms)
    return {name: values[inside] for name, values in table.items()}


def _packed(table: Table, hour: int) -> bytes:
    """The columns in one zstd frame: to look for the best encoding of so few values takes eight
    times as long, and saves nothing.
    """
    columns = table | {"start_ms": table["start_ms"] - hour}
    return compress(
        b"".join(
            columns[name].astype(width).tobytes()
            for names, width in ((_WIDE, "<i8"), (_NARROW, "<i4"))
            for name in names
        )
    )


def _unpacked(payloads: Sequence[bytes], hours: Sequence[int]) -> tuple[Table, list[int]]:
    """The rows of all of them, one after the other, and where each one's begin and the last one's
    end.

    Of all at once: a fleet's hours are thousands of small tables.
    """
    whole = [decompress(payload) for payload in payloads]
    counts = [len(data) // _ROW_BYTES for data in whole]
    wide = []
    narrow = []
    for data, count in zip(whole, counts, strict=True):
        first = _WIDE_BYTES * count
        wide.append(np.frombuffer(data[:first], dtype="<i8").reshape(len(_WIDE), count))
        narrow.append(np.frombuffer(data[first:], dtype="<i4").reshape(len(_NARROW), count))
    columns = (*np.concatenate(wide, axis=1), *np.concatenate(narrow, axis=1).astype(np.int64))
    table: Table = dict(zip((*_WIDE, *_NARROW), columns, strict=True))
    table["start_ms"] += np.repeat(np.array(hours, dtype=np.int64), counts)
    return table, [0, *accumulate(counts)]
