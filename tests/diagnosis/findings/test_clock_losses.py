"""What a lower clock cost of slowed GPUs, beside what the ledger calls waste."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError

from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.findings import clock_losses
from fleetwatch.diagnosis.findings.clock_losses import ClockLoss
from fleetwatch.diagnosis.models import CauseEntry
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval, from_ms, to_ms
from tests.diagnosis.told import NOW, cause, gpu, job, place, rate

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
START_MS = to_ms(NOW - HOUR)
CELL_MS = 5 * MINUTE_MS
OF_HOUR = Interval(NOW - HOUR, NOW)


def slowed(lost: float | None = 0.4, *, on: int = 1, **facts) -> CauseEntry:
    """The hour from 11:00, of which the ledger counts a hundredth; the clock cost `lost` of it."""
    lost_ms = None if lost is None else round(lost * HOUR_MS)
    usual = {"start": NOW - HOUR, "low": 0.01, "high": 0.01, "clock_lost_ms": lost_ms}
    return cause(SLOWED, on=gpu(on), **(usual | facts))


def of_gpu(start_ms: int = START_MS, end_ms: int = START_MS + HOUR_MS) -> ClockLoss:
    [loss] = clock_losses.of_gpus([(gpu(1).pk, Interval(from_ms(start_ms), from_ms(end_ms)))])
    return loss


def test_it_costs_work_at_the_gpus_rate_whatever_the_ledger_counts():
    rate("4.00")
    slowed()

    assert of_gpu() == ClockLoss(HOUR_MS, HOUR_MS * 4 // 10, Decimal("1.60"), 0, 0)
    assert of_gpu().clock == pytest.approx(0.6)


def test_a_finding_has_all_gpus_of_its_node_and_says_the_same_as_these():
    rate("4.00")
    slowed(on=1)
    slowed(0.1, on=2)
    cause(SLOWED, on=gpu(1, node="n2"), clock_lost_ms=HOUR_MS)
    finding, broken = place(SLOWED, node=gpu(1).node), place("gpu_fault", node=gpu(1).node)

    losses = clock_losses.of_findings([finding, broken], OF_HOUR)

    several = clock_losses.of_gpus([(gpu(number).pk, OF_HOUR) for number in (1, 2)])
    assert losses == {finding.pk: ClockLoss(2 * HOUR_MS, HOUR_MS // 2, Decimal("2.00"), 0, 0)}
    assert sum(each.lost_ms for each in several) == HOUR_MS // 2
    assert sum(each.usd for each in several) == Decimal("2.00")


@pytest.mark.parametrize(
    ("first", "last", "cells"),
    [
        (0, 60, 12),
        (5, 60, 11),  # the first five minutes end as it begins
        (4, 60, 12),
        (0, 55, 11),
        (0, 56, 12),
        (30, 31, 1),
    ],
)
def test_of_a_part_of_the_hour_are_the_five_minutes_that_touch_it(first, last, cells):
    rate("4.00")
    slowed(0.6)

    loss = of_gpu(START_MS + first * MINUTE_MS, START_MS + last * MINUTE_MS)

    assert (loss.held_ms, loss.lost_ms) == (cells * CELL_MS, cells * 3 * MINUTE_MS)
    assert loss.usd == Decimal("0.20") * cells


def test_what_was_not_worked_out_is_no_zero():
    rate("4.00")
    slowed(None)

    assert of_gpu() == ClockLoss(HOUR_MS, 0, None, 0, HOUR_MS)
    assert of_gpu().clock is None


def test_hours_that_were_not_worked_out_are_beside_those_that_were():
    rate("4.00")
    slowed(None, start=NOW - 2 * HOUR)
    slowed()

    loss = of_gpu(START_MS - HOUR_MS)

    assert (loss.lost_ms, loss.unread_ms, loss.usd) == (
        HOUR_MS * 4 // 10,
        HOUR_MS,
        Decimal("1.60"),
    )
    assert loss.clock == pytest.approx(0.6)


def test_without_a_rate_it_is_hours_and_no_dollars():
    slowed()

    assert of_gpu() == ClockLoss(HOUR_MS, HOUR_MS * 4 // 10, None, HOUR_MS * 4 // 10, 0)


def test_before_there_was_a_rate_it_is_in_no_dollars_and_that_is_told():
    rate("4.00", valid_from=NOW - HOUR)
    slowed(start=NOW - 2 * HOUR)
    slowed()

    loss = of_gpu(START_MS - HOUR_MS)

    assert (loss.usd, loss.unpriced_ms) == (Decimal("1.60"), HOUR_MS * 4 // 10)


def test_of_nothing_nothing_is_known():
    assert of_gpu() == ClockLoss()
    assert of_gpu().clock is None
    assert clock_losses.of_gpus([]) == []
    assert clock_losses.of_findings([], OF_HOUR) == {}


def test_two_jobs_of_one_gpu_are_both_in_it():
    rate("4.00")
    for key in ("slurm/della/7", "slurm/della/8"):
        slowed(0.2, of=job(key), hours=0.5)

    assert (of_gpu().held_ms, of_gpu().lost_ms) == (HOUR_MS, HOUR_MS * 4 // 10)


@pytest.mark.parametrize("lost_ms", [-1, HOUR_MS + 1])
def test_a_clock_costs_no_more_than_was_held_and_never_less_than_nothing(lost_ms):
    with pytest.raises(IntegrityError, match="a_clock_costs_a_part"):
        slowed(clock_lost_ms=lost_ms)
