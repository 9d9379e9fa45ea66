"""One request at a time of a connection: what comes behind it is neither kept nor a way to be
spared.
"""

import time

import pytest

from fleetwatch.front import connections, protocol
from tests.front.serving import Answer, Server, head, is_closed

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("plain_static_files"),
]

LARGE = 8_000_000
MOST_TAKEN = 16 * 1024 * 1024  # what the kernels of both ends may hold, and more
PIECE = b"x-a: " + b"a" * 65_529 + b"\r\n"


@pytest.fixture
def server(settings, tmp_path):
    (tmp_path / "large.js").write_bytes(b"x" * LARGE)
    settings.STATIC_ROOT = tmp_path
    with Server() as running:
        yield running


def is_stopped(peer, piece):
    """Whether the server takes no more of what the peer sends without end: it reads nothing, or is
    gone.
    """
    peer.settimeout(1)
    sent = 0
    try:
        while sent < MOST_TAKEN:
            sent += peer.send(piece)
    except (TimeoutError, ConnectionError):
        return True
    return False


@pytest.mark.parametrize("piece", [PIECE, b"a" * 65_536], ids=["headers", "one header"])
def test_trailers_without_end_are_refused(server, piece):
    with server.connect() as peer:
        peer.sendall(
            head("POST", "/accounts/login/", transfer_encoding="chunked") + b"1\r\na\r\n0\r\nx-a: "
        )

        assert is_stopped(peer, piece)
        server.wait_until(lambda: len(server.register) == 0)


def test_trailers_that_are_too_large_are_told_so(server):
    with server.connect() as peer:
        peer.sendall(
            head("POST", "/accounts/login/", transfer_encoding="chunked") + b"1\r\na\r\n0\r\n"
        )
        time.sleep(0.1)  # else they come with the head
        peer.sendall(b"x: y\r\n" * 12_000)

        assert Answer.of(peer).status == 431


def test_chunks_with_much_around_them_are_no_head(server):
    with server.connect() as peer:
        peer.sendall(head("POST", "/accounts/login/", transfer_encoding="chunked"))
        for _ in range(20):
            peer.sendall((b"1;" + b"x" * 600 + b"\r\na\r\n") * 10)
        peer.sendall(b"0\r\n\r\n")

        assert Answer.of(peer).status == 403  # the form has no token of ours


def test_a_second_head_without_end_is_not_read_while_the_first_is_answered(server):
    with server.connect(receive_buffer=2048) as peer:
        peer.sendall(head("GET", "/static/large.js"))
        assert peer.recv(1) == b"H"
        peer.sendall(b"GET /healthz HTTP/1.1\r\n")

        assert is_stopped(peer, PIECE)


def test_a_request_that_came_while_another_was_answered_is_answered_after_it(server):
    with server.connect(receive_buffer=2048) as peer:
        peer.sendall(head("GET", "/static/large.js"))
        given = peer.recv(1)
        peer.sendall(head("GET", "/healthz"))
        while b'{"ok": true}' not in given:
            more = peer.recv(65_536)
            assert more
            given = given[-100:] + more


@pytest.mark.parametrize(
    "behind", [head("GET", "/healthz") * 1000, b"nonsense\r\n\r\n"], ids=["requests", "nonsense"]
)
def test_what_came_with_a_request_makes_it_the_last(server, behind):
    with server.connect() as peer:
        peer.sendall(head("GET", "/healthz") + behind)

        assert Answer.of(peer).json() == {"ok": True}
        assert is_closed(peer)


def test_who_does_not_read_is_cut_whatever_it_sends_meanwhile(server, monkeypatch):
    monkeypatch.setattr(protocol, "SWEEP_EVERY_S", 0.05)
    monkeypatch.setattr(connections, "ANSWER_S", 0.5)
    with server.connect(receive_buffer=2048) as peer:
        peer.sendall(head("GET", "/static/large.js"))
        assert peer.recv(1) == b"H"
        time.sleep(0.1)
        peer.sendall(head("GET", "/healthz"))

        server.wait_until(lambda: len(server.register) == 0)
