from datetime import UTC, datetime, timedelta

import pytest

from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger import retention
from fleetwatch.ledger.models import Adjustment, Entry, Policy, Run
from fleetwatch.lib.intervals import to_ms
from tests import stored_runs

NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
HORIZON = datetime(2025, 10, 16, 12, tzinfo=UTC)  # 400 days before 12:00

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpu():
    return GPU.objects.create(uuid="GPU-1", node=Node.objects.create(name="gpu-07"))


def post(gpu: GPU, start: datetime) -> None:
    policy, _ = Policy.objects.get_or_create(
        version=1, defaults={"thresholds": {}, "created_at": NOW}
    )
    Entry.objects.create(
        node=gpu.node, gpu=gpu, start=start, state="free", policy=policy, gpu_ms=3_600_000
    )
    hour = {"start_ms": to_ms(start), "end_ms": to_ms(start + timedelta(hours=1))}
    stored_runs.store(Run(node=gpu.node, gpu=gpu, condition="free", **hour))


def test_hours_just_older_than_the_retention_go_and_the_rest_stays(gpu):
    for start in (
        HORIZON - timedelta(days=40),
        HORIZON - timedelta(hours=1),
        HORIZON,
        HORIZON + timedelta(hours=1),
    ):
        post(gpu, start)

    did = retention.apply(NOW)

    assert did == {"entries": 2, "runs": 2, "adjustments": 0, "hour_cells": 0}
    assert list(Entry.objects.order_by("start").values_list("start", flat=True)) == [
        HORIZON,
        HORIZON + timedelta(hours=1),
    ]
    assert list(Run.objects.order_by("start_ms").values_list("start_ms", flat=True)) == [
        to_ms(HORIZON),
        to_ms(HORIZON) + 3_600_000,
    ]


def test_twice_is_once(gpu):
    post(gpu, HORIZON - timedelta(hours=1))
    retention.apply(NOW)

    assert retention.apply(NOW) == {"entries": 0, "runs": 0, "adjustments": 0, "hour_cells": 0}


def test_an_adjustment_goes_with_the_month_in_which_it_was_booked(gpu):
    post(gpu, HORIZON)
    facts = {
        "node": gpu.node,
        "gpu": gpu,
        "start": HORIZON - timedelta(days=40),
        "state": "free",
        "policy": Policy.objects.get(),
    }
    for booked_at in (HORIZON - timedelta(seconds=1), HORIZON):
        Adjustment.objects.create(**facts, gpu_ms=1, cause="late data", booked_at=booked_at)

    assert retention.apply(NOW)["adjustments"] == 1
    assert Adjustment.objects.get().booked_at == HORIZON
