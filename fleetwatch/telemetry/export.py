"""Raw windows as tables for other tools: one row per window, in portions of one node and six hours.

Every window that was received is there, overlapping ones of two boots too: `boot_start` and
`sequence` say which batch told it (docs/wire.md says which of two counts).
"""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from agent import wire
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.formulas import defused
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.telemetry import frames
from fleetwatch.telemetry.selectors import kept_ms

METRICS = (*wire.WINDOW_COLUMNS, frames.LIVE_PROCESSES)
WHAT = ("node", "gpu", "index", "start", "end", "observed_s", "boot_start", "sequence")
STEP_MS = 6 * 3_600_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which windows: those that start in the interval, of these GPUs (None: of all the nodes'
    GPUs), with these columns.
    """

    nodes: Sequence[Node]
    gpus: frozenset[str] | None
    interval: Interval
    metrics: Sequence[str]


@dataclass(frozen=True, slots=True)
class Portion:
    """Windows of one node, sorted by GPU and start; the columns of numbers hold NaN where nothing
    was read.
    """

    columns: dict[str, list[Any] | NDArray[Any]]

    def __len__(self) -> int:
        return len(self.columns["start_ms"])


def portions(wanted: Wanted) -> Iterator[Portion]:
    """The windows node by node and six hours by six hours, so that memory does not grow with the
    period.
    """
    for node in wanted.nodes:
        first, last = kept_ms(node.pk) or (0, 0)
        # of a period of years only what there is: each step is a query
        begin = max(first, wanted.interval.start_ms)
        end = min(last, wanted.interval.end_ms)
        for start_ms in range(begin // STEP_MS * STEP_MS, end, STEP_MS):
            low = max(start_ms, begin)
            portion = _portion(wanted, node, low, min(start_ms + STEP_MS, end))
            if len(portion):
                yield portion


def _portion(wanted: Wanted, node: Node, start_ms: int, end_ms: int) -> Portion:
    frame = frames.read_windows(node.pk, start_ms, end_ms, wanted.metrics)
    frame = frame.where(frame.start_ms >= start_ms)
    # also GPUs that left the node since: their windows stayed with it
    by_id = GPU.objects.in_bulk(np.unique(frame.gpu_id).tolist())
    if wanted.gpus is not None:
        chosen = [pk for pk, gpu in by_id.items() if gpu.uuid in wanted.gpus]
        frame = frame.where(np.isin(frame.gpu_id, chosen))
    gpus = [by_id[gpu_id] for gpu_id in frame.gpu_id.tolist()]
    named: dict[str, Any] = {
        "node": [node.name] * len(frame),
        "gpu": [gpu.uuid for gpu in gpus],
        "index": [gpu.index for gpu in gpus],
    }
    return Portion(named | frame.table)


def write_csv(portions: Iterable[Portion], metrics: Sequence[str], out: IO[str]) -> int:
    """How many windows were written: a header, then one line each; times ISO 8601 in UTC, what was
    not read is empty.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*WHAT, *metrics])
    count = 0
    for portion in portions:
        writer.writerows(zip(*_texts(portion.columns, metrics), strict=True))
        count += len(portion)
    return count


def _texts(columns: dict[str, Any], metrics: Sequence[str]) -> Iterator[list[Any]]:
    yield [defused(name) for name in columns["node"]]
    yield [defused(uuid) for uuid in columns["gpu"]]
    yield columns["index"]
    yield _times(columns["start_ms"])
    yield _times(columns["end_ms"])
    yield [_number(seconds) for seconds in (columns["observed_ms"] / 1000).tolist()]
    yield _times(columns["boot_start_ms"])
    yield columns["sequence"].tolist()
    for name in metrics:
        yield [_number(value) for value in columns[name].tolist()]


def _times(moments_ms: NDArray[np.int64]) -> list[str]:
    """Few of them differ: each is written once."""
    texts = {
        moment: from_ms(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for moment in set(moments_ms.tolist())
    }
    return [texts[moment] for moment in moments_ms.tolist()]


def _number(value: float) -> str | int | float:
    """Empty for what was not read; a whole number without its point."""
    if math.isnan(value):
        return ""
    return int(value) if value.is_integer() else value
