"""The fleet that benches measure: made by `benchmarks.make_fleet` in the hub, and the same windows
again for the peers.

Sixteen columns of a window, as monitoring systems have them for a GPU; older GPU models answer
fewer. Nodes differ: their jobs, levels and scatter are drawn apart (or echoed with noise of their
own), rounded as the agent rounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import remote_write

COLUMNS = (
    "util_mean", "util_max", "util_zero_fraction", "memory_used_bytes", "power_w", "power_max_w",
    "energy_j", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "pcie_rx_bytes_s",
    "pcie_tx_bytes_s", "temperature_c", "sm_clock_hz", "process_count",
)  # fmt: skip
HOLDS = "gpu_job"  # the peers' series of who holds a GPU: 1, or the granted share
WINDOW_MS = 10_000
# of one node in a request: Prometheus takes no sample an hour older than its newest
SLICE_MS = 1_800_000
DAY = timedelta(days=1)

Columns = dict[str, NDArray[Any]]
Series = tuple[bytes, NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A fleet's day of windows and its longer ledger, as `benchmarks.make_fleet` makes them."""

    gpus: int
    ledger_days: int = 30
    distinct: int = 128  # nodes that are drawn, the others echo one of them

    @property
    def end(self) -> datetime:
        """Where its windows end: this day's UTC midnight."""
        return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    def fill(self, workers: int) -> None:
        """Makes it in an empty hub."""
        from django.core.management import call_command

        from benchmarks.large_fleet import Command

        call_command(
            Command(),
            gpus=self.gpus,
            ledger_days=self.ledger_days,
            workers=workers,
            distinct=self.distinct,
            columns=",".join(COLUMNS),
        )

    def slices(self) -> Iterator[list["Slice"]]:
        """Half hour by half hour, one for each node: the same windows as requests for a peer."""
        from benchmarks import bulk
        from fleetwatch.lib.intervals import Interval

        past = bulk.Past(Interval(self.end - DAY, self.end))
        groups = bulk.groups(bulk.nodes(self.gpus, past.interval), self.distinct)
        for block in bulk.blocks(past, WINDOW_MS // 1000):
            whole = [
                series_of(*voice)
                for group in groups
                for voice in bulk.voices(group, block, [0], COLUMNS)
            ]
            for start_ms in range(block.start_ms, block.end_ms, SLICE_MS):
                parts = [
                    (
                        cut(columns, start_ms, start_ms + SLICE_MS),
                        cut(holds, start_ms, start_ms + SLICE_MS),
                    )
                    for columns, holds in whole
                ]
                yield [
                    Slice(
                        remote_write.request(columns), remote_write.request(holds), _count(columns)
                    )
                    for columns, holds in parts
                ]


@dataclass(frozen=True, slots=True)
class Slice:
    """Half an hour of one node as remote write bodies: samples of the columns, and of who holds
    which GPU.
    """

    columns: bytes
    holds: bytes
    samples: int  # of the columns


def series_of(
    batch: Any, windows: Sequence[Columns], *, run: str = ""
) -> tuple[list[Series], list[Series]]:
    """The node's series: of its columns, and of who holds its GPUs; `run`, where given, keeps them
    apart from those of others.
    """
    columns: list[Series] = []
    holds: list[Series] = []
    for place, told in enumerate(windows):
        gpu = {"gpu": batch.gpus[place]["uuid"], "node": batch.node, "index": str(place)} | (
            {"run": run} if run else {}
        )
        times = told["start_ms"]
        columns += [
            (remote_write.labels({"__name__": column} | gpu), times, told[column])
            for column in COLUMNS
            if column in told
        ]
        for item in (item for item in batch.allocations if item["gpu"] == place):
            end_ms = np.inf if item["end_ms"] is None else item["end_ms"]
            held = times[(times >= item["start_ms"]) & (times < end_ms)]
            share = np.full(len(held), item["share"] or 1.0)
            holds.append(
                (
                    remote_write.labels(
                        {"__name__": HOLDS, "job": batch.jobs[item["job"]]["key"]} | gpu
                    ),
                    held,
                    share,
                )
            )
    return columns, holds


def cut(series: Sequence[Series], start_ms: int, end_ms: int) -> list[Series]:
    """The samples in [start_ms, end_ms) of the series that have any."""
    found = []
    for head, times, values in series:
        low, high = np.searchsorted(times, [start_ms, end_ms])
        if low < high:
            found.append((head, times[low:high], values[low:high]))
    return found


def values_in(columns: Columns) -> int:
    """Numbers read in one GPU's windows."""
    return sum(int((~np.isnan(columns[name])).sum()) for name in COLUMNS if name in columns)


def _count(series: Sequence[Series]) -> int:
    return sum(int((~np.isnan(values)).sum()) for _, _, values in series)
