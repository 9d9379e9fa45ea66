"""Sums of days: what a month of figures is read from.

Derived from entries, and never read when older than they are.
"""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Min

from fleetwatch.accounts.selectors import zone
from fleetwatch.costs import fleet_days
from fleetwatch.costs.models import DayHours, SummedDay
from fleetwatch.figures import boundaries, engine, fleet_sums
from fleetwatch.figures.cells import by_groups
from fleetwatch.figures.ledger_time import LedgerTime
from fleetwatch.inventory.models import Node
from fleetwatch.ledger import retention
from fleetwatch.ledger.models import Entry
from fleetwatch.lib.intervals import Interval, floor_hour
from fleetwatch.lib.sql import execute, read_statement, wait_for_lock

# an hour that closed this long ago is posted: agents flush each half minute, posting follows within
# its own minute
SETTLED = timedelta(minutes=10)
# late data reopens days as far back as raw columns are kept; older ones change by an operator's
# hand alone
RECENT = timedelta(days=40)
NODE_DAYS_PER_STATEMENT = 200  # of 8 GPUs: some 200,000 entries
Groups = tuple[str, ...]  # of figures.selectors.GROUPS
Wrong = tuple[Any, ...]  # name of a node or EVERY_NODE, start of a day, milliseconds
EVERY_NODE = "every node"
LOCK = "costs.sum_days"  # of tasks the turn, of whoever writes sums the lock that he waits for

_OF_NODES = LedgerTime(with_fleet_days=False)
_OF_ENTRIES = LedgerTime(with_sums=False)

_UNSUMMED = read_statement("costs/sql/unsummed_days.sql")
_SUM = read_statement("costs/sql/sum_days.sql")
_WRONG_HOURS = read_statement("costs/sql/wrong_hours.sql")


def sum_days(now: datetime, limit: int, *, since: datetime | None = None) -> dict[str, int]:
    """How many days of nodes were summed (at most `limit`, the newest first), and then how many of
    the whole fleet.

    Looks from `since` on; None: from the first entry. Safe twice, beside another run and beside
    posting: a day whose entries change meanwhile is found again.
    """
    summed = 0
    until = floor_hour(now - SETTLED)
    start = since or Entry.objects.aggregate(first=Min("start"))["first"]
    if start is None or start >= until:
        return {"days": 0, "fleet_days": 0}
    while days := _unsummed(Interval(start, until), min(NODE_DAYS_PER_STATEMENT, limit - summed)):
        _sum(days)
        summed += len(days)
    return {"days": summed, "fleet_days": _sum_fleet(Interval(start, until))}


def _sum_fleet(interval: Interval) -> int:
    """How many days of the fleet were summed, of those of which all nodes' are."""
    days = fleet_days.unsummed(interval)
    summed = [day for day in days if not _unsummed(day, 1)]
    for day in summed:
        fleet_days.sum_day(day)
    return len(summed)


def refresh(now: datetime, limit: int) -> dict[str, int]:
    """As sum_days(), from the first entry on; what the ledger no longer has is forgotten."""
    horizon = retention.horizon(now)
    DayHours.objects.filter(start__lt=horizon).delete()
    fleet_days.forget_before(horizon)
    forgotten, _ = SummedDay.objects.filter(start__lt=horizon).delete()
    return {"forgotten": forgotten} | sum_days(now, limit)


def wrong_sums(interval: Interval) -> list[Wrong]:
    """(node, day, milliseconds) of every sum in the interval, and of its hours, that counts as
    current and is not that of its entries; of a sum of the fleet EVERY_NODE.
    """
    fleet_sums.forget_kept()
    days = boundaries.days(interval, zone())
    spans = [wrong for day in days for wrong in (*_wrong_spans(day), *_wrong_of_fleet(day))]
    hours = execute(_WRONG_HOURS, {"start": interval.start, "end": interval.end})
    return [*spans, *hours]


def _wrong_spans(day: Interval) -> list[Wrong]:
    """Of the sums of each GPU, of those of one price and of all holders, what is off most."""
    off_ms: Counter[int] = Counter()
    for groups in (("node", "job", "gpu"), ("node", "job"), ("node",)):
        off_ms |= _off_ms(day, groups, _OF_NODES)
    wrong = Node.objects.filter(pk__in=[node for node, off in off_ms.items() if off])
    return sorted((node.name, day.start, off_ms[node.pk]) for node in wrong)


def _wrong_of_fleet(day: Interval) -> list[Wrong]:
    """Of the sums of the fleet, of holders, of GPUs, of nodes, of all and of hours, what is off
    most.
    """
    groups = ("job", "gpu", "node", "gpu_model")
    off_ms = max(
        _off_ms(day, ("gpu", "job"), LedgerTime(), step="hour").total(),
        *(_off_ms(day, (group,), LedgerTime()).total() for group in groups),
    )
    return [(EVERY_NODE, day.start, off_ms)] if off_ms else []


def _off_ms(
    day: Interval, groups: Groups, sums: LedgerTime, *, step: str | None = None
) -> Counter[int]:
    """By the first of these groups how far its sums are from its entries."""
    differences = _by_group(day, groups, sums, step)
    differences.subtract(_by_group(day, groups, _OF_ENTRIES, step))
    off_ms: Counter[int] = Counter()
    for (key, *_), gpu_ms in differences.items():
        off_ms[key] += abs(gpu_ms)
    return off_ms


def _by_group(
    day: Interval, groups: Groups, time: LedgerTime, step: str | None
) -> Counter[tuple[Any, ...]]:
    """GPU time of the day by these groups, step, state and tier."""
    columns = engine.read(time, day, by=groups, step=step)
    gpu_ms: Counter[tuple[Any, ...]] = Counter()
    for ids, cells in by_groups(columns, *columns.by).items():
        for cell in cells:
            gpu_ms[*ids, cell.kind.state, cell.kind.tier] += cell.gpu_ms
    return gpu_ms


def _unsummed(interval: Interval, limit: int) -> list[tuple[Any, ...]]:
    """(node id, start, until) of days to sum."""
    days = boundaries.days(interval, zone())
    wanted = {
        "day_starts": [day.start for day in days],
        "day_untils": [min(day.end, interval.end) for day in days],
        "limit": limit,
    }
    return execute(_UNSUMMED, wanted)


@transaction.atomic
def _sum(days: list[tuple[Any, ...]]) -> None:
    # two that replace the hours of one day at once would both leave theirs
    wait_for_lock(LOCK)
    node_ids, starts, untils = map(list, zip(*days, strict=True))
    execute(_SUM, {"node_ids": node_ids, "starts": starts, "untils": untils})
