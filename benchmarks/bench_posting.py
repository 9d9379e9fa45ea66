"""Posting the ledger from sealed columns: CPU seconds of Python and of Postgres for 1,000 GPU-days,
on a real Postgres.

Nodes of 8 GPUs, a day of 10 s windows with every column, no two alike; jobs of all kinds, GPUs with
two holders, outages of telemetry. Posted for the first time by a worker that has posted before,
then once more with nothing changed, then one hour of each node.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import django

from benchmarks import profiled, reference
from benchmarks.apart import say, side_by_side
from benchmarks.servers import Hub, running_hub
from benchmarks.tables import BenchError, Cell, Goal, Size, Table

# a group of nodes that is posted at once, and more
NODES = {Size.QUICK: 32, Size.FULL: 125}
GPUS, HOURS, HOUR_MS, MINUTE_MS = 8, 24, 3_600_000, 60_000
START = datetime(2026, 11, 20, tzinfo=UTC)
NOW = START + timedelta(hours=HOURS + 1)
NO_LIMIT = 10**9
NODES_TOLD = 25  # between two lines on the terminal


def run(size: Size) -> list[Table]:
    """CPU seconds of posting 1,000 GPU-days from sealed columns: first, again, an hour of it;
    of posting live; and what it leaves on disk.
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
    cost of a GPU-day; it keeps memory and looks for garbage as workers do (celery.py).
    """
    from django.db import transaction

    from fleetwatch.ledger import services
    from fleetwatch.lib import allocator

    allocator.keep_freed()

    with transaction.atomic():
        services.post(NOW, HOURS)
        transaction.set_rollback(True)
    allocator.spare_loaded()


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
    kernels = [reference.kernel_s(hub)]
    rows: list[list[Cell]] = []
    works = (
        ("first", lambda: services.post(NOW, NO_LIMIT)),
        ("again, nothing changed", again(0, HOURS)),
        ("one hour again", again(12, 13)),
    )
    for label, work in works:
        rows.append(_row(hub, label, work, scale))
        kernels.append(reference.kernel_s(hub))
    with profiled.sampled() as modules:
        again(0, HOURS)()
    where = f"{nodes * GPUS:,} GPUs x {HOURS} h, all columns"
    live = _live(hub, 1000 / (nodes * GPUS))
    kernels.append(reference.kernel_s(hub))
    kernel = sorted(kernels)[len(kernels) // 2]
    rows += live
    gpu_days = nodes * GPUS * HOURS / 24
    return [
        Table(
            f"Posting from sealed columns: {where}",
            COLUMNS,
            rows,
            notes=(
                "one process; reading and decoding the columns, judging, and writing what differs"
                " are all in it",
                f"live: CPU-s a minute of 1,000 GPUs whose batches of a minute come in, the open"
                f" hour posted each two minutes, in minutes {LIVE.start} to {LIVE.stop} of the"
                " hour; a process reads all of the hour in its first posting of it, and then what"
                f" came since: the target is of the hour's mean, one first posting in {AN_HOUR}",
                f"a reference kernel took {kernel:.2f} CPU-s, median of {len(kernels)} in turns"
                " with the rest",
            ),
            goals=_goals(float(rows[0][1]), _mean_minute(live), kernel, where),
        ),
        profiled.table(
            "Where posting's Python goes, once more with nothing changed",
            modules,
            python_s=float(rows[1][2]),
        ),
        _bytes(gpu_days, where),
    ]


COLUMNS = (
    "", "CPU-s for 1,000 GPU-days", "Python", "Postgres", "node-hours", "entries", "parts of runs",
)  # fmt: skip
_POSTED = COLUMNS.index("node-hours") - 1
# Minutes of the newest hour that come in while they are measured: the hour is half over.
LIVE = range(26, 34)
# Minutes between two postings of a node's open hour (tasks.OPEN_HOUR_EACH), and postings of an
# hour.
EACH = 2
AN_HOUR = 60 // EACH


def _row(hub: Hub, label: str, work: Callable[[], dict[str, int]], scale: float) -> list[Cell]:
    did: Counter[str] = Counter()
    python_s, postgres_s = (spent * scale for spent in hub.cost(lambda: did.update(work())))
    say(f"posted: {label}")
    counts = (did["hours"], did["entries"], did["runs"])
    return [label, python_s + postgres_s, python_s, postgres_s, *counts]


def _live(hub: Hub, scale: float) -> list[list[Cell]]:
    """The newest hour comes in minute by minute, and is posted as the workers post it: the first
    posting of it by a process, and a minute of those that follow.
    """
    from benchmarks import hot_hour
    from fleetwatch.lib.intervals import to_ms
    from fleetwatch.telemetry.models import LastPosting

    # all was posted at NOW, later than the hour that comes in
    LastPosting.objects.all().delete()
    start_ms = to_ms(START) + (HOURS - 1) * HOUR_MS
    hour = hot_hour.cut(start_ms)
    first = LIVE.start - EACH
    hot_hour.come_in(hour, start_ms, start_ms + first * MINUTE_MS)
    minutes = [
        _minute(hub, hour, start_ms + minute * MINUTE_MS, scale)
        for minute in range(first, LIVE.stop)
    ]
    parts = minutes[EACH:]
    live = [sum(column) / len(parts) for column in list(zip(*parts, strict=True))[1:]]
    if not live[_POSTED]:
        raise BenchError("no hour was posted live")
    return [
        ["live, a process' first posting of the hour", *minutes[0][1:]],
        ["live, a minute of those that follow", *live],
    ]


def _minute(hub: Hub, hour: dict[int, Any], start_ms: int, scale: float) -> list[Cell]:
    """The minute comes in, and the nodes are posted that wait by then."""
    from benchmarks import hot_hour
    from fleetwatch.ledger import services
    from fleetwatch.ledger.tasks import OPEN_HOUR_EACH
    from fleetwatch.lib.intervals import from_ms
    from fleetwatch.telemetry.services import touch_hours

    end_ms = start_ms + MINUTE_MS
    hot_hour.come_in(hour, start_ms, end_ms)
    for node_id in hour:
        touch_hours(node_id, [(start_ms, end_ms)])
    post = partial(services.post, from_ms(end_ms), NO_LIMIT, open_hour_each=OPEN_HOUR_EACH)
    return _row(hub, "a minute", post, scale)


def _mean_minute(live: list[list[Cell]]) -> float:
    """CPU-s of a minute, on the mean of an hour: a first posting, and those that follow."""
    first, minute = (float(row[1]) for row in live)
    return (first + (AN_HOUR - 1) * EACH * minute) / 60


def _goals(first: float, live: float, kernel: float, where: str) -> tuple[Goal, ...]:
    return (
        Goal(
            "posting 1,000 GPU-days from sealed columns",
            first,
            6,
            3,
            "CPU-s",
            where=where,
            kernel_s=kernel,
        ),
        Goal(
            "live posting, 1,000 GPUs, a minute",
            live,
            0.25,
            0.1,
            "CPU-s",
            where=where,
            kernel_s=kernel,
        ),
    )


def _bytes(gpu_days: float, where: str) -> Table:
    """What a GPU-day takes on disk, indexes included: of the ledger, and of the columns that it
    was judged from.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "VACUUM FULL ledger_hourruns, ledger_entry, ledger_hourcells, telemetry_chunk"
        )
        cursor.execute(
            "SELECT name, pg_total_relation_size(name::regclass) FROM unnest(%s::text[]) AS name",
            [list(LEDGER + RAW)],
        )
        kilobytes = {name: size / gpu_days / 1000 for name, size in cursor.fetchall()}
    ledger, raw = (sum(kilobytes[name] for name in names) for names in (LEDGER, RAW))
    return Table(
        f"Bytes of a GPU-day: {where}",
        ["table", "kB a GPU-day"],
        [[name, kilobytes[name]] for name in LEDGER + RAW],
        notes=("indexes included, rewritten whole first: what dead rows take is left out",),
        goals=(
            Goal("ledger, bytes of a GPU-day", ledger / raw, 1, 0.5, "x raw columns", where=where),
        ),
    )


LEDGER = ("ledger_entry", "ledger_hourruns", "ledger_hourcells")
RAW = ("telemetry_chunk",)
