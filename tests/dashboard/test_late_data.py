"""What came too late is said, where somebody looks for missing hours."""

from datetime import timedelta

import pytest

from fleetwatch.telemetry.models import LateHour
from tests.dashboard import factories

pytestmark = pytest.mark.django_db


def test_status_and_node_say_how_many_hours_came_too_late(viewer):
    late, other = factories.node("late"), factories.node("in-time")
    for hours in (900, 901):
        hour = factories.NOW - timedelta(hours=hours)
        LateHour.objects.create(
            node_id=late.pk, hour=hour, batches=3, received_at=factories.NOW - timedelta(hours=2)
        )

    assert (
        "2 node-hours</b> got windows after they were final"
        in viewer.get("/status").content.decode()
    )
    assert "2 hours</span>" in viewer.get("/nodes/late").content.decode()
    assert "Came too late" not in viewer.get(f"/nodes/{other.name}").content.decode()


def test_nothing_is_said_where_nothing_came_late(viewer):
    assert 'id="late"' not in viewer.get("/status").content.decode()
