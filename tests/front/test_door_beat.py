"""The web process notes that it takes batches, while it does."""

import time

import pytest

from fleetwatch.front import application
from fleetwatch.operations import disk
from fleetwatch.operations.selectors import heartbeat
from tests.front.serving import DEADLINE_S, Server

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("plain_static_files"),
]


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(application, "BEAT_EVERY_S", 0.02)


def test_the_door_beats_while_it_is_open():
    with Server():
        deadline = time.monotonic() + DEADLINE_S
        while heartbeat("door") is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_it_does_not_while_the_disk_is_full(monkeypatch):
    asked = []
    monkeypatch.setattr(disk, "is_short", lambda: asked.append(1) or True)
    with Server() as server:
        server.wait_until(lambda: len(asked) > 3)

    assert heartbeat("door") is None
