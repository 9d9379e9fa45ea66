"""A large fleet's past at once: sealed chunks and day matrices by the real codec, jobs and GPUs
through the rooms' own services.

The door and the hot table are left out; what comes out is what sealing would have made of the same
batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.db import transaction

from agent import wire
from agent.sources.simulated import parse_spec
from agent.sources.simulated.troubles import outages_between
from benchmarks import replication
from fleetwatch.demo import fleet, scenario
from fleetwatch.demo.blocks import BLOCK_MS, COARSE_MS, SLOT_MS, Block, Fill
from fleetwatch.demo.fleet import DemoNode
from fleetwatch.ingest.services import store_reports
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.inventory.services import lock_node, node_by_name, register_batch
from fleetwatch.jobs.batch_report import Report
from fleetwatch.jobs.services import store_processes
from fleetwatch.lib.intervals import Interval, from_ms
from fleetwatch.telemetry import codec, directory, matrices
from fleetwatch.telemetry import services as telemetry
from fleetwatch.telemetry.frames import Ints
from fleetwatch.telemetry.heat_cells import CELL_MS, DAY_MS
from fleetwatch.telemetry.models import Chunk
from fleetwatch.telemetry.window_tables import (
    WINDOW_INTS,
    Table,
    joined,
    without_empty,
)


@dataclass(frozen=True, slots=True)
class Past:
    """What is told: whole UTC days of each node, the newest `fine_days` in 10 s windows and those
    before in 60 s windows.

    `columns`: of the wire's window columns only these (None: all that are drawn).
    """

    interval: Interval
    fine_days: int = 1
    columns: tuple[str, ...] | None = None

    @property
    def days(self) -> range:
        """How many days back each told day lies, 0 = the newest."""
        return range(self.interval.duration_ms // DAY_MS)


WINDOW_MS = 60_000  # the longest that a live agent sends


@dataclass(frozen=True, slots=True)
class Stored:
    """What was stored: windows, and values read in them."""

    windows: int = 0
    values: int = 0

    def __add__(self, other: "Stored") -> "Stored":
        return Stored(self.windows + other.windows, self.values + other.values)


def nodes(gpus: int, past: Interval) -> list[DemoNode]:
    """The fleet of so many GPUs, each node there when the past begins and when it ends."""
    return [_whole(past, member) for member in fleet.nodes(gpus)]


def groups(members: Sequence[DemoNode], distinct: int) -> list[list[DemoNode]]:
    """The nodes parted into so many groups (at most): the first of each is drawn, the others are
    its echoes (of the same model and use).
    """
    step = max(1, distinct // len(fleet.PATTERN)) * len(fleet.PATTERN)
    return [list(members[first::step]) for first in range(min(step, len(members)))]


def _whole(past: Interval, member: DemoNode) -> DemoNode:
    """The node, without outages where one would hide its first or last windows: its capacity would
    be less than that of the days which others are tiled from.
    """
    spec = parse_spec(member.spec)
    edges = (past.start_ms, past.end_ms)
    if not any(outages_between(spec, edge - WINDOW_MS, edge + WINDOW_MS) for edge in edges):
        return member
    return replace(member, spec=member.spec.replace("outages=yes", "outages=no"))


def store(members: Sequence[DemoNode], past: Past, *, received_at: datetime) -> Stored:
    """What was stored of a group's past, in the memory of 6 hours of one node.

    A block that is there already stores nothing.
    """
    stored = Stored()
    for window_ms, days in (
        (SLOT_MS, past.days[: past.fine_days]),
        (COARSE_MS, past.days[past.fine_days :]),
    ):
        for block in blocks(past, window_ms // 1000) if days else ():
            for batch, columns in voices(members, block, days, past.columns):
                stored += _store(batch, columns, received_at=received_at)
    return stored


def voices(
    members: Sequence[DemoNode], block: Block, days: Iterable[int], columns: Sequence[str] | None
) -> Iterator[tuple[wire.Batch, list[replication.Columns]]]:
    """(facts, windows of each GPU) of the block for each node of a group, so many days back: drawn
    once, then echoed.
    """
    drawn = windows(members[0], block, columns)
    if not drawn:
        return
    batch = facts(members[0], block, drawn)
    for days_back in days:
        for member in members:
            yield replication.Echo(member, days_back).of(batch, drawn)


def blocks(past: Past, window_s: int) -> list[Block]:
    """The newest day in blocks of 6 hours."""
    end_ms = past.interval.end_ms
    fill = Fill(end_ms - DAY_MS, end_ms)
    return [
        Block(fill, start, start + BLOCK_MS, window_s)
        for start in range(fill.start_ms, end_ms, BLOCK_MS)
    ]


def windows(
    member: DemoNode, block: Block, columns: Sequence[str] | None
) -> list[replication.Columns]:
    """For each GPU its windows, rounded as agents round; an empty list where telemetry was out for
    all of the block.
    """
    return [
        {
            name: replication.rounded(name, drawn[name])
            for name in drawn
            if columns is None or name in (*scenario.KEYS, *columns)
        }
        for drawn in scenario.windows(member, block).gpus
    ]


def facts(member: DemoNode, block: Block, gpus: Sequence[replication.Columns]) -> wire.Batch:
    """The batch that says all of the block but its windows, of which it holds as many of each GPU
    as tell where its stays end.
    """
    ends = [_edges(columns["start_ms"]) for columns in gpus]
    extent: wire.Columns = {
        "gpu": [index for index, starts in enumerate(ends) for _ in starts],
        "start_ms": [start for starts in ends for start in starts],
        "observed_ms": [block.window_s * 1000 for starts in ends for _ in starts],
    }
    batch = replace(scenario.without_windows(member, block), windows=extent)
    return replication.shared(batch, parse_spec(member.spec).seed)


def _edges(starts: Ints) -> list[int]:
    """The first window of each five minutes, and the last before there is none for so long."""
    cells = starts // CELL_MS
    is_first = np.append(True, cells[1:] != cells[:-1])
    is_last = np.append(np.diff(starts) > CELL_MS, True)
    edges: list[int] = starts[is_first | is_last].tolist()
    return edges


@transaction.atomic
def _store(
    batch: wire.Batch, gpu_columns: Sequence[replication.Columns], *, received_at: datetime
) -> Stored:
    node = lock_node(node_by_name(batch.node).pk)
    if not telemetry.record_sequence(node, batch, offset_ms=0):
        return Stored()
    order = node.facts_order
    gpus = register_batch(node, batch, offset_ms=0, received_at=received_at).gpus
    gpu_ids = [gpus[place].pk for place in range(len(gpus))]
    report = Report(node.pk, batch, gpu_ids, 0, former_order=order)
    stored, _ = store_reports([report], received_at=received_at)
    store_processes([report], stored)
    telemetry.store_events(node, batch, gpus, offset_ms=0)
    start_ms = batch.sequence * SLOT_MS
    telemetry.touch_hours(node.pk, [(start_ms, start_ms + BLOCK_MS)], received_at=received_at)
    table = _table(gpu_columns, [gpus[place] for place in range(len(gpus))], batch)
    _seal(node, table, start_ms)
    return Stored(
        len(table["start_ms"]),
        sum(int((~np.isnan(table[name])).sum()) for name in table if name not in WINDOW_INTS),
    )


def _table(
    gpu_columns: Sequence[replication.Columns], gpus: Sequence[GPU], batch: wire.Batch
) -> Table:
    """The windows as sealing sees them."""
    parts = []
    for columns, gpu in zip(gpu_columns, gpus, strict=True):
        same = np.ones(len(columns["start_ms"]), dtype=np.int64)
        keys = {
            "gpu_id": same * gpu.pk,
            "boot_start_ms": same * batch.boot_start_ms,
            "sequence": same * batch.sequence,
        }
        parts.append(keys | {"window_ms": same * batch.window_s * 1000} | columns)
    return without_empty(joined(parts))


def _seal(node: Node, table: Table, start_ms: int) -> None:
    """One chunk of 6 hours, as sealing leaves it in the end, and the day's cells."""
    Chunk.objects.create(
        node_id=node.pk,
        start=from_ms(start_ms),
        end=from_ms(start_ms + BLOCK_MS),
        version=directory.VERSION,
        window_count=len(table["start_ms"]),
        payload=codec.pack(table),
    )
    matrices.store([matrices.Drawing(node.pk, start_ms, table)], count=BLOCK_MS // CELL_MS)
