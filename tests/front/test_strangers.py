"""Peers that are slow on purpose hold connections, and nobody up: pages and other nodes are
answered meanwhile.
"""

import contextlib
import gzip
import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.utils import timezone

from fleetwatch.front import bodies, connections, protocol
from fleetwatch.ingest.tokens import create_agent_token
from tests.front.serving import (
    Answer,
    Server,
    batch_head,
    head,
    is_closed,
    many,
    minute_ago,
    read_all,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("plain_static_files"),
]


LARGE = 8_000_000


@pytest.fixture
def server(settings, tmp_path):
    """Serves; it has a file that is larger than what a kernel takes in for a peer that does not
    read.
    """
    (tmp_path / "large.js").write_bytes(b"x" * LARGE)
    settings.STATIC_ROOT = tmp_path
    with Server() as running:
        yield running


def assert_everybody_else_is_served(server):
    bearer = create_agent_token("honest", timezone.now())

    assert server.get("/healthz").json() == {"ok": True}
    assert server.get("/accounts/login/").status == 200
    assert [
        server.post_batch(minute_ago("honest", sequence=number), bearer=bearer).json()["stored"]
        for number in (1, 2)
    ] == [1, 1]


def drip(peers):
    """One byte of each peer's body; a peer that was told to go is left alone."""
    for peer in peers:
        try:
            peer.sendall(b"x")
        except ConnectionError:
            continue


def test_66_strangers_that_drip_a_body_hold_nobody_up(server):
    with many(66, server.connect) as peers:
        for peer in peers:
            peer.sendall(batch_head(bearer="fw_nonsense", length=1_000_000))
        drip(peers)

        assert_everybody_else_is_served(server)

        assert {Answer.of(peer).status for peer in peers} == {401}


def test_60_senders_with_a_right_token_that_drip_hold_nobody_up(server):
    bearer = create_agent_token("slow", timezone.now())
    with many(60, server.connect) as peers:
        for peer in peers:
            peer.sendall(batch_head(bearer=bearer, length=100_000))
        drip(peers)

        assert_everybody_else_is_served(server)

        refused = [Answer.of(peer) for peer in peers[1:]]
        assert {(answer.status, answer.json()["error"]) for answer in refused} == {
            (503, "another batch of this node is being stored")
        }
        assert {answer.headers["retry-after"] for answer in refused} == {"2"}


def test_500_half_heads_hold_nobody_up(server):
    with many(500, server.connect) as peers:
        for peer in peers:
            peer.sendall(b"GET / HTTP/1.1\r\nHost: 127")

        assert_everybody_else_is_served(server)


def test_200_readers_that_do_not_read_hold_nobody_up(server):
    with many(200, lambda: server.connect(receive_buffer=2048)) as peers:
        for peer in peers:
            peer.sendall(head("GET", "/static/large.js"))

        assert_everybody_else_is_served(server)


def test_forms_that_drip_hold_nobody_up(server):
    with many(66, server.connect) as peers:
        for peer in peers:
            peer.sendall(
                head(
                    "POST",
                    "/accounts/login/",
                    content_length="60000",
                    content_type="application/x-www-form-urlencoded",
                )
            )
        drip(peers)

        assert_everybody_else_is_served(server)


def test_a_stranger_is_refused_before_the_body_came_and_the_connection_ends(server, monkeypatch):
    monkeypatch.setattr(bodies, "LINGER_S", 0.1)
    with server.connect() as peer:
        peer.sendall(batch_head(bearer="fw_nonsense", length=5_000_000))

        answer = Answer.of(peer)

        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert answer.json()["error"] == "unknown, revoked or expired token"
        assert is_closed(peer)


def test_a_refused_sender_that_still_writes_hears_the_answer(server):
    with server.connect() as peer:
        peer.sendall(batch_head(bearer="fw_nonsense", length=5_000_000) + b"x" * 5_000_000)

        assert Answer.of(peer).status == 401


def test_what_is_declared_too_large_is_refused_unread(server):
    bearer = create_agent_token("n1", timezone.now())
    with server.connect() as peer:
        peer.sendall(batch_head(bearer=bearer, length=9_000_000))

        assert Answer.of(peer).status == 413


def test_who_is_nobody_may_send_no_more_than_a_form(server):
    with server.connect() as peer:
        peer.sendall(head("POST", "/accounts/login/", content_length="65537"))

        assert Answer.of(peer).status == 413


def test_a_body_that_comes_too_slowly_is_ended(server, monkeypatch):
    monkeypatch.setattr(bodies, "GRACE_S", 0.1)
    bearer = create_agent_token("n1", timezone.now())
    with server.connect() as peer:
        peer.sendall(batch_head(bearer=bearer, length=1000) + b"x" * 10)

        answer = Answer.of(peer)

        assert (answer.status, answer.json()["error"]) == (408, "the request came too slowly")
        assert server.post_batch(minute_ago("n1"), bearer=bearer).status == 200


def test_half_a_head_is_not_waited_for_for_ever(server, monkeypatch):
    monkeypatch.setattr(protocol, "SWEEP_EVERY_S", 0.05)
    monkeypatch.setitem(connections.LIMITS_S, connections.Waits.HEAD, 0.1)
    with server.connect() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n")

        assert is_closed(peer)


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 500_000, 431, b"100 headers"),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 3_000_000, 431, b"64 KiB"),
        (
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"a:b\r\n" * 12_000 + b"\r\n",
            431,
            b"100 headers",
        ),
        (b"nonsense\r\n\r\n" + b"a" * 3_000_000, 400, b"no request"),
    ],
    ids=["endless headers", "one header", "many small headers", "nonsense"],
)
def test_what_is_no_head_is_told_so_though_its_peer_still_sends(server, sent, status, said):
    with server.connect() as peer:
        peer.sendall(sent)

        answer = Answer.of(peer)

        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert said in answer.body
        assert peer.recv(1) == b""
    server.wait_until(lambda: len(server.register) == 0)


@pytest.mark.parametrize(("count", "status"), [(99, 200), (100, 200), (101, 431)])
def test_a_request_has_at_most_100_headers(server, count, status):
    with server.connect() as peer:
        for _ in range(2 if status == 200 else 1):  # each request is counted for itself
            peer.sendall(
                b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"a:b\r\n" * (count - 1) + b"\r\n"
            )

            assert Answer.of(peer).status == status


CHUNKED = head("GET", "/healthz", transfer_encoding="chunked") + b"0\r\n"


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    ],
)
def test_a_request_of_http_1_1_names_one_host(server, given, status):
    with server.connect() as peer:
        peer.sendall(given)

        assert Answer.of(peer).status == status


UPGRADE = b"Connection: upgrade\r\nUpgrade: h2c\r\n"
FORM = b"POST /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (FORM + b"Content-Length: 0\r\n\r\n", 403),
        (FORM + b"Content-Length: 5\r\n\r\n", 400),
        (FORM + b"Transfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n" + UPGRADE + b"\r\n", 200),
    ],
)
def test_who_asks_for_another_protocol_gets_this_one_and_may_send_no_body(server, given, status):
    with server.connect() as peer:
        peer.sendall(given)

        assert Answer.of(peer).status == status


def test_a_body_behind_an_upgrade_is_no_request(server):
    hidden = head("GET", "/healthz")
    with server.connect() as peer:
        peer.sendall(FORM + b"Content-Length: %d\r\n\r\n" % len(hidden))
        answer = Answer.of(peer)
        with contextlib.suppress(ConnectionError):
            peer.sendall(hidden)

        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert b"without an Upgrade header" in answer.body
        assert read_all(peer) == 0


def test_trailers_count_as_headers(server):
    with server.connect() as peer:
        peer.sendall(CHUNKED + b"a:b\r\n" * 12_000 + b"\r\n")

        assert Answer.of(peer).status == 431
        assert is_closed(peer)


def test_a_trailer_is_no_header(server):
    with server.connect() as peer:
        peer.sendall(CHUNKED + b"Host: evil.example\r\n\r\n")

        assert Answer.of(peer).status == 200


def test_who_goes_on_sending_a_head_without_end_is_cut(server, monkeypatch):
    monkeypatch.setattr(bodies, "LINGER_S", 0.1)
    with server.connect() as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000)

        assert Answer.of(peer).status == 431
        server.wait_until(lambda: len(server.register) == 0)


@pytest.mark.parametrize("path", ["/healthz", "/accounts/login/", "/static/large.js"])
def test_who_ends_its_side_after_the_request_gets_its_answer(server, path):
    with server.connect() as peer:
        peer.sendall(head("GET", path))
        peer.shutdown(socket.SHUT_WR)

        assert Answer.of(peer).status == 200
        assert peer.recv(1) == b""


def test_a_reader_that_does_not_read_is_not_waited_for_for_ever(server, monkeypatch):
    monkeypatch.setattr(protocol, "SWEEP_EVERY_S", 0.05)
    monkeypatch.setattr(connections, "ANSWER_S", 0.1)
    with server.connect(receive_buffer=2048) as peer:
        peer.sendall(head("GET", "/static/large.js"))

        assert peer.recv(1) == b"H"
        server.wait_until(lambda: len(server.register) == 0)
        with pytest.raises(ConnectionError):
            read_all(peer)


def taken_of(file):
    """How many bytes of the file the server has read, while it has it open."""
    handle = next(
        each for each in Path("/proc/self/fd").iterdir() if each.exists() and each.resolve() == file
    )
    return int(Path("/proc/self/fdinfo", handle.name).read_text().split()[1])


def test_of_what_a_peer_does_not_take_little_is_held(server, tmp_path):
    with server.connect(receive_buffer=2048) as peer:
        peer.sendall(head("GET", "/static/large.js"))
        assert peer.recv(1) == b"H"
        for _ in range(20):
            assert server.get("/healthz").status == 200

        assert 0 < taken_of(tmp_path / "large.js") < 300_000


def test_of_an_address_with_too_many_connections_the_one_that_waited_longest_goes():
    with Server(per_address=3) as server, ExitStack() as stack:
        peers = []
        for count in (1, 2, 3, 3):
            peers.append(stack.enter_context(server.connect()))
            server.wait_until(lambda count=count: len(server.register) == count)
            time.sleep(0.01)  # the loop's clock counts milliseconds
        peers[3].sendall(head("GET", "/healthz"))

        assert Answer.of(peers[3]).status == 200
        assert is_closed(peers[0])
        peers[1].sendall(head("GET", "/healthz"))
        assert Answer.of(peers[1]).status == 200


def test_behind_a_proxy_the_address_is_the_one_that_it_names():
    with Server(per_address=2, proxies=1) as server, many(3, server.connect) as peers:
        for peer, address in zip(peers, ("192.0.2.1", "192.0.2.2", "192.0.2.3"), strict=True):
            peer.sendall(head("GET", "/healthz", x_forwarded_for=f"10.0.0.1, {address}"))

        assert [Answer.of(peer).status for peer in peers] == [200, 200, 200]


def test_behind_a_proxy_an_address_that_holds_too_many_costs_itself_only():
    with Server(per_address=2, proxies=1) as server, many(4, server.connect) as peers:
        for peer in peers[:3]:
            peer.sendall(head("GET", "/healthz", x_forwarded_for="192.0.2.1"))
            assert Answer.of(peer).status == 200
        peers[3].sendall(head("GET", "/healthz", x_forwarded_for="192.0.2.2"))

        assert Answer.of(peers[3]).status == 200
        assert is_closed(peers[0])


def test_addresses_of_one_ipv6_network_are_one_holder():
    with Server(per_address=2, proxies=1) as server, many(3, server.connect) as peers:
        for number, peer in enumerate(peers):
            peer.sendall(head("GET", "/healthz", x_forwarded_for=f"2001:db8::{number}"))
            assert Answer.of(peer).status == 200

        assert is_closed(peers[0])


@pytest.mark.parametrize(
    ("path", "size"), [("/static/large.js", LARGE), ("/agent/fleetwatch-agent.pyz", None)]
)
def test_what_is_large_comes_whole_and_its_head_alone(server, path, size):
    whole = server.get(path)
    with server.connect() as peer:
        peer.sendall(head("HEAD", path))
        told = peer.recv(65_536)
        peer.sendall(head("GET", "/healthz"))
        while b'{"ok": true}' not in told:
            told += peer.recv(65_536)

    assert (
        len(whole.body)
        == int(whole.headers["content-length"])
        == (size or len(whole.body))
        > 65_536
    )
    assert b"content-length: " + whole.headers["content-length"].encode() in told


@pytest.mark.parametrize(("count", "status"), [(1000, 403), (20_000, 400)])
def test_a_body_does_not_come_in_chunks_of_a_byte(server, count, status):
    with server.connect() as peer:
        peer.sendall(head("POST", "/accounts/login/", transfer_encoding="chunked"))
        peer.sendall(b"1\r\na\r\n" * count + b"0\r\n\r\n")

        assert Answer.of(peer).status == status


def test_a_chunked_batch_is_stored(server):
    bearer = create_agent_token("n1", timezone.now())
    body = gzip.compress(json.dumps(minute_ago("n1")).encode())
    with server.connect() as peer:
        start = head(
            "POST",
            "/api/v1/batches",
            authorization=f"Bearer {bearer}",
            content_type="application/json",
            content_encoding="gzip",
            transfer_encoding="chunked",
        )
        peer.sendall(start + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")

        assert Answer.of(peer).json()["stored"] == 1
