"""Several workers at once: every hour is posted once, none is lost."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from fleetwatch.ledger import services
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry.models import TouchedHour
from tests.ledger.balance import unbalanced
from tests.ledger.fleet import (
    BUSY,
    MINUTE,
    NOW,
    QUIET,
    T0,
    Sender,
    a_job,
    held,
    hour,
    ledger,
    parts,
    post,
    states,
    store,
)

ROOT = Path(__file__).resolve().parents[2]
# a worker that dies in the middle: it has claimed hours and written their entries, and never gets
# to commit
VICTIM = """
import sys, time, django
django.setup()
from datetime import datetime
from fleetwatch.ledger import services

def stuck(claims, posted_at):
    print("posted", flush=True)
    time.sleep(600)

services.release_touched = stuck
services.post(datetime.fromisoformat(sys.argv[1]), 3)
"""


def work(_: int) -> int:
    """The hours that one worker posted, three at a time."""
    try:
        return sum(services.post(NOW, 3)["hours"] for _ in range(8))
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_workers_side_by_side_post_what_one_would():
    names = ["a", "b", "c"]
    for name in names:
        sender = Sender(name)
        for at in range(4):
            says = [*[BUSY] * 50, *[QUIET] * 10] if at % 2 == 0 else [*[QUIET] * 5, *[BUSY] * 55]
            store(
                sender.batch(
                    T0 + at * HOUR_MS,
                    *says,
                    jobs=[a_job(f"slurm/della/{name}")],
                    allocations=[held()],
                )
            )

    with ThreadPoolExecutor(3) as workers:
        hours = sum(workers.map(work, range(3)))

    hours += services.post(NOW, 100)["hours"]
    assert hours == 12
    assert not TouchedHour.objects.exists()
    for name in names:
        assert states(name) == {"useful": 4 * HOUR_MS - 30 * MINUTE, "idle": 30 * MINUTE}
    assert unbalanced(hour(0), hour(4), now=NOW) == []


def the_same_day(name):
    """Batches of a node whose hours hang together: quiet runs cross them, one job holds
    them all.
    """
    sender = Sender(name)
    says = [*[BUSY] * 50, *[QUIET] * 70, *[BUSY] * 60, *[QUIET] * 50, *[BUSY] * 10]
    return [
        sender.batch(
            T0 + at * HOUR_MS, *says[at * 60 : at * 60 + 60], jobs=[a_job()], allocations=[held()]
        )
        for at in range(4)
    ]


@pytest.mark.django_db(transaction=True)
def test_two_workers_and_one_killed_while_it_posts_say_what_one_says():
    post(*the_same_day("alone"))
    names = ["a", "b", "c"]
    for name in names:
        for batch in the_same_day(name):
            store(batch)
    url = (
        urlsplit(os.environ["DATABASE_URL"])
        ._replace(path=f"/{connection.settings_dict['NAME']}")
        .geturl()
    )
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, NOW.isoformat()],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert victim.stdout.readline() == "posted\n"
        with ThreadPoolExecutor(2) as workers:
            # the other two nodes; nobody waits for the third
            assert sum(workers.map(work, range(2))) == 8
        assert TouchedHour.objects.values("hour").distinct().count() == 4
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait(10)
        victim.stdout.close()

    deadline = time.monotonic() + 10
    while TouchedHour.objects.exists() and time.monotonic() < deadline:
        with ThreadPoolExecutor(2) as workers:
            list(workers.map(work, range(2)))

    for name in names:
        assert ledger(name) == ledger("alone") != []
        assert parts(name) == parts("alone")
    assert unbalanced(hour(0), hour(4), now=NOW) == []
