"""Findings of nodes: until when a GPU was in one; and while others write, what one page says is of
one moment.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from fleetwatch.accounts.selectors import organisation
from fleetwatch.dashboard import machine_pages
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.findings import machine_episodes, machine_findings
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry, Finding
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval, to_ms
from tests.costs.factories import a_run
from tests.diagnosis.told import NOW, capacity, cause, gpu, place

HOUR = timedelta(hours=1)


def taken_away() -> None:
    """By another connection, as diagnosis replaces a node's hour."""
    with closing(connection):
        CapacityEntry.objects.all().delete()


@pytest.mark.django_db(transaction=True)
def test_gpus_of_an_hour_that_is_replaced_meanwhile_are_told_as_they_were():
    organisation()
    capacity("gpu_fault")
    finding = place("gpu_fault", node=gpu().node)

    def before_the_firsts(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "MIN(" in sql:
            with ThreadPoolExecutor(1) as other:
                other.submit(taken_away).result()
        return execute(sql, *rest)

    with connection.execute_wrapper(before_the_firsts):
        lines = machine_findings.affected(finding, Interval(NOW - timedelta(days=1), NOW))

    assert [(line.gpu, line.gpu_ms) for line in lines] == [(gpu(), HOUR_MS)]
    assert not CapacityEntry.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("minute", [0, 30])
def test_a_gpu_is_slowed_until_its_last_five_minutes_also_where_midnight_cuts_the_hour(minute):
    """GPU 1 for ten minutes five hours ago, GPU 2 to the end; at 30 a day of India begins."""
    start = NOW - timedelta(hours=5) + timedelta(minutes=minute)
    cause(SLOWED, on=gpu(1), start=start)
    CauseEntry.objects.update(cells=0b11 << minute // 5)
    cause(SLOWED, on=gpu(2), start=NOW - timedelta(hours=1))
    Node.objects.update(last_ms=to_ms(NOW))
    finding = place(SLOWED, node=Node.objects.get())

    assert machine_findings.over_on_gpu_ms(finding, gpu(1)) == to_ms(start) + 10 * MINUTE_MS
    assert machine_findings.over_on_gpu_ms(finding, gpu(2)) is None


def left_in_the_last_hour(code: str, condition: str) -> Finding:
    """From 11:00: GPU 1 until 11:20, GPU 2 until 11:40; its node was heard at 14:00."""
    start_ms = to_ms(NOW - HOUR)
    for number, minutes in ((1, 20), (2, 40)):
        capacity(code, on=gpu(number), start=NOW - HOUR)
        end_ms = start_ms + minutes * MINUTE_MS
        a_run(gpu(number), condition=condition, state_ms={}, start_ms=start_ms, end_ms=end_ms)
    Node.objects.update(last_ms=to_ms(NOW) + 2 * HOUR_MS)
    return place(code, node=gpu(1).node, first_ms=start_ms, last_ms=to_ms(NOW))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "condition"), [("orphaned", "orphaned"), ("no_telemetry", "unobserved")]
)
def test_what_is_over_is_so_since_the_last_gpu_left_its_state(code, condition):
    over = left_in_the_last_hour(code, condition)

    line = machine_findings.line_of(over, Interval(NOW - HOUR, NOW), now=NOW)
    [row] = machine_pages.rows([line], Interval(NOW - HOUR, NOW))

    last_ms = to_ms(NOW) - 20 * MINUTE_MS
    assert machine_findings.over_since_ms(over) == row.last_ms == last_ms
    assert machine_findings.over_on_gpu_ms(over, gpu(1)) == to_ms(NOW) - 40 * MINUTE_MS
    assert machine_episodes.newest_ms(over) == (to_ms(NOW - HOUR), last_ms)


@pytest.mark.django_db
def test_without_its_runs_it_is_over_since_its_last_hour():
    over = left_in_the_last_hour("no_telemetry", "active")

    assert machine_findings.over_since_ms(over) == to_ms(NOW)
