"""Where a mail goes: to the address that was judged, and there to the server that the channel
names.
"""

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetwatch.notify.transports.base import TransportError
from fleetwatch.notify.transports.email import EMAIL
from tests.certificates import certificate
from tests.notify.factories import envelope, smtp_config
from tests.notify.fakes import FakeSMTP

NAME = "mail.fleet.example"
look_up = socket.getaddrinfo


def answering(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """The resolver's answers for NAME, one after another, the last one again and again."""
    left = list(answers)

    def resolve(host: str, *arguments: object, **options: object) -> list[object]:
        if host != NAME:
            return look_up(host, *arguments, **options)
        return look_up(left.pop(0) if len(left) > 1 else left[0], *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def send(port: int, *, allow_private: bool = True, **changes: str) -> str:
    config = EMAIL.validate(smtp_config(port, host=NAME, **changes))
    return EMAIL.send(config, envelope(), allow_private=allow_private).answer


@pytest.fixture
def judged() -> Iterator[FakeSMTP]:
    server = FakeSMTP("127.0.0.2")
    yield server
    server.stop()


def same_port() -> tuple[FakeSMTP, FakeSMTP]:
    """Servers of 127.0.0.2 and 127.0.0.1 at one port, which the second may find taken."""
    for _ in range(20):
        judged = FakeSMTP("127.0.0.2")
        try:
            return judged, FakeSMTP("127.0.0.1", judged.port)
        except OSError:
            judged.stop()
    raise AssertionError("no port is free at both addresses")


def test_a_name_that_changes_its_answer_leads_nowhere_else(monkeypatch):
    judged, elsewhere = same_port()
    answering(monkeypatch, "127.0.0.2", "127.0.0.1")

    said = send(judged.port)

    judged.stop()
    elsewhere.stop()
    assert said == "accepted"
    assert len(judged.script.mails) == 1
    assert elsewhere.script.mails == []


def test_the_next_address_is_tried_where_the_first_one_does_not_answer(judged, monkeypatch):
    found = [
        *look_up("127.0.0.3", judged.port, type=socket.SOCK_STREAM),
        *look_up("127.0.0.2", judged.port, type=socket.SOCK_STREAM),
    ]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *arguments, **options: (
            found if host == NAME else look_up(host, *arguments, **options)
        ),
    )

    assert send(judged.port) == "accepted"


def test_a_private_address_is_refused_where_private_ones_are_forbidden(judged, monkeypatch):
    answering(monkeypatch, "127.0.0.2")

    with pytest.raises(TransportError, match="FLEETWATCH_ALLOW_PRIVATE_WEBHOOKS is off") as caught:
        send(judged.port, allow_private=False)

    assert caught.value.permanent
    assert judged.script.mails == []


def tls_for(folder: Path, name: str) -> ssl.SSLContext:
    """A server's side of TLS with a certificate for `name`, which folder/server.pem trusts."""
    certificate(folder, name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_tls_is_checked_against_the_name_and_not_the_address(security, monkeypatch, tmp_path):
    server = FakeSMTP("127.0.0.2", tls=tls_for(tmp_path, NAME), is_later=security == "starttls")
    server.script.login = ("fleet", "pass word")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    answering(monkeypatch, "127.0.0.2")

    said = send(server.port, security=security, username="fleet", password="pass word")

    server.stop()
    assert said == "accepted"
    assert len(server.script.mails) == 1


@pytest.mark.parametrize("security", ["tls", "starttls"])
def test_a_server_that_can_not_show_the_name_gets_neither_password_nor_mail(
    security, monkeypatch, tmp_path
):
    server = FakeSMTP(
        "127.0.0.2", tls=tls_for(tmp_path, "another.example"), is_later=security == "starttls"
    )
    server.script.login = ("fleet", "pass word")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    answering(monkeypatch, "127.0.0.2")

    with pytest.raises(TransportError, match="certificate verify failed"):
        send(server.port, security=security, username="fleet", password="pass word")

    server.stop()
    assert server.script.senders == []
