"""Several workers at once: every hour is posted once, none is lost."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from fleetwatch.ledger import services
from fleetwatch.ledger.check import unbalanced
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry.models import TouchedHour
from tests.ledger.fleet import BUSY, MINUTE, NOW, QUIET, T0, Sender, a_job, held, hour, states, store


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
            store(sender.batch(T0 + at * HOUR_MS, *says, jobs=[a_job(f"slurm/della/{name}")], allocations=[held()]))

    with ThreadPoolExecutor(3) as workers:
        hours = sum(workers.map(work, range(3)))

    hours += services.post(NOW, 100)["hours"]
    assert hours == 12
    assert not TouchedHour.objects.exists()
    for name in names:
        assert states(name) == {"useful": 4 * HOUR_MS - 30 * MINUTE, "idle": 30 * MINUTE}
    assert unbalanced(hour(0), hour(4), now=NOW) == []
