"""Two of eight nodes stopped half an hour ago: every figure says what they cost, and none that they
were observed.
"""

from datetime import timedelta
from decimal import Decimal

import pytest

from fleetwatch.figures.fleet_now import spending_now
from fleetwatch.figures.selectors import totals
from fleetwatch.ingest.services import bill_silent_nodes
from fleetwatch.inventory.models import GPU
from fleetwatch.lib.intervals import Interval
from tests.costs.factories import a_rate
from tests.ledger.fleet import EMPTY, MINUTE, START, T0, Sender, post

pytestmark = pytest.mark.django_db
HOUR_MS = 60 * MINUTE


def test_the_period_and_spending_now_agree_on_nodes_that_are_silent():
    now = START + timedelta(minutes=61)
    for number in range(8):
        minutes = 30 if number < 2 else 60
        post(
            Sender(f"n{number}").batch(T0, *[EMPTY] * minutes),
            now=START + timedelta(minutes=minutes),
        )
    a_rate("2.50", gpu=GPU.objects.first())
    bill_silent_nodes(now)
    post(now=now)

    hour, spending = totals(Interval(START, START + timedelta(hours=1))), spending_now(now)

    assert hour.capacity_ms == 8 * HOUR_MS
    assert hour.states["unobserved"] == 2 * 30 * MINUTE
    assert hour.coverage == 0.875
    assert hour.cost_usd == spending.usd_per_hour == Decimal(20)
    assert spending.gpus == 8
    assert (spending.unobserved_gpus, spending.known_gpus, spending.allocated_gpus) == (2, 6, 0)
