"""When windows of a moment came, of batches as long as the wire lets them be."""

from datetime import timedelta

import pytest

from agent import wire
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry.arrivals import first_received_at
from tests.telemetry.factories import HOUR, HOUR_START_MS, make_node, store

pytestmark = pytest.mark.django_db


def test_the_windows_of_a_moment_came_first_with_the_batch_that_holds_it_however_long_it_is():
    node = make_node()
    last_ms = HOUR_START_MS + wire.MAX_SPAN_MS - 10_000
    first_at, again_at = (HOUR + timedelta(hours=hours) for hours in (7, 8))
    store(node, starts=[HOUR_START_MS, last_ms], received_at=first_at)
    store(node, starts=[last_ms], received_at=again_at, boot_id="boot-b")

    assert first_received_at(node.pk, last_ms) == first_at
    assert first_received_at(node.pk, HOUR_START_MS + 2 * HOUR_MS) == first_at
    assert first_received_at(node.pk, last_ms + 10_000) is None
