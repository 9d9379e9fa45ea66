"""How much of its nodes' memory a job used at most, as their agents read it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleetwatch.jobs.models import Hold, Job
from fleetwatch.jobs.selectors import holds
from fleetwatch.lib.intervals import DAY_MS
from fleetwatch.telemetry import frames

COLUMN = "job_memory_bytes"
# Windows that a page reads, all nodes together: of a longer job its end, where what leaks is most.
MOST_NODE_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The largest reading of each node, added up, as the request is for all of them."""

    most_bytes: float
    nodes: int  # that it was read of
    held_nodes: int  # that the job held GPUs of
    cut_ms: int | None  # how much of its end was looked at; None = all of the job


def most_memory(job: Job) -> MemoryUse | None:
    """While it held GPUs; None where no agent read it, or it is not kept any longer."""
    by_node: dict[int, list[Hold]] = defaultdict(list)
    for hold in holds(job):
        by_node[hold.gpu.node_id].append(hold)
    spans = [span for of_node in by_node.values() for hold in of_node for span in hold.held]
    if not spans:
        return None
    first_ms = min(start_ms for start_ms, _ in spans)
    last_ms = max(end_ms for _, end_ms in spans)
    since_ms = max(first_ms, last_ms - MOST_NODE_MS // len(by_node))
    most = _by_node(by_node, since_ms, last_ms)
    cut_ms = last_ms - since_ms if since_ms > first_ms else None
    return MemoryUse(sum(most.values()), len(most), len(by_node), cut_ms) if most else None


def _by_node(by_node: Mapping[int, Sequence[Hold]], start_ms: int, end_ms: int) -> dict[int, float]:
    """The largest reading of each node that has any."""
    most: dict[int, float] = {}
    for node_id, part in frames.parts_of_nodes(list(by_node), start_ms, end_ms, [COLUMN]):
        largest = _largest(part, by_node[node_id])
        if largest is not None:
            most[node_id] = max(largest, most.get(node_id, largest))
    return most


def _largest(part: frames.Frame, held: Sequence[Hold]) -> float | None:
    """Of the windows that lie within the holds: one that crosses an end is another job's too."""
    values = part.columns[COLUMN]
    is_its = np.zeros(len(part), dtype=bool)
    for hold in held:
        is_its |= (part.gpu_id == hold.gpu_id) & _lie_within(part, hold.held)
    read = values[is_its & ~np.isnan(values)]
    return float(read.max()) if len(read) else None


def _lie_within(part: frames.Frame, spans: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Which windows do, of spans in order: what comes and goes has a thousand in a week."""
    if not spans:
        return np.zeros(len(part), dtype=bool)
    starts_ms, ends_ms = np.array(spans, dtype=np.int64).T
    place = np.searchsorted(starts_ms, part.start_ms, side="right") - 1
    is_within: NDArray[np.bool_] = (place >= 0) & (part.end_ms <= ends_ms[place])
    return is_within
