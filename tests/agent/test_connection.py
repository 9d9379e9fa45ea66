import socket
import ssl
import threading
from http.client import RemoteDisconnected
from time import sleep

import pytest

from agent.sending import connection
from agent.sending.connection import HubConnection
from agent.sending.sender import Sender, Verdict
from benchmarks.accepting_hub import certificate

GIVEN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Door:
    """A hub that answers `of_each[n]` requests of its connection n, all the rest of one, then ends
    it without a word.
    """

    def __init__(self, folder, *, of_each=(), tls=True, given=GIVEN, later=b""):
        self.heads = []  # by connection
        self._of_each = of_each
        self._given = given
        self._later = later  # in a record of its own
        self._listener = socket.create_server(("127.0.0.1", 0))
        if tls:
            certificate(folder)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
            self._listener = context.wrap_socket(self._listener, server_side=True)
        port = self._listener.getsockname()[1]
        self.url = "http%s://127.0.0.1:%d" % ("s" * tls, port)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, peer.makefile("rb") as asked:
                heads = []
                self.heads.append(heads)
                place = len(self.heads) - 1
                most = self._of_each[place] if place < len(self._of_each) else 99
                while len(heads) < most:
                    lines = [asked.readline()]
                    while lines[-1] not in (b"", b"\r\n"):
                        lines.append(asked.readline())
                    if not lines[-1]:
                        break
                    heads.append(b"".join(lines))
                    peer.sendall(self._given)
                    peer.sendall(self._later)

    def close(self):
        self._listener.close()


@pytest.fixture
def open_door(tmp_path):
    doors = []

    def open_one(**options):
        doors.append(Door(tmp_path, **options))
        return doors[-1]

    yield open_one
    for door in doors:
        door.close()


def connect(door, folder):
    context = ssl.create_default_context()
    if door.url.startswith("https"):
        context.load_verify_locations(folder / "cert.pem")
    return HubConnection(door.url, tls=context, timeout_s=5.0, note_date=lambda _: None)


def ask(way):
    return way.ask("GET", "/", None, {}).body


def test_over_tls_one_handshake_serves_many_questions(open_door, tmp_path):
    door = open_door()
    way = connect(door, tmp_path)

    assert [ask(way) for _ in range(3)] == [b"ok"] * 3

    assert [len(heads) for heads in door.heads] == [3]
    way.close()


def test_a_kept_connection_that_the_hub_ended_is_opened_again_at_once(open_door, tmp_path):
    door = open_door(of_each=(1,))
    way = connect(door, tmp_path)

    assert [ask(way) for _ in range(3)] == [b"ok"] * 3

    assert [len(heads) for heads in door.heads] == [1, 2]
    way.close()


def test_a_hub_that_ends_a_fresh_connection_is_not_asked_a_second_time(open_door, tmp_path):
    door = open_door(of_each=(0, 0))
    way = connect(door, tmp_path)

    with pytest.raises((RemoteDisconnected, ConnectionError, ssl.SSLEOFError)):
        ask(way)

    assert len(door.heads) == 1


def test_a_connection_idle_for_longer_than_proxies_keep_one_is_not_used_again(
    open_door, tmp_path, monkeypatch
):
    monkeypatch.setattr(connection, "KEPT_S", -1.0)
    door = open_door()
    way = connect(door, tmp_path)

    assert [ask(way) for _ in range(2)] == [b"ok"] * 2

    assert [len(heads) for heads in door.heads] == [1, 1]
    way.close()


def test_what_a_hub_says_unasked_on_a_kept_connection_is_no_answer(open_door, tmp_path):
    door = open_door(later=b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
    way = connect(door, tmp_path)

    answers = []
    for _ in range(3):
        answers.append(ask(way))
        sleep(0.1)

    assert answers == [b"ok"] * 3
    way.close()


def test_after_an_interim_answer_the_connection_is_not_used_again(open_door, tmp_path):
    door = open_door(given=b"HTTP/1.1 103 Early Hints\r\n\r\n", later=GIVEN)
    way = connect(door, tmp_path)

    assert [way.ask("POST", "/", b"", {}).status for _ in range(2)] == [103, 103]

    assert [len(heads) for heads in door.heads] == [1, 1]


def test_after_an_answer_in_broken_chunks_the_connection_is_not_used_again(open_door, tmp_path):
    door = open_door(given=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    way = connect(door, tmp_path)

    assert [ask(way) for _ in range(2)] == [b"", b""]

    assert [len(heads) for heads in door.heads] == [1, 1]


@pytest.mark.parametrize("tls", [True, False])
def test_who_says_that_a_batch_is_too_large_before_it_is_sent_is_heard(open_door, tmp_path, tls):
    """Sooner or later: the reset that follows may overtake it."""
    refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"
    door = open_door(of_each=(1,) * 8, given=refusal, tls=tls)
    way = connect(door, tmp_path)

    def status():
        try:
            return way.ask("POST", "/", b"x" * 8_000_000, {}).status
        except (ConnectionError, ssl.SSLEOFError):
            return None

    answers = [status() for _ in range(8)]

    assert 413 in answers
    assert {*answers} <= {413, None}
    assert len(door.heads) == 8  # each on a connection of its own


def test_who_hangs_up_before_a_batch_is_sent_and_says_nothing_gave_no_answer(open_door, tmp_path):
    door = open_door(of_each=(1,), given=b"")
    way = connect(door, tmp_path)

    with pytest.raises((ConnectionError, ssl.SSLEOFError)):
        way.ask("POST", "/", b"x" * 8_000_000, {})


def test_a_hub_that_is_not_there_gives_no_answer(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    way = HubConnection(
        "https://127.0.0.1:%d" % port,
        tls=ssl.create_default_context(),
        timeout_s=5.0,
        note_date=lambda _: None,
    )

    with pytest.raises(ConnectionRefusedError):
        ask(way)


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_an_ipv6_address_without_a_port_is_asked_at_its_schemes(monkeypatch, scheme, port):
    asked = []

    def refuse(address, *_, **__):
        asked.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    context = ssl.create_default_context()
    way = HubConnection(
        scheme + "://[fd00::17]", tls=context, timeout_s=5.0, note_date=lambda _: None
    )

    with pytest.raises(ConnectionRefusedError):
        ask(way)

    assert asked == [("fd00::17", port)]


def test_without_tls_nothing_is_kept_open_at_the_hub(open_door, tmp_path):
    door = open_door(of_each=(1, 1), tls=False)
    way = connect(door, tmp_path)

    assert [ask(way) for _ in range(2)] == [b"ok"] * 2

    assert all(b"Connection: close\r\n" in head for heads in door.heads for head in heads)
    assert len(door.heads) == 2


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY"])
def test_a_proxy_of_the_environment_is_asked_in_the_hubs_place(hub, monkeypatch, name):
    monkeypatch.setenv(name, hub.url)
    hub.answers = [(200, {}, {"stored": 1})]

    assert Sender("http://hub.invalid", "t").send(b"\x1f\x8bnothing").verdict is Verdict.ACCEPTED

    assert hub.requests[-1][0] == "http://hub.invalid/api/v1/batches"


def test_a_host_that_needs_no_proxy_is_asked_itself(hub, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy.invalid")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    hub.answers = [(200, {}, {"stored": 1})]

    assert Sender(hub.url, "t").send(b"\x1f\x8bnothing").verdict is Verdict.ACCEPTED
