"""What the page of a node says of the health of each of its GPUs."""

import pytest

from fleetwatch.dashboard.gpu_health import GPUHealth, health_of
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import HOUR_MS, Interval, from_ms, to_ms
from fleetwatch.telemetry.models import HealthEvent
from tests.dashboard import factories
from tests.markup import tight

pytestmark = pytest.mark.django_db
NOW_MS = to_ms(factories.NOW)
DAY = Interval(from_ms(NOW_MS - 24 * HOUR_MS), factories.NOW)


@pytest.fixture
def gpu(_frozen) -> GPU:
    return factories.gpu(factories.node("node-1"))


def reported(gpu: GPU, kind: str, ago_ms: int, code: int | None = None) -> None:
    HealthEvent.objects.create(
        node=gpu.node, gpu=gpu, at_ms=NOW_MS - ago_ms, kind=kind, code=code, text="said so"
    )


def test_faults_of_the_period_are_counted_with_the_last(gpu):
    for ago_ms, kind in ((1, "gpu_ok"), (2, "xid"), (3, "gpu_lost"), (24 * HOUR_MS + 1, "xid")):
        reported(gpu, kind, ago_ms)

    assert health_of(gpu.node, DAY) == {
        gpu.pk: GPUHealth("", None, 2, NOW_MS - 2, works_ms=NOW_MS - 1)
    }


def test_a_gpu_that_works_again_says_since_when_whatever_its_agent_says_at_its_next_beginnings(gpu):
    """It failed before the day; the agent began twice since."""
    reported(gpu, "gpu_lost", 30 * HOUR_MS)
    reported(gpu, "gpu_ok", 6 * HOUR_MS)
    for ago in (4, 2):
        reported(gpu, "recovery_action", ago * HOUR_MS, code=0)

    assert health_of(gpu.node, DAY) == {
        gpu.pk: GPUHealth("", None, 0, None, works_ms=NOW_MS - 6 * HOUR_MS)
    }
    last_hours = Interval(from_ms(NOW_MS - 5 * HOUR_MS), factories.NOW)
    assert health_of(gpu.node, last_hours) == {}


def test_a_gpu_whose_agent_begins_has_no_fault(gpu):
    reported(gpu, "recovery_action", HOUR_MS, code=0)

    assert health_of(gpu.node, DAY) == {}


def test_a_broken_gpu_says_why_and_since_when(gpu):
    since_ms = NOW_MS - HOUR_MS
    outages = [[since_ms, None, "xid_79", False]]
    Posted.objects.create(gpu=gpu, spans=[[0, NOW_MS]], outages=outages)

    assert health_of(gpu.node, DAY) == {
        gpu.pk: GPUHealth("XID 79: it has fallen off the bus", since_ms, 0, None)
    }


def test_of_another_nodes_gpu_nothing_is_said(gpu):
    reported(factories.gpu(factories.node("node-2")), "xid", 1, code=79)

    assert health_of(gpu.node, DAY) == {}


def test_the_page_of_a_node_says_it_beside_each_gpu(admin, gpu):
    reported(gpu, "xid", HOUR_MS, code=31)
    factories.gpu(gpu.node, index=1)

    page = tight(admin.get("/nodes/node-1").content.decode())

    assert "1 fault reported" in page
    assert page.count("no fault") == 1


def driver_says(node, *kinds):
    for number, kind in enumerate(kinds):
        HealthEvent.objects.create(
            node=node, at_ms=NOW_MS - 10 + number, kind=kind, text="driver answers"
        )


def test_a_driver_answers_again_only_after_it_did_not(admin, gpu):
    driver_says(gpu.node, "driver_ok", "driver_missing", "driver_ok", "driver_ok")
    page = admin.get("/nodes/node-1").content.decode()

    assert page.count("node’s driver answers again") == 1
    assert page.count("agent began to read its GPUs") == 2
    assert page.count("driver missing") == 1
