import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fleetwatch.lib import outbound


@contextmanager
def serving(answer) -> Iterator[str]:
    """An HTTP server that hands each POST to `answer(handler)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.body = self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join(5)


def reply(status: int, text: bytes = b"ok", **headers: str):
    def answer(handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


def resolving(monkeypatch, *addresses: str) -> None:
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *args, **kwargs: [(2, 1, 6, "", (address, 443)) for address in addresses],
    )


def test_json_is_posted_and_the_answer_comes_back():
    seen = []

    def answer(handler) -> None:
        seen.append((handler.path, handler.headers["Content-Type"], handler.body))
        reply(200, b"ok", X_Kind="test")(handler)

    with serving(answer) as url:
        got = outbound.post(f"{url}/hook?a=1", body=b'{"n": 1}')

    assert (got.status, got.text, got.headers["x-kind"]) == (200, "ok", "test")
    assert seen == [("/hook?a=1", "application/json; charset=utf-8", b'{"n": 1}')]


def test_a_redirect_is_an_answer_and_is_not_followed():
    with serving(reply(302, b"", Location="http://169.254.169.254/")) as url:
        got = outbound.post(url, body=b"{}")

    assert got.status == 302


def test_an_endless_answer_is_cut():
    with serving(reply(200, b"x" * 400_000)) as url:
        got = outbound.post(url, body=b"{}")

    assert len(got.text) == outbound.MAX_ANSWER_BYTES


def test_one_byte_now_and_then_does_not_hold_the_caller():
    done = threading.Event()

    def drip(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        try:
            while not done.wait(0.05):
                handler.wfile.write(b"x")
        except OSError:
            return

    with serving(drip) as url:
        began = time.monotonic()
        with pytest.raises(outbound.OutboundError, match=r"127\.0\.0\.1: no answer within 0\.3 s"):
            outbound.post(url, body=b"{}", timeout_s=0.3)
        took_s = time.monotonic() - began
        done.set()

    assert took_s < 10  # the whole answer would take 50 s


def test_a_refused_connection_names_the_host_but_not_the_secret_path():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(outbound.OutboundError) as caught:
        outbound.post(f"http://127.0.0.1:{port}/services/s3cr3t", body=b"{}")

    assert str(caught.value) == "127.0.0.1: refused the connection"


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "169.254.0.1", "fd00:ec2::254", "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::",
        "fe80::1%eth0", "0.0.0.0", "100.100.100.200", "::", "ff02::1",
    ],
)  # fmt: skip
def test_metadata_and_link_local_addresses_are_never_called(monkeypatch, address):
    resolving(monkeypatch, address)

    with pytest.raises(outbound.ForbiddenAddressError):
        outbound.post("https://innocent.example/hook", body=b"{}")


def test_one_bad_address_among_good_ones_is_enough_to_refuse(monkeypatch):
    resolving(monkeypatch, "93.184.216.34", "169.254.169.254")

    with pytest.raises(outbound.ForbiddenAddressError):
        outbound.resolve("innocent.example", 443, allow_private=True)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "192.168.0.4", "::1", "fd12::1"])
def test_private_addresses_are_a_choice(monkeypatch, address):
    resolving(monkeypatch, address)

    assert outbound.resolve("chat.internal", 443, allow_private=True) == [address]
    with pytest.raises(outbound.ForbiddenAddressError, match="FLEETWATCH_ALLOW_PRIVATE_WEBHOOKS"):
        outbound.resolve("chat.internal", 443, allow_private=False)


def test_of_a_name_with_many_addresses_four_are_tried_and_all_are_judged(monkeypatch):
    resolving(monkeypatch, *[f"192.0.3.{host}" for host in range(1, 10)])
    assert outbound.resolve("many.example", 443, allow_private=True) == [
        "192.0.3.1",
        "192.0.3.2",
        "192.0.3.3",
        "192.0.3.4",
    ]

    resolving(monkeypatch, *[f"192.0.3.{host}" for host in range(1, 10)], "169.254.169.254")
    with pytest.raises(outbound.ForbiddenAddressError):
        outbound.resolve("many.example", 443, allow_private=True)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example.com/x", "must begin with"),
        ("file:///etc/passwd", "must begin with"),
        ("https://", "names no host"),
        ("https://user:pw@example.com/", "user name"),
        ("https://example.com:99999/", "no web address"),
        ("https://example.com/a b", "no web address"),
        ("https://example.com/\r\nX: y", "no web address"),
        ("https://[bad/", "no web address"),
        ("https://example.com/é", "no web address"),
        ("hooks.slack.com/services", "must begin with"),
    ],
)
def test_what_is_no_web_address_is_refused_with_a_sentence(url, why):
    with pytest.raises(ValueError, match=why):
        outbound.check_url(url)


def test_something_that_is_not_http_is_one_clear_error():
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        peer, _ = listener.accept()
        peer.recv(4096)
        peer.sendall(b"SSH-2.0-OpenSSH\r\n")
        peer.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with pytest.raises(outbound.OutboundError, match="not HTTP"):
        outbound.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", body=b"{}")
    thread.join(5)
    listener.close()
