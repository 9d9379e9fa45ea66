"""A batch of a sender that is known is stored from the protocol's callbacks; whatever is not usual
about it makes it a request like any other.
"""

import contextlib
import socket
import threading
import time

import pytest
from django.utils import timezone

from fleetwatch.front import connections, protocol
from fleetwatch.front.application import Front
from fleetwatch.front.connections import Waits
from fleetwatch.ingest import door
from fleetwatch.ingest.tokens import create_agent_token
from fleetwatch.lib.sql import execute
from fleetwatch.telemetry.models import Batch
from tests.front.serving import Answer, Server, batch_head, head, is_closed, minute_ago
from tests.ingest.factories import pack

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("plain_static_files"),
]

NODE = "n1"


@pytest.fixture
def server():
    with Server() as running:
        yield running


@pytest.fixture
def bearer(server):
    """The token of a node whose first batch came."""
    token = create_agent_token(NODE, timezone.now())
    assert server.post_batch(minute_ago(NODE), bearer=token).status == 200
    return token


@pytest.fixture
def requests(bearer, monkeypatch):
    """The paths of what became a request like any other."""
    seen = []
    answer = Front._answer

    async def noting(front, request):
        seen.append(request.path)
        return await answer(front, request)

    monkeypatch.setattr(Front, "_answer", noting)
    return seen


def second(bearer):
    """The head and the body of the node's second batch."""
    body = pack(minute_ago(NODE, sequence=2))
    return batch_head(bearer=bearer, length=len(body)), body


def test_the_second_batch_of_a_node_is_answered_without_a_request(server, bearer, requests):
    answer = server.post_batch(minute_ago(NODE, sequence=2), bearer=bearer)

    assert (answer.status, answer.json()["stored"]) == (200, 1)
    assert answer.headers["content-type"] == "application/json"
    assert "application/vnd.fleetwatch" in answer.headers["accept-post"]
    assert not requests
    assert Batch.objects.count() == 2


def test_on_one_connection_batch_follows_batch(server, bearer, requests):
    with server.connect() as peer:
        for sequence in (2, 3, 4):
            body = pack(minute_ago(NODE, sequence=sequence))
            peer.sendall(batch_head(bearer=bearer, length=len(body)) + body)
            assert Answer.of(peer).json()["stored"] == 1

    assert not requests


def test_a_body_may_come_in_parts(server, bearer, requests):
    of_head, body = second(bearer)
    with server.connect() as peer:
        for part in (of_head, body[:10], body[10:]):
            peer.sendall(part)
            time.sleep(0.05)
        assert Answer.of(peer).status == 200

    assert not requests


def test_a_batch_of_a_known_sender_may_come_in_chunks(server, bearer, requests):
    of_head, body = second(bearer)
    length = b"content-length: %d" % len(body)
    with server.connect() as peer:
        peer.sendall(of_head.replace(length, b"transfer-encoding: chunked"))
        peer.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

        assert Answer.of(peer).json()["stored"] == 1
    assert requests == ["/api/v1/batches"]


def test_other_requests_follow_a_batch_on_its_connection_and_a_batch_them(server, bearer):
    of_head, body = second(bearer)
    with server.connect() as peer:
        peer.sendall(of_head + body)
        assert Answer.of(peer).json()["stored"] == 1
        peer.sendall(head("GET", "/healthz"))
        assert Answer.of(peer).status == 200
        third = pack(minute_ago(NODE, sequence=3))
        peer.sendall(batch_head(bearer=bearer, length=len(third)) + third)
        assert Answer.of(peer).json()["stored"] == 1


def test_a_batch_counts_at_the_address_that_a_trusted_proxy_names():
    with Server(proxies=1) as behind:
        token = create_agent_token(NODE, timezone.now())
        assert behind.post_batch(minute_ago(NODE), bearer=token).status == 200
        of_head, body = second(token)
        forwarded = b"\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n"
        with behind.connect() as peer:
            peer.sendall(of_head.replace(b"\r\n\r\n", forwarded) + body)
            assert Answer.of(peer).json()["stored"] == 1

            assert "192.0.2.7" in {held.address for held in behind.register._all}


def test_who_wants_the_connection_closed_has_it_closed(server, bearer, requests):
    of_head, body = second(bearer)
    with server.connect() as peer:
        peer.sendall(of_head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + body)
        answer = Answer.of(peer)

        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert is_closed(peer)
    assert not requests


def test_a_body_may_come_in_parts_of_who_wants_the_connection_closed(server, bearer, requests):
    of_head, body = second(bearer)
    closing = of_head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    with server.connect() as peer:
        for part in (closing, body[:10], body[10:]):
            peer.sendall(part)
            time.sleep(0.05)

        assert Answer.of(peer).json()["stored"] == 1
        assert is_closed(peer)
    assert not requests


def test_what_comes_right_behind_a_batch_is_thrown_away_and_the_batch_answered(server, bearer):
    of_head, body = second(bearer)
    with server.connect() as peer:
        peer.sendall(of_head + body + of_head + body)

        assert Answer.of(peer).status == 200
        assert is_closed(peer)
    assert Batch.objects.count() == 2


@pytest.fixture
def held_group(monkeypatch):
    """Groups begin to be stored when the first of these events is set by them, and end when the
    second is set.
    """
    begun, may_end = threading.Event(), threading.Event()
    store = door.store_together

    def held(group):
        begun.set()
        may_end.wait(10)
        return store(group)

    monkeypatch.setattr(door, "store_together", held)
    yield begun, may_end
    may_end.set()


def test_a_batch_that_is_being_stored_is_answered_before_the_server_ends(
    server, bearer, requests, held_group
):
    begun, may_end = held_group
    of_head, body = second(bearer)
    with server.connect() as peer:
        peer.sendall(of_head + body)
        assert begun.wait(10)
        server.begin_to_end()
        server.wait_until(lambda: server.is_ending)
        may_end.set()
        answer = Answer.of(peer)

        assert (answer.json()["stored"], answer.headers["connection"]) == (1, "close")
        assert is_closed(peer)
    assert not requests


@pytest.mark.parametrize("is_cut", [False, True])
def test_who_goes_away_while_its_batch_is_stored_has_it_stored_once(
    server, bearer, requests, held_group, is_cut
):
    begun, may_end = held_group
    of_head, body = second(bearer)
    server.wait_until(lambda: len(server.register) == 0)
    with server.connect() as peer:
        if is_cut:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, protocol.DROP_UNSENT)
        peer.sendall(of_head + body)
        assert begun.wait(10)
    may_end.set()
    server.wait_until(lambda: not server.front.is_storing)
    server.wait_until(lambda: len(server.register) == 0)

    answer = server.post_batch(minute_ago(NODE, sequence=2), bearer=bearer)
    assert (answer.json()["stored"], answer.json()["duplicate"]) == (0, 1)
    assert Batch.objects.count() == 2


@pytest.mark.parametrize(("sequence", "stored"), [(2, 1), (1, 0)], ids=["stored", "refused"])
def test_who_ends_its_side_after_its_batch_gets_its_answer(
    server, bearer, held_group, sequence, stored
):
    _, may_end = held_group
    body = pack(minute_ago(NODE, sequence=sequence))
    with server.connect() as peer:
        peer.sendall(batch_head(bearer=bearer, length=len(body)) + body)
        peer.shutdown(socket.SHUT_WR)
        time.sleep(0.05)
        may_end.set()

        assert Answer.of(peer).json()["stored"] == stored
        assert is_closed(peer)


def test_who_goes_away_in_the_middle_of_a_body_leaves_the_node_its_place(server, bearer, requests):
    of_head, body = second(bearer)
    with server.connect() as peer:
        peer.sendall(of_head + body[:10])
        server.wait_until(lambda: server.front.is_storing)
    server.wait_until(lambda: not server.front.is_storing)

    assert server.post_batch(minute_ago(NODE, sequence=2), bearer=bearer).status == 200
    assert not requests


def test_a_body_that_is_no_batch_is_refused_as_every_other_is(server, bearer, requests):
    body = b"x" * 100_000  # more than uvicorn takes of a body that nobody asks for
    with server.connect() as peer:
        peer.sendall(batch_head(bearer=bearer, length=len(body)) + body)
        answer = Answer.of(peer)

    assert answer.status == 422
    assert requests == ["/api/v1/batches"]
    assert not server.front.is_storing


def test_a_batch_whose_answer_fails_is_answered_by_the_long_way(
    server, bearer, requests, monkeypatch
):
    monkeypatch.setattr(server.front._door, "accepted", None)  # not callable
    answer = server.post_batch(minute_ago(NODE, sequence=2), bearer=bearer)

    assert (answer.status, answer.json()["duplicate"]) == (200, 1)
    assert requests == ["/api/v1/batches"]
    assert not server.front.is_storing


def test_a_body_that_began_while_answers_were_not_taken_is_not_waited_for_for_ever(
    server, bearer, monkeypatch
):
    monkeypatch.setattr(protocol, "SWEEP_EVERY_S", 0.05)
    monkeypatch.setitem(connections.LIMITS_S, Waits.BATCH, 0.5)
    server.wait_until(lambda: len(server.register) == 0)
    with server.connect(receive_buffer=2048) as peer:
        server.wait_until(lambda: len(server.register) == 1)
        (held,) = server.register._all
        while held.unsent() <= protocol.MAX_UNSENT:
            answered = server.answered
            peer.sendall(head("GET", "/accounts/login/"))
            server.wait_until(lambda answered=answered: server.answered > answered)
        peer.sendall(second(bearer)[0] + b"x")
        server.wait_until(lambda: held.waits_for is Waits.BATCH)
        with contextlib.suppress(ConnectionError):
            while peer.recv(65_536):
                pass

        server.wait_until(lambda: not server.front.is_storing)
        server.wait_until(lambda: len(server.register) == 0)
    assert server.register._all == set()


def test_a_batch_that_was_stored_before_is_a_duplicate(server, bearer, requests):
    answer = server.post_batch(minute_ago(NODE), bearer=bearer)

    assert (answer.json()["stored"], answer.json()["duplicate"]) == (0, 1)
    assert requests == ["/api/v1/batches"]


@pytest.mark.parametrize(
    "unusual",
    [
        {"content_type": "application/json"},
        {"x_fleetwatch_sent_ms": "1600000000000"},
        {"expect": "100-continue"},
        {"host": "localhost"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_a_head_that_is_not_the_usual_one_is_a_request(server, bearer, requests, unusual):
    _, body = second(bearer)
    usual = {
        "authorization": f"Bearer {bearer}",
        "content_type": "application/vnd.fleetwatch.batch",
        "content_encoding": "deflate",
        "content_length": str(len(body)),
    }
    with server.connect() as peer:
        peer.sendall(head("POST", "/api/v1/batches", **usual | unusual) + body)
        Answer.of(peer)

    assert requests == ["/api/v1/batches"]


def test_a_header_that_is_there_twice_makes_it_a_request(server, bearer, requests):
    of_head, body = second(bearer)
    with server.connect() as peer:
        twice = f"\r\nauthorization: Bearer {bearer}\r\n\r\n".encode()
        peer.sendall(of_head.replace(b"\r\n\r\n", twice) + body)

        assert Answer.of(peer).status == 401
    assert requests == ["/api/v1/batches"]


def test_a_server_that_ended_leaves_no_connection_of_its_groups():
    with Server() as ending:
        token = create_agent_token(NODE, timezone.now())
        for sequence in (1, 2):
            posted = ending.post_batch(minute_ago(NODE, sequence=sequence), bearer=token)
            assert posted.status == 200

    sessions = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'WITH limits AS%' AND pid <> pg_backend_pid()
    """
    ending.wait_until(lambda: execute(sessions) == [(0,)])
