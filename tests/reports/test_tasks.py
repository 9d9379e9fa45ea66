"""The clock and the hands: asked for, planned, handed through the broker to real workers."""

import logging
import time
from collections.abc import Iterator

import pytest
import time_machine
from celery.contrib.testing.worker import start_worker

from fleetwatch.celery import app
from fleetwatch.operations.models import JobRun
from fleetwatch.reports import monthly, tasks
from fleetwatch.reports.models import MonthRun, Report
from tests.reports.factories import NOW, a_fleet

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _log_as_before() -> Iterator[None]:
    """A worker in the tests' own process sets the root's level to its own; it is put back."""
    level = logging.root.level
    yield
    logging.root.setLevel(level)


@pytest.mark.usefixtures("_log_as_before")
def test_a_month_that_was_asked_for_goes_through_the_broker_to_the_workers():
    a_fleet()
    monthly.ask("2026-10", now=NOW)

    with start_worker(
        app, pool="threads", concurrency=4, perform_ping_check=False, shutdown_timeout=20
    ):
        tasks.compute()
        deadline = time.monotonic() + 20
        while MonthRun.objects.get().state != "done" and time.monotonic() < deadline:
            time.sleep(0.05)

    assert MonthRun.objects.get().state == "done"
    assert Report.objects.count() == 4
    assert JobRun.objects.get(name="reports.compute").did == {"runs": 1, "parts": 4}
    assert [run.did for run in JobRun.objects.filter(name="reports.compute_part")] == [
        {"computed": 1}
    ] * 4


def test_with_nothing_to_do_nothing_is_sent():
    tasks.compute()

    assert JobRun.objects.get().did == {"runs": 0, "parts": 0}


def test_the_clock_asks_for_the_last_month():
    with time_machine.travel(NOW, tick=False):
        tasks.ask_for_last_month()

    assert JobRun.objects.get().did == {"asked": 1}
    assert MonthRun.objects.get().month == "2026-10"
