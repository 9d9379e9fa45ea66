"""Posting the ledger from sealed columns: CPU seconds of Python and of Postgres for 1,000 GPU-days, on a real Postgres.

`python -m benchmarks.bench_posting [nodes]`: simulated nodes of 8 GPUs, a day of 10 s windows sealed by the hour, no
two alike; jobs of all kinds, GPUs with two holders, outages of telemetry. Posted for the first time, then once more
with nothing changed, then after late windows in one hour of each node.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django
import numpy as np
from django.core.management import call_command
from django.db import connection

from agent import wire
from tests.servers import Servers

NODES, GPUS, HOURS = 32, 8, 24
START = datetime(2026, 11, 20, tzinfo=UTC)
NOW = START + timedelta(hours=HOURS + 1)
WINDOW_MS, HOUR_MS = 10_000, 3_600_000
SHARED_EVERY = 4  # of so many nodes one has two GPUs with a second holder
DURABLE = ("fsync=on", "max_connections=60", "log_min_messages=fatal")
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    servers = Servers(DURABLE)
    try:
        django.setup()
        call_command("migrate", verbosity=0)
        fill(count)
        measure(count, lambda: postgres_seconds(servers.postgres.pid))
    finally:
        connection.close()
        connection.close_pool()
        servers.stop()
    return 0


def measure(nodes: int, postgres: Callable[[], float]) -> None:
    """Prints each kind of posting in CPU seconds per 1,000 GPU-days."""
    from fleetwatch.ledger import services
    from fleetwatch.lib.intervals import to_ms

    start_ms, end_ms = to_ms(START), to_ms(START) + HOURS * HOUR_MS
    scale = 1000 / (nodes * GPUS * HOURS / 24)
    print(f"{nodes} nodes x {GPUS} GPUs x {HOURS} h; CPU seconds per 1,000 GPU-days")

    def again() -> dict[str, int]:
        services.repost(start_ms, end_ms)
        return services.post(NOW, 1_000_000)

    def one_hour() -> dict[str, int]:
        services.repost(start_ms + 12 * HOUR_MS, start_ms + 13 * HOUR_MS)
        return services.post(NOW, 1_000_000)

    for label, work in (("first", lambda: services.post(NOW, 1_000_000)), ("again, unchanged", again), ("one hour again", one_hour)):
        python, server, began = time.process_time(), postgres(), time.perf_counter()
        did = work()
        wall = time.perf_counter() - began
        python, server = time.process_time() - python, postgres() - server
        parts = f"Python {python * scale:.2f}, Postgres {server * scale:.2f}; {wall:.1f} s"
        print(f"  {label:<18} {(python + server) * scale:6.2f}  ({parts}) {did}", flush=True)


def fill(count: int) -> None:
    """The nodes with their jobs, and their windows as sealed chunks; every hour is marked to be posted."""
    from fleetwatch.demo import fleet
    from fleetwatch.telemetry import partitions
    from fleetwatch.telemetry.models import SealMark

    partitions.ensure(NOW)
    for number, member in enumerate(fleet.nodes(count * GPUS)):
        _store_node(member, with_sharers=number % SHARED_EVERY == 0)
    SealMark.objects.all().delete()  # the windows are sealed already
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _store_node(member: Any, *, with_sharers: bool) -> None:
    from agent.batch import ClosedWindow, Sender, build
    from agent.sources.simulated import Simulated
    from fleetwatch.demo import plan, story
    from fleetwatch.ingest.services import store_batch
    from fleetwatch.inventory.models import GPU
    from fleetwatch.inventory.services import node_by_name
    from fleetwatch.lib.intervals import to_ms

    start_ms = to_ms(START)
    block = plan.Block(plan.Fill(start_ms, start_ms + HOURS * HOUR_MS), start_ms, start_ms + HOURS * HOUR_MS, WINDOW_MS // 1000)
    simulated = Simulated(member.spec, node=member.name, start_ms=block.start_ms)
    told = ClosedWindow(block.start_ms, [], simulated.resolve({}, gpus=simulated.gpus(), start_ms=block.start_ms, end_ms=block.end_ms))
    sender = Sender(member.name, block.fill.boot_id, story.BOOT_START_MS, block.window_s, member.labels)
    built = build([told], sender=sender, gpus=simulated.gpus(), agent={}, events=story.events(simulated, block))
    thin = [start for start in (block.start_ms, block.end_ms - WINDOW_MS) for _ in range(GPUS)]
    windows: wire.Columns = {"gpu": [*range(GPUS)] * 2, "start_ms": thin, "observed_ms": [WINDOW_MS] * len(thin)}
    batch = replace(built, sequence=1, windows=windows)
    if with_sharers:
        job = {"key": f"slurm/aurora/shared-{member.name}", "kind": "interactive", "user": "eve", "account": "nlp", "restarts": 0}
        holds = [
            {"gpu": gpu, "job": len(batch.jobs), "start_ms": start_ms, "end_ms": None, "source": "slurm", "share": None} for gpu in (0, 1)
        ]
        batch = replace(batch, jobs=[*batch.jobs, {**batch.jobs[0], **job}], allocations=[*batch.allocations, *holds])
    store_batch(node_by_name(member.name), batch, b"", received_at=NOW)
    gpus = dict(GPU.objects.filter(node__name=member.name, parent=None).values_list("index", "pk"))
    _store_chunks(node_by_name(member.name).pk, _table(member.name, gpus, simulated, block), block)


def _store_chunks(node_id: int, table: dict[str, np.ndarray], block: Any) -> None:
    from fleetwatch.lib.intervals import from_ms
    from fleetwatch.telemetry import codec
    from fleetwatch.telemetry.models import Chunk

    rows = []
    for hour in range(block.start_ms, block.end_ms, HOUR_MS):
        inside = (table["start_ms"] >= hour) & (table["start_ms"] < hour + HOUR_MS)
        part = {name: values[inside] for name, values in table.items()}
        rows.append(
            Chunk(
                node_id=node_id,
                start=from_ms(hour),
                end=from_ms(hour + HOUR_MS),
                version=codec.VERSION,
                window_count=int(inside.sum()),
                payload=codec.pack(part),
            )
        )
    Chunk.objects.bulk_create(rows)


def _table(name: str, gpus: dict[int, int], simulated: Any, block: Any) -> dict[str, np.ndarray]:
    """All windows of the node, as sealing would have joined them."""
    from agent.sources.simulated.card import card
    from agent.sources.simulated.schedule import jobs_between
    from fleetwatch.demo import story
    from fleetwatch.demo.columns import draw
    from fleetwatch.telemetry.tables import DEAD_PROCESSES

    spec = simulated.spec
    starts = story._starts(spec.seed, block)
    jobs = jobs_between(spec, block.start_ms, block.end_ms)
    cards = [card(spec, node=name, index=index) for index in range(GPUS)]
    drawn = [draw(each, jobs, starts, window_s=block.window_s, seed=spec.seed) for each in cards]
    rows = len(starts) * GPUS
    table: dict[str, np.ndarray] = {
        "gpu_id": np.repeat(np.array([gpus[index] for index in range(GPUS)], dtype=np.int64), len(starts)),
        "start_ms": np.tile(starts, GPUS),
        "boot_start_ms": np.full(rows, story.BOOT_START_MS, dtype=np.int64),
        "sequence": np.tile(1 + (starts - block.start_ms) // 30_000, GPUS),
        "window_ms": np.full(rows, WINDOW_MS, dtype=np.int64),
        "observed_ms": np.full(rows, WINDOW_MS, dtype=np.int64),
    }
    for column in drawn[0]:
        values = np.round(np.concatenate([columns[column] for columns in drawn]), story.DIGITS.get(column, 4)) + 0.0
        if not np.isnan(values).all():
            table[column] = values
    table[DEAD_PROCESSES] = np.zeros(rows)
    return table


def postgres_seconds(root: int) -> float:
    """CPU of a Postgres and all its processes, also of those that ended."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, rest = int(path.parent.name), path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if pid == root:
            total += sum(map(int, rest[11:15]))
        elif int(rest[1]) == root:
            total += sum(map(int, rest[11:13]))
    return total / TICKS


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fleetwatch.settings")
    sys.exit(main())
