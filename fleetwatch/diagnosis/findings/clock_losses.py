"""What a lower clock cost of GPUs that heat or power slowed: work. The ledger counts little of it
as waste, as they were busy meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from django.db.models import Q, Sum

from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.models import CauseEntry, Finding
from fleetwatch.diagnosis.slowed_cells import Part, spread
from fleetwatch.jobs.models import Job
from fleetwatch.lib.intervals import Interval, floor_hour, to_ms

Asked = tuple[int, Interval]  # a GPU's id, and when


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
    whole = Interval(
        min(interval.start for _, interval in asked), max(interval.end for _, interval in asked)
    )
    gpu_ids = {gpu_id for gpu_id, _ in asked}
    entries = _entries(Q(gpu__in=gpu_ids), whole)
    rates = RatesInForce(gpu_ids)
    return [
        _loss([each for each in entries if each.gpu_id == gpu_id], interval, rates)
        for gpu_id, interval in asked
    ]


def of_findings(findings: Iterable[Finding], interval: Interval) -> Mapping[int, ClockLoss]:
    """By the finding's id what it took so in the period, of those of slowed GPUs alone."""
    slowed = [each for each in findings if each.cause == SLOWED and each.node_id]
    if not slowed:
        return {}
    entries = _entries(Q(node__in={each.node_id for each in slowed}), interval)
    rates = RatesInForce({each.gpu_id for each in entries})
    return {
        finding.pk: _loss(
            [each for each in entries if each.node_id == finding.node_id], interval, rates
        )
        for finding in slowed
    }


def in_all(interval: Interval) -> ClockLoss:
    """What it took so in the period of all that jobs held."""
    entries = _entries(Q(), interval)
    return _loss(entries, interval, RatesInForce({each.gpu_id for each in entries}))


def of_job(job: Job, interval: Interval) -> ClockLoss:
    """What it took so of the job in the period, on all its GPUs."""
    entries = _entries(Q(job=job), interval)
    return _loss(entries, interval, RatesInForce({each.gpu_id for each in entries}))


def most_slowed(job: Job, interval: Interval) -> str | None:
    """The UUID of the job's GPU that was slowed for longest while it held that; None of none."""
    rows = CauseEntry.objects.filter(
        job=job, cause=SLOWED, start__gte=floor_hour(interval.start), start__lt=interval.end
    )
    by_gpu = rows.order_by().values_list("gpu__uuid").annotate(slowed_ms=Sum("held_ms"))
    return next((uuid for uuid, _ in by_gpu.order_by("-slowed_ms", "gpu__uuid")[:1]), None)


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


def _entries(which: Q, interval: Interval) -> list[_Entry]:
    rows = CauseEntry.objects.filter(
        which, cause=SLOWED, start__gte=floor_hour(interval.start), start__lt=interval.end
    )
    return [_Entry(*row) for row in rows.values_list(*_Entry._fields)]


def _loss(entries: Iterable[_Entry], interval: Interval, rates: RatesInForce) -> ClockLoss:
    return total(_loss_of(entry, interval, rates) for entry in entries)


def _loss_of(entry: _Entry, interval: Interval, rates: RatesInForce) -> ClockLoss:
    """What of the entry's five minutes touches the time."""
    held = _inside(entry, entry.held_ms, interval)
    held_ms = sum(ms for *_, ms in held)
    if entry.clock_lost_ms is None or not held:
        return ClockLoss(held_ms, unread_ms=held_ms)
    lost_ms = sum(ms for *_, ms in _inside(entry, entry.clock_lost_ms, interval))
    start_ms, *_ = held[0]
    _, end_ms, _ = held[-1]
    usd = rates.usd(entry.gpu_id, start_ms, end_ms, lost_ms)
    return ClockLoss(held_ms, lost_ms, usd, unpriced_ms=lost_ms if usd is None else 0)


def _inside(entry: _Entry, ms: int, interval: Interval) -> list[Part]:
    """Of the milliseconds, spread over its five minutes, those that touch the time."""
    every = spread(to_ms(entry.start), entry.cells, ms)
    return [part for part in every if part[1] > interval.start_ms and part[0] < interval.end_ms]
