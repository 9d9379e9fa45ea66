"""Raw windows as tables for other tools: one row per window, in portions of one node and six hours.

Every window that was received is there, overlapping ones of two boots too: `boot_start` and
`sequence` say which batch told it (docs/wire.md says which of two counts).
"""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from agent import wire
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.array_types import Array, Ints
from fleetwatch.lib.csv_files.formulas import defused
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.telemetry import frames
from fleetwatch.telemetry.selectors import kept_ms

METRICS = (*wire.WINDOW_COLUMNS, frames.LIVE_PROCESSES)
# What a column holds; a moment is in milliseconds, NaN is a number that was not read.
TEXT = "text"
WHOLE = "whole"
NUMBER = "number"
MOMENT = "moment"
WHAT = {
    "node": TEXT,
    "gpu": TEXT,
    "index": WHOLE,
    "start": MOMENT,
    "end": MOMENT,
    "observed_s": NUMBER,
    "boot_start": MOMENT,
    "sequence": WHOLE,
}
STEP_MS = 6 * 3_600_000

# Windows of one node by column, sorted by GPU and start: those of WHAT, then the metrics.
Portion = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which windows: those that start in the interval, of these GPUs (None: of all the nodes'
    GPUs), with these columns.
    """

    nodes: Sequence[Node]
    gpus: frozenset[str] | None
    interval: Interval
    metrics: Sequence[str]


def kinds(metrics: Sequence[str]) -> dict[str, str]:
    """The columns of a file, and what each holds."""
    return WHAT | dict.fromkeys(metrics, NUMBER)


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
            if len(portion["start"]):
                yield portion


def _portion(wanted: Wanted, node: Node, start_ms: int, end_ms: int) -> Portion:
    frame = frames.read_windows(node.pk, start_ms, end_ms, wanted.metrics)
    frame = frame.where(frame.start_ms >= start_ms)
    # also GPUs that left the node since: their windows stayed with it
    by_id = GPU.objects.in_bulk(np.unique(frame.gpu_id).tolist())
    if wanted.gpus is not None:
        chosen = [pk for pk, gpu in by_id.items() if gpu.uuid in wanted.gpus]
        frame = frame.where(np.isin(frame.gpu_id, chosen))
    return _columns(node.name, [by_id[gpu_id] for gpu_id in frame.gpu_id.tolist()], frame)


def _columns(node: str, gpus: Sequence[GPU], frame: frames.Frame) -> Portion:
    return {
        "node": np.full(len(frame), node, dtype=object),
        "gpu": np.array([gpu.uuid for gpu in gpus], dtype=object),
        "index": np.array([gpu.index for gpu in gpus], dtype=object),
        "start": frame.start_ms,
        "end": frame.end_ms,
        "observed_s": frame.observed_ms / 1000,
        "boot_start": frame.boot_start_ms,
        "sequence": frame.sequence,
        **frame.columns,
    }


def write_csv(portions: Iterable[Portion], metrics: Sequence[str], out: IO[str]) -> int:
    """How many windows were written: a header, then one line each; times ISO 8601 in UTC, what was
    not read is empty.
    """
    columns = kinds(metrics)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for portion in portions:
        cells = [CELLS[kind](portion[name]) for name, kind in columns.items()]
        writer.writerows(zip(*cells, strict=True))
        count += len(portion["start"])
    return count


def _times(moments_ms: Ints) -> list[str]:
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


# How each kind of column is written as text.
CELLS: dict[str, Callable[[Array], list[Any]]] = {
    TEXT: lambda texts: [defused(text) for text in texts],
    WHOLE: lambda numbers: numbers.tolist(),
    NUMBER: lambda numbers: [_number(number) for number in numbers.tolist()],
    MOMENT: _times,
}
