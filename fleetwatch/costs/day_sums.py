"""Sums of days: what a month of figures is read from.

Derived from entries, and never read when older than they are.
"""

from collections import Counter
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Min

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs.models import DayHours, SummedDay
from fleetwatch.figures import boundaries, engine
from fleetwatch.figures.cells import by_line
from fleetwatch.figures.ledger_time import LedgerTime
from fleetwatch.inventory.models import Node
from fleetwatch.ledger import retention
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, floor_hour
from fleetwatch.lib.sql import read_statement, wait_for_lock

# an hour that closed this long ago is posted: agents flush each half minute, posting follows within
# its own minute
SETTLED = timedelta(minutes=10)
# late data reopens days as far back as raw columns are kept; older ones change by an operator's
# hand alone
RECENT = timedelta(days=40)
NODE_DAYS_PER_STATEMENT = 200  # of 8 GPUs: some 200,000 entries
LOCK = "costs.sum_days"  # tasks skip a turn while another has it, commands wait

_UNSUMMED = read_statement("costs/sql/unsummed_days.sql")
_SUM = read_statement("costs/sql/sum_days.sql")
_WRONG_HOURS = read_statement("costs/sql/wrong_hours.sql")


def sum_days(now: datetime, limit: int, *, since: datetime | None = None) -> dict[str, int]:
    """How many days of nodes were summed (at most `limit`, the newest first).

    Looks from `since` on; None: from the first entry. Safe twice, beside another run and beside
    posting: a day whose entries change meanwhile is found again.
    """
    did = {"days": 0}
    interval = _since(since, until=floor_hour(now - SETTLED))
    if interval is None:
        return did
    while did["days"] < limit:
        found = _unsummed(interval, min(NODE_DAYS_PER_STATEMENT, limit - did["days"]))
        if not found:
            break
        _sum(found)
        did["days"] += len(found)
    return did


def refresh(now: datetime, limit: int) -> dict[str, int]:
    """As sum_days(), from the first entry on; what the ledger no longer has is forgotten."""
    horizon = retention.horizon(now)
    DayHours.objects.filter(start__lt=horizon).delete()
    forgotten, _ = SummedDay.objects.filter(start__lt=horizon).delete()
    return {"forgotten": forgotten} | sum_days(now, limit)


def wrong_sums(interval: Interval) -> list[tuple[str, datetime, int]]:
    """(node, day, milliseconds) of every sum in the interval, and of its hours, that counts as
    current and is not that of its entries.
    """
    found = [wrong for day in boundaries.days(interval, zone()) for wrong in _wrong_spans(day)]
    with connection.cursor() as cursor:
        cursor.execute(_WRONG_HOURS, {"start": interval.start, "end": interval.end})
        found += cursor.fetchall()
    return found


def _wrong_spans(day: Interval) -> list[tuple[str, datetime, int]]:
    by_sum, by_entry = _by_node(day, with_sums=True), _by_node(day, with_sums=False)
    off_ms: Counter[int] = Counter()
    for key in by_sum.keys() | by_entry.keys():
        off_ms[key[0]] += abs(by_sum[key] - by_entry[key])
    names = dict(
        Node.objects.filter(pk__in=[node for node, off in off_ms.items() if off]).values_list(
            "pk", "name"
        )
    )
    return sorted((name, day.start, off_ms[node]) for node, name in names.items())


def _by_node(day: Interval, *, with_sums: bool) -> Counter[tuple[int, int, str, str]]:
    """GPU time of the day by node, job, state and tier."""
    told = engine.read(LedgerTime(with_sums=with_sums), day, by=("node", "job"))
    nodes, jobs = told.by["node"], told.by["job"]
    found: Counter[tuple[int, int, str, str]] = Counter()
    for number, cells in by_line(told, nodes.at * len(jobs.ids) + jobs.at).items():
        node, job = divmod(number, len(jobs.ids))
        for cell in cells:
            found[int(nodes.ids[node]), int(jobs.ids[job]), cell.state, cell.tier] += cell.gpu_ms
    return found


def _since(since: datetime | None, *, until: datetime) -> Interval | None:
    """From then, or from the first entry, until then; None without anything between."""
    start = since or Entry.objects.aggregate(first=Min("start"))["first"]
    return None if start is None or start >= until else Interval(start, until)


def _unsummed(interval: Interval, limit: int) -> list[tuple[int, datetime, datetime]]:
    """(node id, start, until) of days to sum."""
    days = boundaries.days(interval, zone())
    wanted: dict[str, list[datetime] | int] = {
        "day_starts": [day.start for day in days],
        "day_untils": [min(day.end, interval.end) for day in days],
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_UNSUMMED, wanted)
        return list(cursor.fetchall())


@transaction.atomic
def _sum(found: list[tuple[int, datetime, datetime]]) -> None:
    # two that replace the hours of one day at once would both leave theirs
    wait_for_lock(LOCK)
    node_ids, starts, untils = zip(*found, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(
            _SUM, {"node_ids": list(node_ids), "starts": list(starts), "untils": list(untils)}
        )
