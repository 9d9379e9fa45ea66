"""The questions that FleetWatch and its peers are asked about the same day of a fleet, and how the
answers are brought to one shape.
"""

import statistics
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from benchmarks.client import Reader
from benchmarks.fleet import COLUMNS, HOLDS
from benchmarks.peers import Answer, Peer
from benchmarks.servers import Hub
from benchmarks.tables import BenchError
from fleetwatch.dashboard.drawing.grid import SHADES, UNKNOWN

IDLE_BELOW = 0.05
WINDOW_S = 10
NODES_AT_ONCE = 32  # whose windows are in memory at once
MS = 1000
# A cell is a byte of 250 steps, shown to a hundredth; means of means are compared with means of
# the same cells.
HEAT_TOLERANCE = 0.5 / 250 + 0.5 / SHADES + 0.0006
# relative: a mean of one window is that window, but for a float's last bits
SERIES_TOLERANCE = 1e-6
WASTE_TOLERANCE_H = 0.01

Key = Any
Values = Mapping[Key, float]


@dataclass(slots=True)
class Took:
    """What the rounds of one question took of one system."""

    clock_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    size: int = 0  # of the answer in bytes; 0 = it never left the process

    def add(self, clock_s: float, cpu_s: float, size: int = 0) -> None:
        self.clock_s.append(clock_s)
        self.cpu_s.append(cpu_s)
        self.size = size

    @property
    def median_s(self) -> float:
        return statistics.median(self.clock_s)

    @property
    def spread(self) -> str:
        """Median and range of the clock, in milliseconds."""
        return (
            f"{self.median_s * MS:,.1f}"
            f" ({min(self.clock_s) * MS:,.1f}–{max(self.clock_s) * MS:,.1f})"
        )


@dataclass(frozen=True, slots=True)
class Day:
    """The day that is asked about, [start, end) UTC."""

    start: datetime
    end: datetime

    @property
    def start_s(self) -> int:
        return int(self.start.timestamp())

    @property
    def end_s(self) -> int:
        return int(self.end.timestamp())

    def query(self, **more: Any) -> str:
        """As parameters of a page or of the API."""
        return urlencode({"from": self.start_s * MS, "to": self.end_s * MS} | more)


def ask_heat_map(reader: Reader, day: Day, took: Took) -> tuple[list[str], NDArray[np.float64]]:
    """(GPU UUIDs, utilisation of GPUs x steps, NaN = a gap), as the page's chart gets it: of a
    large fleet the names of nodes, of which each has one line.
    """
    page = reader.get(f"/charts/fleet?{day.query(metric='util', sort='name')}")
    took.add(page.clock_s, page.cpu_s, len(page.body))
    trace = page.json()["data"][0]
    links = np.array(trace["meta"]["links"])
    is_gpu = links != ""  # of a line between groups there is none
    uuids = [link.rsplit("/", 1)[1] for link in links[is_gpu].tolist()]
    return uuids, _unpacked(trace["z"])[is_gpu]


def _unpacked(cells: Mapping[str, str]) -> NDArray[np.float64]:
    """Rows x columns of shares, as charts.js reads them."""
    numbers = np.frombuffer(b64decode(cells["bdata"]), dtype=np.uint8)
    rows, columns = map(int, cells["shape"].split(","))
    shares = np.where(numbers == UNKNOWN, np.nan, numbers / SHADES)
    return shares.reshape(rows, columns)


def ask_peer_heat_map(
    peer: Peer, day: Day, step_s: int, took: Took | None = None
) -> dict[str, NDArray[np.float64]]:
    """GPU UUID -> its steps: the mean of the samples that start in each."""
    # evaluated in the last window's middle: [t - step, t] then holds exactly the step's windows
    late = WINDOW_S // 2
    answer = peer.query(
        "/api/v1/query_range",
        {
            "query": f"avg_over_time(util_mean[{step_s}s])",
            "start": day.start_s + step_s - late,
            "end": day.end_s - late,
            "step": step_s,
        },
    )
    _note(answer, took)
    count = (day.end_s - day.start_s) // step_s
    found: dict[str, NDArray[np.float64]] = {}
    for series in answer.result:
        row = np.full(count, np.nan)
        for at_s, value in series["values"]:
            row[round((float(at_s) + late - day.start_s) / step_s) - 1] = float(value)
        found[series["metric"]["gpu"]] = row
    return found


def ask_series(reader: Reader, day: Day, uuid: str, took: Took) -> dict[tuple[str, int], float]:
    """(column, second) -> value of every window of one GPU."""
    page = reader.get(
        f"/api/v1/gpus/{uuid}/series?{day.query(step_s=WINDOW_S, metrics=','.join(COLUMNS))}"
    )
    took.add(page.clock_s, page.cpu_s, len(page.body))
    told = page.json()
    start_s = [start // MS for start in told["start_ms"]]
    return {
        (name, at_s): value
        for name, values in told["values"].items()
        for at_s, value in zip(start_s, values, strict=True)
        if value is not None
    }


def ask_peer_series(peer: Peer, day: Day, uuid: str, took: Took) -> dict[tuple[str, int], float]:
    answer = peer.query(
        "/api/v1/query_range",
        {
            "query": f'{{gpu="{uuid}",__name__!="{HOLDS}"}}',
            "start": day.start_s,
            "end": day.end_s - WINDOW_S,
            "step": WINDOW_S,
        },
    )
    _note(answer, took)
    return {
        (series["metric"]["__name__"], int(at_s)): float(value)
        for series in answer.result
        for at_s, value in series["values"]
    }


def ask_waste(hub: Hub, day: Day, took: Took) -> dict[str, float]:
    """Job key -> GPU-hours that it held below 5 % utilisation, from the raw windows; by its granted
    share where it shares a GPU.
    """
    found: dict[str, float] = {}
    clock_s = 0.0

    def asked() -> None:
        nonlocal clock_s
        began = time.perf_counter()
        found.update(_waste_by_job(day.start_s * MS, day.end_s * MS))
        clock_s = time.perf_counter() - began

    cpu_s = sum(hub.cost(asked))
    took.add(clock_s, cpu_s)
    return found


def _waste_by_job(start_ms: int, end_ms: int) -> dict[str, float]:
    """A window counts for those who hold the GPU when it starts."""
    from fleetwatch.inventory.models import Node
    from fleetwatch.jobs.selectors import holdings_of
    from fleetwatch.lib.rows import fetched
    from fleetwatch.telemetry import frames

    nodes = list(Node.objects.values_list("pk", flat=True))
    held = {
        node_id: [
            (hold.job_id, hold.share or 1.0, hold.gpu_id, *span)
            for hold in holds
            for span in hold.spans
        ]
        for node_id, holds in holdings_of(nodes, start_ms, end_ms).items()
    }
    spans = {node_id: _spans(holds, start_ms, end_ms) for node_id, holds in held.items()}
    counts = [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(nodes), NODES_AT_ONCE):
        here = {node_id: spans[node_id] for node_id in nodes[first : first + NODES_AT_ONCE]}
        counts += [windows for _, windows in frames.low_counts(here, "util_mean", below=IDLE_BELOW)]
    holds = list(chain.from_iterable(held.values()))
    jobs, place = np.unique(
        np.array([job_id for job_id, *_ in holds], dtype=np.int64), return_inverse=True
    )
    shared = np.concatenate(counts) * np.array([share for _, share, *_ in holds])
    hours = dict(
        zip(
            jobs.tolist(),
            (np.bincount(place, shared, len(jobs)) * WINDOW_S / 3600).tolist(),
            strict=True,
        )
    )
    wasted = np.array([job_id for job_id, found in hours.items() if found], dtype=np.int64)
    keys = fetched("SELECT id, key FROM jobs_job WHERE id = ANY(%s)", [wasted])
    return {key: hours[job_id] for job_id, key in keys}


def _spans(holds: Sequence[tuple[int, float, int, int, int]], start_ms: int, end_ms: int) -> Any:
    """What of the holds (of a GPU, from, to) lies in [start_ms, end_ms)."""
    from fleetwatch.telemetry.span_counts import Spans

    table = np.array([hold[2:] for hold in holds], dtype=np.int64).reshape(-1, 3)
    return Spans(table[:, 0], table[:, 1:].T.clip(start_ms, end_ms))


def ask_peer_waste(peer: Peer, day: Day, took: Took) -> dict[str, float]:
    held_idle = f"{HOLDS} * on (gpu) group_left () (util_mean < bool {IDLE_BELOW})"
    # open at its start in one of the peers: a window more than the day, in which there is none
    range_s = day.end_s - day.start_s
    query = f"sum by (job) (sum_over_time(({held_idle})[{range_s}s:{WINDOW_S}s]))"
    answer = peer.query("/api/v1/query", {"query": query, "time": day.end_s - WINDOW_S})
    _note(answer, took)
    hours = {
        series["metric"]["job"]: float(series["value"][1]) * WINDOW_S / 3600
        for series in answer.result
    }
    return {job: found for job, found in hours.items() if found}


def _note(answer: Answer, took: Took | None) -> None:
    if took is not None:
        took.add(answer.clock_s, answer.cpu_s, answer.size)


def five_minute_means(cells: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Steps from cells of five minutes: the mean of those that were observed; NaN where
    none was.
    """
    parts = cells.reshape(count, -1)
    known = ~np.isnan(parts)
    sums = np.where(known, parts, 0.0).sum(axis=1)
    return np.divide(sums, known.sum(axis=1), out=np.full(count, np.nan), where=known.any(axis=1))


def deviation(
    name: str, ours: Values, theirs: Values, *, tolerance: float, relative: bool = False
) -> float:
    """The largest difference between two answers.

    Raises BenchError beyond the tolerance, or where one says what the other does not.
    """
    if lost := ours.keys() ^ theirs.keys():
        worst = max(abs(ours.get(key, 0.0) or theirs.get(key, 0.0)) for key in lost)
        if relative or worst > tolerance:
            raise BenchError(
                f"{name}: {len(lost)} of {len(ours)} are in one answer alone, such as"
                f" {sorted(map(str, lost))[:3]}"
            )
    keys = ours.keys() & theirs.keys()
    found = max(
        (_difference(ours[key], theirs[key], relative=relative) for key in keys), default=0.0
    )
    if not found <= tolerance:
        raise BenchError(f"{name}: the answers differ by {found:g}, more than {tolerance:g}")
    return found


def _difference(one: float, other: float, *, relative: bool) -> float:
    return abs(one - other) / (max(abs(one), abs(other), 1e-12) if relative else 1.0)


def taking_turns(rounds: int, asked: Sequence[Callable[[], object]]) -> None:
    """Each is asked once per round, one after the other, so that a machine's moods meet all of
    them.
    """
    for _ in range(rounds):
        for ask in asked:
            ask()


def day_of(end: datetime) -> Day:
    """The 24 hours before."""
    return Day(end - timedelta(days=1), end)
