"""Windows of hours that go on, kept by the process that reads them every other minute: then only
what came since is fetched and decoded. What is kept is used as long as it is what would be read.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from fleetwatch.telemetry.window_tables import Table

# One that nobody asked for since has made way when room is wanted: the hour turned, or another
# process has the node.
STALE_S = 600.0

# From when on, and which columns.
Asked = tuple[int, tuple[str, ...]]
# A batch: its id, and what it says of itself; a chunk: its id and version.
BatchKey = tuple[int, int, int]
ChunkKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """A node's windows, and the batches and chunks that they were read from."""

    asked: Asked
    batches: frozenset[BatchKey]
    chunks: tuple[ChunkKey, ...]
    table: Table

    @property
    def size(self) -> int:
        """Bytes of its arrays; one value all over takes none."""
        return sum(values.nbytes for values in self.table.values() if any(values.strides))


class KeptWindows:
    """The windows of as many nodes as take `most_bytes`; of more nodes the others are read
    again.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._nodes: dict[int, tuple[float, Kept]] = {}

    def of_nodes(self, node_ids: Iterable[int], asked: Asked) -> dict[int, Kept]:
        """What is kept of them for that."""
        kept = {node_id: self._nodes[node_id][1] for node_id in node_ids if node_id in self._nodes}
        return {node_id: each for node_id, each in kept.items() if each.asked == asked}

    def keep(self, node_id: int, kept: Kept) -> None:
        """Instead of what is kept of the node; where there is no room nothing is."""
        self._forget(node_id)
        if self._bytes + kept.size > self._most_bytes:
            stale_s = time.monotonic() - STALE_S
            for other, (used_s, _) in list(self._nodes.items()):
                if used_s < stale_s:
                    self._forget(other)
        if self._bytes + kept.size <= self._most_bytes:
            self._nodes[node_id] = time.monotonic(), kept
            self._bytes += kept.size

    def _forget(self, node_id: int) -> None:
        if node_id in self._nodes:
            self._bytes -= self._nodes.pop(node_id)[1].size
