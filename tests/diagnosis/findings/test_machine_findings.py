"""Findings of nodes while others write: what one page says is of one moment."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from fleetwatch.accounts.selectors import organisation
from fleetwatch.diagnosis.findings import machine_findings
from fleetwatch.diagnosis.models import CapacityEntry
from fleetwatch.lib.intervals import HOUR_MS, Interval
from tests.diagnosis.told import NOW, capacity, gpu, place


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
