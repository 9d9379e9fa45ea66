"""A large fleet's past at once: sealed chunks and day matrices by the real codec, jobs and GPUs through the rooms' own services.

The door and the hot table are left out; what comes out is what sealing would have made of the same batches.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.db import transaction

from agent import wire
from agent.sources.simulated import Simulated
from fleetwatch.demo import sensors, sharing, story
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.demo.plan import BLOCK_MS, COARSE_MS, SLOT_MS, Block, Fill
from fleetwatch.ingest.services import store_reports
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.services import lock_node, node_by_name, register_batch
from fleetwatch.jobs.services import Report
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.telemetry import codec, matrices
from fleetwatch.telemetry import services as telemetry
from fleetwatch.telemetry.cells import CELL_MS, DAY_MS
from fleetwatch.telemetry.models import Chunk
from fleetwatch.telemetry.tables import WINDOW_INTS, WINDOW_KEYS, Table, joined, started_in, without_empty


@dataclass(frozen=True, slots=True)
class Past:
    """What is told: [start, end) of each node, in 10 s windows from `fine_from` on and in 60 s windows before.

    `columns`: of the wire's window columns only these (None: all that are drawn).
    """

    interval: Interval
    fine_from: datetime
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What was stored of a node: windows, and values read in them."""

    windows: int = 0
    values: int = 0

    def __add__(self, other: "Told") -> "Told":
        return Told(self.windows + other.windows, self.values + other.values)


def tell_node(member: DemoNode, past: Past, *, received_at: datetime) -> Told:
    """What was stored of the node's past, block by block: the memory of 6 hours. A block that is there already stores nothing."""
    return sum((_store(member, block, past.columns, received_at=received_at) for block in blocks(past)), Told())


def blocks(past: Past) -> list[Block]:
    """The past cut at each 6 hours from the UTC day's start, oldest first."""
    start_ms, end_ms = past.interval.start_ms, past.interval.end_ms
    fine_ms = min(max(to_ms(past.fine_from), start_ms), end_ms)
    fill = Fill(start_ms, end_ms)
    edges = sorted({start_ms, fine_ms, end_ms, *range(-(-start_ms // BLOCK_MS) * BLOCK_MS, end_ms, BLOCK_MS)})
    return [Block(fill, low, high, (SLOT_MS if low >= fine_ms else COARSE_MS) // 1000) for low, high in itertools.pairwise(edges)]


def windows(member: DemoNode, block: Block, columns: Sequence[str] | None) -> list[sensors.Columns]:
    """For each GPU its windows as its sensors would have told them; an empty list where telemetry was out for all of the block."""
    simulated = Simulated(member.spec, node=member.name, start_ms=block.start_ms)
    told = []
    for index, drawn in enumerate(story.by_gpu(member, simulated, block)):
        rng = np.random.default_rng([simulated.spec.seed, index, block.start_ms // 1000])
        measured = sensors.measured(drawn, window_s=block.window_s, rng=rng)
        wanted = measured if columns is None else [name for name in (*story.KEYS, *columns) if name in measured]
        told.append({name: measured[name] for name in wanted})
    return told


def facts(member: DemoNode, block: Block, told: Sequence[sensors.Columns]) -> wire.Batch:
    """The batch that says all of the block but its windows, of which it holds each GPU's first and last: what registering reads."""
    simulated = Simulated(member.spec, node=member.name, start_ms=block.start_ms)
    ends = [sorted({int(columns["start_ms"][0]), int(columns["start_ms"][-1])}) for columns in told]
    extent: wire.Columns = {
        "gpu": [index for index, starts in enumerate(ends) for _ in starts],
        "start_ms": [start for starts in ends for start in starts],
        "observed_ms": [block.window_s * 1000 for starts in ends for _ in starts],
    }
    return sharing.shared(replace(story.without_windows(member, simulated, block), windows=extent), simulated.spec.seed)


@transaction.atomic
def _store(member: DemoNode, block: Block, columns: Sequence[str] | None, *, received_at: datetime) -> Told:
    told = windows(member, block, columns)
    if not told:
        return Told()
    batch = facts(member, block, told)
    node = lock_node(node_by_name(member.name).pk)
    if not telemetry.record_sequence(node, batch, offset_ms=0):
        return Told()
    gpus = register_batch(node, batch, offset_ms=0, received_at=received_at).gpus
    store_reports([Report(node.pk, batch, [gpus[place].pk for place in range(len(gpus))], 0)])
    telemetry.store_events(node, batch, gpus, offset_ms=0)
    telemetry.touch_hours(node.pk, [(block.start_ms, block.end_ms)], received_at=received_at)
    table = _table(told, [gpus[place] for place in range(len(gpus))], batch)
    _seal(node, table, block)
    return Told(len(table["start_ms"]), sum(int((~np.isnan(table[name])).sum()) for name in table if name not in WINDOW_INTS))


def _table(told: Sequence[sensors.Columns], gpus: Sequence[GPU], batch: wire.Batch) -> Table:
    """The windows as sealing sees them."""
    parts = []
    for columns, gpu in zip(told, gpus, strict=True):
        same = np.ones(len(columns["start_ms"]), dtype=np.int64)
        keys = {"gpu_id": same * gpu.pk, "boot_start_ms": same * batch.boot_start_ms, "sequence": same * batch.sequence}
        parts.append(keys | {"window_ms": same * batch.window_s * 1000} | columns)
    return without_empty(joined(parts, ints=WINDOW_INTS, keys=WINDOW_KEYS), WINDOW_INTS)


def _seal(node: Node, table: Table, block: Block) -> None:
    """One chunk for each 6 hours, as sealing leaves them in the end, and the day's cells."""
    start_ms, end_ms = block.start_ms // HOUR_MS * HOUR_MS, -(-block.end_ms // HOUR_MS) * HOUR_MS
    Chunk.objects.create(
        node_id=node.pk,
        start=from_ms(start_ms),
        end=from_ms(end_ms),
        version=codec.VERSION,
        window_count=len(table["start_ms"]),
        payload=codec.pack(table),
    )
    for day_ms in range(start_ms // DAY_MS * DAY_MS, end_ms, DAY_MS):
        low, high = max(start_ms, day_ms), min(end_ms, day_ms + DAY_MS)
        matrices.write(node.pk, started_in(table, low, high), start_ms=low, count=(high - low) // CELL_MS)
