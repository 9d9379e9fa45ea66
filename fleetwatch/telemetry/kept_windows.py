"""Windows of hours that go on, kept by the process that reads them every other minute: then only
what came since is fetched and decoded. What is kept is used as long as it is what would be read.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fleetwatch.telemetry.window_tables import Table, begins_after, joined

# One that nobody asked for since has made way when room is wanted: the hour turned, or another
# process has the node.
STALE_S = 600.0

# Tables of one node, before they are joined into one: each posting of the hour adds one.
MOST_TABLES = 8

# A batch: its id, and what it says of itself; a chunk: its id and version.
BatchKey = tuple[int, int, int]
ChunkKey = tuple[int, int]


class Asked(NamedTuple):
    """From when on windows are asked for, and which of their columns."""

    start_ms: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A node's windows, and the batches and chunks that they were read from.

    `tables`: at least one; each begins after the one before it, and is sorted. `size`: bytes of
    their arrays.
    """

    asked: Asked
    batches: frozenset[BatchKey]
    chunks: tuple[ChunkKey, ...]
    tables: tuple[Table, ...]
    size: int

    @classmethod
    def of(
        cls,
        asked: Asked,
        batches: Iterable[BatchKey],
        chunks: tuple[ChunkKey, ...],
        tables: Sequence[Table],
    ) -> "Kept":
        """The windows of the tables."""
        whole = joined(tables)
        return cls(asked, frozenset(batches), chunks, (whole,), _size(whole))

    def is_part_of(self, batches: Iterable[BatchKey], chunks: tuple[ChunkKey, ...]) -> bool:
        """Whether it would be read of these batches, maybe with more of them, and these chunks."""
        return self.chunks == chunks and self.batches.issubset(batches)

    def grown(self, batches: Iterable[BatchKey], table: Table) -> "Kept":
        """With the windows of these batches too."""
        if not len(table["start_ms"]):
            return self
        more = joined([table])
        every = self.batches.union(batches)
        if len(self.tables) == MOST_TABLES or not begins_after(more, self.tables[-1]):
            return Kept.of(self.asked, every, self.chunks, [*self.tables, more])
        tables = (*self.tables, more)
        return replace(self, batches=every, tables=tables, size=self.size + _size(more))


def _size(table: Table) -> int:
    """Bytes of its arrays; one value all over takes none."""
    return sum(values.nbytes for values in table.values() if any(values.strides))


class KeptWindows:
    """The windows of as many nodes as take `most_bytes`; of more nodes the others are read
    again.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: dict[tuple[int, Asked], tuple[float, Kept]] = {}

    def of_nodes(self, node_ids: Iterable[int], asked: Asked) -> dict[int, Kept]:
        """What is kept of them for that."""
        places = [(node_id, asked) for node_id in node_ids]
        return {place[0]: self._kept[place][1] for place in places if place in self._kept}

    def keep(self, node_id: int, kept: Kept) -> None:
        """Instead of what is kept of the node for the same; where there is no room nothing is."""
        self._forget((node_id, kept.asked))
        if self._bytes + kept.size > self._most_bytes:
            stale_s = time.monotonic() - STALE_S
            for place, (used_s, _) in list(self._kept.items()):
                if used_s < stale_s:
                    self._forget(place)
        if self._bytes + kept.size <= self._most_bytes:
            self._kept[node_id, kept.asked] = time.monotonic(), kept
            self._bytes += kept.size

    def _forget(self, place: tuple[int, Asked]) -> None:
        if place in self._kept:
            self._bytes -= self._kept.pop(place)[1].size
