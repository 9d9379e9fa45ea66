"""What the fleet spends at this moment, and what of it idles."""

from decimal import Decimal

import pytest

from fleetwatch.figures.fleet_now import spending_now
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import to_ms
from tests.costs.factories import HOUR, a_gpu, a_job, a_rate, a_run

pytestmark = pytest.mark.django_db


def test_spending_now_counts_every_gpu_and_what_of_it_is_idle():
    now_ms = to_ms(HOUR)
    busy, idle, free, ended, retired = (a_gpu() for _ in range(5))
    a_gpu(model=None)
    retired.retired_ms = now_ms - 1
    retired.save(update_fields=["retired_ms"])
    a_rate("2.50", gpu=busy)
    job = a_job()
    span = {"start_ms": now_ms - 3_600_000, "end_ms": now_ms - 30_000}
    a_run(busy, job=job, state_ms={"useful": 3_570_000}, **span)
    a_run(idle, job=job, condition="quiet", state_ms={"idle": 3_570_000}, **span)
    a_run(free, condition="free", state_ms={"free": 3_570_000}, **span)
    a_run(
        ended,
        job=job,
        condition="quiet",
        state_ms={"idle": 60_000},
        start_ms=now_ms - 200_000,
        end_ms=now_ms - 140_000,
    )
    a_run(
        ended,
        condition="free",
        state_ms={"free": 110_000},
        start_ms=now_ms - 140_000,
        end_ms=now_ms - 30_000,
    )

    now = spending_now(HOUR)

    assert (now.gpus, now.allocated_gpus, now.idle_gpus, now.unpriced_gpus) == (5, 2, 1, 1)
    assert now.usd_per_hour == Decimal(10)
    assert now.idle_usd_per_hour == Decimal("2.5")


def test_an_idle_half_of_a_shared_gpu_is_half_its_price():
    now_ms = to_ms(HOUR)
    gpu = a_gpu()
    a_rate("3.00", gpu=gpu)
    span = {"start_ms": now_ms - 3_600_000, "end_ms": now_ms}
    a_run(gpu, job=a_job(), condition="quiet", state_ms={"idle": 1_800_000}, **span)
    a_run(
        gpu, job=a_job(kind="service"), condition="quiet", state_ms={"stalled": 1_800_000}, **span
    )

    now = spending_now(HOUR)

    assert (now.allocated_gpus, now.idle_gpus, now.idle_usd_per_hour) == (1, 1, Decimal("1.5"))


def test_runs_of_long_ago_are_not_now():
    now_ms = to_ms(HOUR)
    gpu = a_gpu()
    a_run(
        gpu,
        job=a_job(),
        condition="quiet",
        state_ms={"idle": 1_000},
        start_ms=now_ms - 1_201_000,
        end_ms=now_ms - 1_200_000,
    )

    assert (spending_now(HOUR).allocated_gpus, spending_now(HOUR).idle_gpus) == (0, 0)


def test_a_gpu_without_a_posted_run_of_the_last_minutes_is_not_judged_yet():
    now_ms = to_ms(HOUR)
    posted, _ = a_gpu(), a_gpu()
    a_run(
        posted,
        condition="free",
        state_ms={"free": 60_000},
        start_ms=now_ms - 90_000,
        end_ms=now_ms - 30_000,
    )

    now = spending_now(HOUR)

    assert (now.gpus, now.judged_gpus, now.unjudged_gpus) == (2, 1, 1)


def test_gpus_that_nobody_observes_are_neither_allocated_nor_free():
    """8 GPUs: 2 are allocated and seen, 1 is free and seen, the 5 of a silent node have runs
    without a holder.
    """
    span = {"start_ms": to_ms(HOUR) - 90_000, "end_ms": to_ms(HOUR) - 30_000}
    for _ in range(2):
        a_run(a_gpu(), job=a_job(), state_ms={"useful": 60_000}, **span)
    a_run(a_gpu(), condition="free", state_ms={"free": 60_000}, **span)
    for _ in range(5):
        a_run(a_gpu(node="silent"), condition="unobserved", state_ms={"unobserved": 60_000}, **span)

    now = spending_now(HOUR)

    assert (now.gpus, now.judged_gpus, now.unobserved_gpus) == (8, 8, 5)
    assert (now.allocated_gpus, now.known_gpus - now.allocated_gpus) == (2, 1)


def test_a_gpu_is_observed_as_its_newest_run_says():
    now_ms = to_ms(HOUR)
    back, gone = a_gpu(), a_gpu()
    for gpu, conditions in ((back, ("unobserved", "free")), (gone, ("free", "unobserved"))):
        for number, condition in enumerate(conditions):
            start_ms = now_ms - 120_000 + number * 60_000
            a_run(
                gpu,
                condition=condition,
                state_ms={condition: 60_000},
                start_ms=start_ms,
                end_ms=start_ms + 60_000,
            )

    assert (spending_now(HOUR).unobserved_gpus, spending_now(HOUR).known_gpus) == (1, 1)


def test_a_holder_that_is_known_is_allocated_though_nobody_observes_its_gpu():
    now_ms = to_ms(HOUR)
    a_run(
        a_gpu(),
        job=a_job(),
        condition="unobserved",
        state_ms={"unobserved": 60_000},
        start_ms=now_ms - 60_000,
        end_ms=now_ms,
    )

    assert (spending_now(HOUR).allocated_gpus, spending_now(HOUR).unobserved_gpus) == (1, 0)


def test_a_gpu_in_slices_is_judged_once():
    now_ms = to_ms(HOUR)
    board = a_gpu()
    for _ in range(2):
        part = a_gpu(node=board.node.name, parent=board)
        a_run(
            part,
            condition="free",
            state_ms={"free": 60_000},
            start_ms=now_ms - 90_000,
            end_ms=now_ms - 30_000,
        )

    assert (spending_now(HOUR).gpus, spending_now(HOUR).judged_gpus) == (1, 1)


@pytest.mark.parametrize(("ended_ms", "gpus"), [(599_999, 1), (600_000, 0)])
def test_a_gpu_whose_node_is_off_the_bill_costs_nothing_now(ended_ms, gpus):
    a_gpu()
    Node.objects.update(last_ms=to_ms(HOUR) - 86_400_000, silent_ms=to_ms(HOUR) - ended_ms)

    assert spending_now(HOUR).gpus == gpus
