"""Storage: what a value costs in bytes, and how fast hours are sealed and read back, on a real
Postgres.

Simulated nodes of 8 GPUs, 10 s windows, one batch per 30 s. A value is one number read in a column
of one window; keys (GPU, start, sequence, ...) are carried along and not counted.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import numpy as np

from agent import packed, wire
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import Cell, Size, Table

NODES = 4
BATCH_MS = 30_000
ROUNDS = 5
HOURS = {Size.QUICK: 2, Size.FULL: 6}


def run(size: Size) -> list[Table]:
    """Sealing, packing and reading back hours of windows, and what a value costs by how many digits
    it has.
    """
    with running_hub() as hub:
        return [measure(hub, HOURS[size])]


def measure(hub: Hub, hours: int) -> Table:
    from fleetwatch.telemetry import frames, hot, partitions, seal

    start = datetime(2026, 11, 20, tzinfo=UTC)
    start_ms, end_ms = (
        int(moment.timestamp() * 1000) for moment in (start, start + timedelta(hours=hours))
    )
    partitions.ensure(start)
    stored = [
        store_hours(number, start_ms, end_ms, full_precision=number % 2 == 1)
        for number in range(NODES)
    ]
    values = sum(node.values for node in stored)

    first = stored[0]
    rows = hot.marked([first.pk], range(start_ms, end_ms, 3_600_000))[first.pk]
    wanted = first.values / columns_of(rows[0]) * len(WANTED)
    found = [
        speed(
            "decode hot batches", first.values, timed(lambda: hot.decode_each([rows], None, None))
        ),
        speed(
            f"read {hours} h hot, {len(WANTED)} columns",
            wanted,
            timed(lambda: frames.read_windows(first.pk, start_ms, end_ms, WANTED)),
        ),
    ]
    before = hub.server_s()
    seal.seal_closed_hours(start + timedelta(days=1), 1_000)
    found.append(speed("seal, worker and Postgres", values, hub.server_s() - before))
    found += packed_sizes("rounded to the sensors", stored[0::2])
    found += packed_sizes("full doubles", stored[1::2])
    sealed_s = timed(lambda: frames.read_windows(first.pk, start_ms, end_ms, WANTED))
    found.append(speed(f"read {hours} h sealed, {len(WANTED)} columns", wanted, sealed_s))
    return Table(
        f"Packed columns: {NODES} nodes x 8 GPUs x {hours} h, {values:,} values",
        ["", "million values per CPU-s", "CPU ms", "bytes of a value"],
        found,
        notes=(
            (
                "a value is one number read in a column of one window; keys (GPU, start, sequence,"
                " ...) are carried along and not counted"
            ),
        ),
    )


def packed_sizes(name: str, nodes: list["Stored"]) -> list[list[Cell]]:
    from fleetwatch.telemetry import codec
    from fleetwatch.telemetry.models import Chunk

    count = sum(node.values for node in nodes)
    chunks = Chunk.objects.filter(node_id__in=[node.pk for node in nodes])
    packed = [bytes(payload) for payload in chunks.values_list("payload", flat=True)]
    return [
        [
            f"{name}, hot (as sent)",
            None,
            None,
            f"{sum(node.payload_bytes for node in nodes) / count:.2f}",
        ],
        [f"{name}, packed", None, None, f"{sum(map(len, packed)) / count:.3f}"],
        speed(
            f"{name}, pack (decoding included)",
            count,
            timed(lambda: [codec.pack(codec.unpack(data)) for data in packed]),
        ),
        speed(
            f"{name}, decode all columns",
            count,
            timed(lambda: [codec.unpack(data) for data in packed]),
        ),
    ]


@dataclass(frozen=True, slots=True)
class Stored:
    """A node whose batches are in the hot table."""

    pk: int
    values: int
    payload_bytes: int


WANTED = (
    "util_mean",
    "util_max",
    "power_w",
    "memory_used_bytes",
    "sm_active",
    "dram_active",
    "tensor_active",
    "live_process_count",
)


def store_hours(number: int, start_ms: int, end_ms: int, *, full_precision: bool) -> Stored:
    """A simulated node, its batches put into the hot table."""
    from fleetwatch.inventory.models import GPU, Node
    from fleetwatch.lib.intervals import from_ms
    from fleetwatch.telemetry import services

    values = size = 0
    node = Node.objects.create(name=f"bench-{number}")
    for batch in batches(number, start_ms, end_ms, full_precision=full_precision):
        if not node.gpus.exists():
            GPU.objects.bulk_create(
                [
                    GPU(uuid=gpu["uuid"], node=node, memory_total_bytes=80 * 2**30)
                    for gpu in batch.gpus
                ]
            )
        payload = packed.pack(batch)
        services.append_batch(
            node, batch, payload, offset_ms=0, received_at=from_ms(start_ms), quarantined=False
        )
        size += len(payload)
        values += sum(
            value is not None
            for name in wire.WINDOW_COLUMNS
            for value in batch.windows.get(name, ())
        )
    return Stored(node.pk, values, size)


def batches(
    number: int, start_ms: int, end_ms: int, *, full_precision: bool
) -> Iterator[wire.Batch]:
    """The node's hours cut into batches of 30 s, as an agent sends them, without the host's samples
    (told once for all hours).
    """
    from fleetwatch.demo import blocks, fleet, scenario

    member = fleet.nodes(8 * NODES)[number]
    whole = scenario.batch(
        member, blocks.Block(blocks.Fill(start_ms, end_ms), start_ms, end_ms, 10)
    )
    columns = {name: np.array(values, dtype=object) for name, values in whole.windows.items()}
    rng = np.random.default_rng(number)
    order = np.lexsort([columns["gpu"].astype(int), columns["start_ms"].astype(int)])
    part = columns["start_ms"][order].astype(int) // BATCH_MS
    for sequence, rows in enumerate(np.split(order, np.flatnonzero(np.diff(part)) + 1)):
        windows = {name: values[rows].tolist() for name, values in columns.items()}
        yield replace(
            whole,
            windows=blurred(windows, rng) if full_precision else windows,
            sequence=sequence,
            host={},
            events=[],
        )


def blurred(windows: wire.Columns, rng: np.random.Generator) -> wire.Columns:
    """The same windows with the digits that means over readings have; whole numbers and 0 and 1
    stay.
    """
    return {name: [blur(value, rng) for value in values] for name, values in windows.items()}


def blur(value: float | None, rng: np.random.Generator) -> float | None:
    if not isinstance(value, float) or value in (0.0, 1.0):
        return value
    return value * (1 - float(rng.random()) * 1e-4)


def columns_of(row: object) -> int:
    from fleetwatch.telemetry import hot

    table = hot.decode_each([[row]], None, None)[0].windows
    return sum(
        name in wire.WINDOW_COLUMNS and not np.isnan(values).all() for name, values in table.items()
    )


def timed(work: Callable[[], object]) -> float:
    """Median CPU seconds of this process over the rounds."""
    return statistics.median(seconds(work) for _ in range(ROUNDS))


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def speed(name: str, values: float, taken_s: float) -> list[Cell]:
    return [name, f"{values / taken_s / 1e6:.1f}", f"{taken_s * 1000:,.0f}", None]
