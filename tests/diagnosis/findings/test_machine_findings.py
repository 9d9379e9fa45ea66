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
from fleetwatch.diagnosis.causes import SLOWED
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.models import CapacityEntry, CauseEntry
from fleetwatch.inventory.models import Node
from fleetwatch.lib.intervals import HOUR_MS, MINUTE_MS, Interval, to_ms
from tests.diagnosis.told import NOW, capacity, cause, gpu, place


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
