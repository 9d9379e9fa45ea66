"""What a lower clock cost of GPUs that heat or power slowed: work. The ledger counts little of it
as waste, as they were busy meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Q

from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.slowed_cells import spread
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval, floor_hour, from_ms, to_ms

Asked = tuple[int, int, int]  # a GPU's id, and [start_ms, end_ms)


@dataclass(frozen=True, slots=True)
class ClockLoss:
    """How long jobs held GPUs while these were slowed, and of that what the lower clock cost at
    most: as if all work followed the clock, and no more than the time in which the driver held it
    down. `usd` of that, None where none of it has a rate.

    Of `unread_ms` of the held time that was not worked out, and of `unpriced_ms` of what it cost
    there is no rate: neither is in what is told.
    """

    held_ms: int = 0
    lost_ms: int = 0
    usd: Decimal | None = None
    unpriced_ms: int = 0
    unread_ms: int = 0

    @property
    def read_ms(self) -> int:
        return self.held_ms - self.unread_ms

    @property
    def clock(self) -> float | None:
        """As if at this share of the highest clock, at least; None where that is not known."""
        return 1 - self.lost_ms / self.read_ms if self.read_ms else None


NOTHING = ClockLoss()


class _Entry(NamedTuple):
    """Of a CauseEntry what is read of it."""

    node_id: int
    gpu_id: int
    start: datetime
    cells: int
    held_ms: int
    clock_lost_ms: int | None


def of_gpus(asked: Sequence[Asked]) -> list[ClockLoss]:
    """Of each GPU in its time: five minutes that touch it."""
    if not asked:
        return []
    gpu_ids = {gpu_id for gpu_id, *_ in asked}
    _, starts, ends = zip(*asked, strict=True)
    entries = _entries(Q(gpu__in=gpu_ids), min(starts), max(ends))
    rates = RatesInForce(gpu_ids)
    return [
        _loss([each for each in entries if each.gpu_id == gpu_id], start_ms, end_ms, rates)
        for gpu_id, start_ms, end_ms in asked
    ]


def of_findings(findings: Iterable[Finding], interval: Interval) -> Mapping[int, ClockLoss]:
    """By the finding's id what it took so in the period, of those of slowed GPUs alone."""
    slowed = [each for each in findings if each.cause == SLOWED and each.node_id]
    if not slowed:
        return {}
    nodes = {each.node_id for each in slowed}
    start_ms, end_ms = interval.start_ms, interval.end_ms
    entries = _entries(Q(node__in=nodes), start_ms, end_ms)
    rates = RatesInForce({each.gpu_id for each in entries})
    return {
        finding.pk: _loss(
            [each for each in entries if each.node_id == finding.node_id], start_ms, end_ms, rates
        )
        for finding in slowed
    }


def of_job(job: Job, interval: Interval) -> ClockLoss:
    """What it took so of the job in the period, on all its GPUs."""
    start_ms, end_ms = interval.start_ms, interval.end_ms
    entries = _entries(Q(job=job), start_ms, end_ms)
    return _loss(entries, start_ms, end_ms, RatesInForce({each.gpu_id for each in entries}))


def total(losses: Iterable[ClockLoss]) -> ClockLoss:
    """Those of different time as one."""
    every = [*losses]
    dollars = [each.usd for each in every if each.usd is not None]
    return ClockLoss(
        sum(each.held_ms for each in every),
        sum(each.lost_ms for each in every),
        sum(dollars, Decimal(0)) if dollars else None,
        sum(each.unpriced_ms for each in every),
        sum(each.unread_ms for each in every),
    )


def _entries(which: Q, start_ms: int, end_ms: int) -> list[_Entry]:
    rows = CauseEntry.objects.filter(
        which,
        cause=SLOWED,
        start__gte=floor_hour(from_ms(start_ms)),
        start__lt=from_ms(end_ms),
    )
    return [_Entry(*row) for row in rows.values_list(*_Entry._fields)]


def _loss(entries: Iterable[_Entry], start_ms: int, end_ms: int, rates: RatesInForce) -> ClockLoss:
    held_ms = lost_ms = unpriced_ms = unread_ms = 0
    priced = []
    for entry in entries:
        first_ms, last_ms, own_ms = _inside(entry, entry.held_ms, start_ms, end_ms)
        held_ms += own_ms
        if entry.clock_lost_ms is None:
            unread_ms += own_ms
            continue
        *_, cost_ms = _inside(entry, entry.clock_lost_ms, start_ms, end_ms)
        lost_ms += cost_ms
        usd = rates.usd(entry.gpu_id, first_ms, last_ms, cost_ms) if cost_ms else Decimal(0)
        unpriced_ms += cost_ms if usd is None else 0
        priced.append(usd)
    dollars = [usd for usd in priced if usd is not None]
    return ClockLoss(
        held_ms, lost_ms, sum(dollars, Decimal(0)) if dollars else None, unpriced_ms, unread_ms
    )


def _inside(entry: _Entry, ms: int, start_ms: int, end_ms: int) -> tuple[int, int, int]:
    """From its first to its last five minutes that touch the time, and what of the milliseconds
    lies in these.
    """
    every = spread(to_ms(entry.start), entry.cells, ms)
    parts = [part for part in every if part[1] > start_ms and part[0] < end_ms]
    if not parts:
        return start_ms, start_ms, 0
    return parts[0][0], parts[-1][1], sum(part[2] for part in parts)
