"""One node can't take the house: whoever waits for its rows waits a second, and people have
connections of their own.
"""

import threading
from contextlib import contextmanager

import psycopg
import pytest
from django.utils import timezone

from fleetwatch.front import known_batches
from fleetwatch.front.database import conninfo
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.tokens import create_agent_token, revoke_agent_token
from fleetwatch.operations import disk
from fleetwatch.telemetry.models import Batch
from tests.front.serving import Answer, Server, batch_head, many, minute_ago

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("plain_static_files"),
]


@pytest.fixture
def server():
    with Server() as running:
        yield running


@contextmanager
def rows_held(*names):
    """Somebody else's transaction holds the nodes' rows, as a batch of 16 s does."""
    with psycopg.connect(conninfo()) as other:
        other.execute("SELECT 1 FROM inventory_node WHERE name = ANY(%s) FOR UPDATE", [list(names)])
        yield
        other.rollback()


def sent_together(*calls):
    """What the calls give, made at the same time."""
    given = [None] * len(calls)

    def run(place, call):
        given[place] = call()

    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return given


def test_a_batch_whose_node_is_held_is_told_to_come_again(server):
    bearer = create_agent_token("n1", timezone.now())
    with rows_held("n1"):
        answer = server.post_batch(minute_ago("n1"), bearer=bearer)

    assert (answer.status, answer.json()["error"]) == (503, "others write the same rows")
    assert answer.headers["retry-after"] == "10"
    assert not Batch.objects.exists()
    assert server.post_batch(minute_ago("n1"), bearer=bearer).status == 200


def test_a_node_that_is_held_does_not_hold_up_those_in_its_group(server):
    bearers = {name: create_agent_token(name, timezone.now()) for name in ("held", "free")}
    for name, bearer in bearers.items():
        assert server.post_batch(minute_ago(name), bearer=bearer).status == 200

    with rows_held("held"):
        held, free = sent_together(
            *[
                lambda name=name, bearer=bearer: server.post_batch(
                    minute_ago(name, sequence=2), bearer=bearer
                )
                for name, bearer in bearers.items()
            ]
        )

    assert (held.status, free.status) == (503, 200)


def test_while_more_nodes_are_held_than_agents_have_threads_pages_answer(server):
    names = [f"held-{number}" for number in range(8)]
    bearers = {name: create_agent_token(name, timezone.now()) for name in names}
    with rows_held(*names):
        stuck = [
            threading.Thread(
                target=server.post_batch, args=(minute_ago(name),), kwargs={"bearer": bearer}
            )
            for name, bearer in bearers.items()
        ]
        for thread in stuck:
            thread.start()
        pages = [server.get("/accounts/login/").status for _ in range(5)]
        for thread in stuck:
            thread.join(30)

    assert pages == [200] * 5


def test_of_one_node_one_batch_at_a_time_is_taken(server):
    bearer = create_agent_token("n1", timezone.now())
    with many(2, server.connect) as peers:
        peers[0].sendall(batch_head(bearer=bearer, length=1000))
        server.wait_until(lambda: server.front.is_storing)
        second = server.post_batch(minute_ago("n1"), bearer=bearer)
        peers[0].sendall(b"x" * 1000)
        first = Answer.of(peers[0])

    assert (second.status, second.headers["retry-after"]) == (503, "2")
    assert first.status == 422
    assert server.post_batch(minute_ago("n1"), bearer=bearer).status == 200


def test_a_body_of_a_revoked_token_holds_up_no_other_token_of_its_node(server):
    old = create_agent_token("n1", timezone.now())
    assert server.post_batch(minute_ago("n1"), bearer=old).status == 200
    revoke_agent_token(AgentToken.objects.get().pk, timezone.now())
    new = create_agent_token("n1", timezone.now())
    with server.connect() as stolen:
        stolen.sendall(batch_head(bearer=old, length=1000))
        server.wait_until(lambda: server.front.is_storing)

        assert server.post_batch(minute_ago("n1", sequence=2), bearer=new).status == 200
        stolen.sendall(b"x" * 1000)
        assert Answer.of(stolen).status == 401

    with server.connect() as stolen:  # and from then on no body of it is waited for
        stolen.sendall(batch_head(bearer=old, length=1000))
        assert Answer.of(stolen).status == 401


def test_beyond_what_can_wait_for_a_group_agents_are_told_and_people_are_not(server, monkeypatch):
    monkeypatch.setattr(known_batches, "MAX_WAITING_BATCHES", 0)
    bearer = create_agent_token("n1", timezone.now())

    answer = server.post_batch(minute_ago("n1"), bearer=bearer)

    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert set(answer.json()) == {"error", "field"}
    assert server.get("/accounts/login/").status == 200


def test_large_bodies_of_many_nodes_are_not_held_beyond_a_room_of_theirs(server, monkeypatch):
    monkeypatch.setattr(server.front._nodes_room, "in_all", 150_000)
    bearers = [create_agent_token(name, timezone.now()) for name in ("n1", "n2", "n3")]
    with server.connect() as first, server.connect() as second:
        first.sendall(batch_head(bearer=bearers[0], length=1_000_000) + b"x" * 100_000)
        server.wait_until(lambda: server.front.held_bytes >= 100_000)
        second.sendall(batch_head(bearer=bearers[1], length=1_000_000) + b"x" * 100_000)
        refused = Answer.of(second)

        assert (refused.status, refused.json()["error"]) == (503, "too much is being sent")
        assert server.post_batch(minute_ago("n3"), bearer=bearers[2]).status == 200
    server.wait_until(lambda: server.front.held_bytes == 0)


def test_on_a_full_disk_agents_and_machines_are_told_so_and_people_are_served(
    server, settings, tmp_path, monkeypatch
):
    bearer = create_agent_token("n1", timezone.now())
    assert server.post_batch(minute_ago("n1"), bearer=bearer).status == 200
    found = type("Found", (), {"f_bavail": 39, "f_blocks": 200, "f_frsize": 1024**2})
    monkeypatch.setattr(disk.os, "statvfs", lambda _: found)
    settings.DATABASE_FOLDER = tmp_path

    batch = server.post_batch(minute_ago("n1", sequence=2), bearer=bearer)
    ready = server.get("/readyz")

    said = "the disk of the database is full (39 of 200 MiB are free, 48 are kept for retention)"
    assert (batch.status, batch.headers["retry-after"], batch.json()["error"]) == (503, "60", said)
    assert (ready.status, ready.json()["reason"]) == (503, said)
    assert "disk" in ready.json()["missing"]
    assert server.get("/accounts/login/").status == 200
    assert Batch.objects.count() == 1
