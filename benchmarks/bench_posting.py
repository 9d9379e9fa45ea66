"""Posting the ledger from sealed columns: CPU seconds of Python and of Postgres for 1,000 GPU-days,
on a real Postgres.

Nodes of 8 GPUs, a day of 10 s windows with every column, no two alike; jobs of all kinds, GPUs with
two holders, outages of telemetry. Posted for the first time by a worker that has posted before,
then once more with nothing changed, then one hour of each node.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import django

from benchmarks import profiled
from benchmarks.apart import say, side_by_side
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import Cell, Goal, Size, Table

NODES = {Size.QUICK: 8, Size.FULL: 125}
GPUS, HOURS, HOUR_MS = 8, 24, 3_600_000
START = datetime(2026, 11, 20, tzinfo=UTC)
NOW = START + timedelta(hours=HOURS + 1)
NO_LIMIT = 10**9
NODES_TOLD = 25  # between two lines on the terminal


def run(size: Size) -> list[Table]:
    """CPU seconds of posting 1,000 GPU-days from sealed columns: first, again, and an hour
    of it.
    """
    nodes = NODES[size]
    with running_hub() as hub:
        fill(nodes)
        return measure(hub, nodes)


def fill(nodes: int) -> None:
    """The nodes with their jobs, their windows as sealed chunks; every hour is marked to be
    posted.
    """
    from django.db import connection

    from fleetwatch.demo import fleet

    for done, _ in enumerate(
        side_by_side(_tell, fleet.nodes(nodes * GPUS), starts=django.setup), 1
    ):
        if done % NODES_TOLD == 0:
            say(f"{done} of {nodes} nodes are made")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _tell(member: Any) -> None:
    """Stores the node's day."""
    from benchmarks import bulk
    from fleetwatch.lib.intervals import Interval

    bulk.store(
        [member], bulk.Past(Interval(START, START + timedelta(hours=HOURS))), received_at=NOW
    )


def _warm_up() -> None:
    """A worker that has posted before: what is imported and prepared once in its life is not the
    cost of a GPU-day.
    """
    from django.db import transaction

    from fleetwatch.ledger import services

    with transaction.atomic():
        services.post(NOW, HOURS)
        transaction.set_rollback(True)


def measure(hub: Hub, nodes: int) -> list[Table]:
    """What it costs, and where the Python of it goes."""
    from fleetwatch.ledger import services
    from fleetwatch.lib.intervals import to_ms

    start_ms = to_ms(START)
    scale = 1000 / (nodes * GPUS * HOURS / 24)

    def again(first: int, last: int) -> Callable[[], dict[str, int]]:
        def post() -> dict[str, int]:
            services.repost(start_ms + first * HOUR_MS, start_ms + last * HOUR_MS)
            return services.post(NOW, NO_LIMIT)

        return post

    _warm_up()
    rows: list[list[Cell]] = []
    costs = []
    works = (
        ("first", lambda: services.post(NOW, NO_LIMIT)),
        ("again, nothing changed", again(0, HOURS)),
        ("one hour again", again(12, 13)),
    )
    for label, work in works:
        python_s, postgres_s = time.process_time(), hub.postgres_s()
        did = work()
        python_s, postgres_s = (
            (time.process_time() - python_s) * scale,
            (hub.postgres_s() - postgres_s) * scale,
        )
        costs.append(python_s + postgres_s)
        say(f"posted: {label}")
        rows.append(
            [
                label,
                python_s + postgres_s,
                python_s,
                postgres_s,
                did["hours"],
                did["entries"],
                did["runs"],
            ]
        )
    with profiled.sampled() as modules:
        again(0, HOURS)()
    where = f"{nodes * GPUS:,} GPUs x {HOURS} h, all columns"
    told = Table(
        f"Posting from sealed columns: {where}",
        [
            "",
            "CPU-s for 1,000 GPU-days",
            "Python",
            "Postgres",
            "node-hours",
            "entries",
            "parts of runs",
        ],
        rows,
        notes=(
            (
                "one process; reading and decoding the columns, judging, and writing what differs"
                " are all in it"
            ),
        ),
        goals=(
            Goal(
                "posting 1,000 GPU-days from sealed columns", costs[0], 10, 3, "CPU-s", where=where
            ),
        ),
    )
    return [
        told,
        profiled.table(
            "Where posting's Python goes, once more with nothing changed",
            modules,
            python_s=float(rows[1][2]),
        ),
    ]
