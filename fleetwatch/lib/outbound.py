"""The way out: where connections go, and the one HTTP client, bounded in time and size.

A name is resolved once, every address it has is judged, and the connection goes to a
judged address: a name that changes its answer in between leads nowhere else. Redirects
are answers, never followed. Addresses and bodies are never logged: a webhook's address
is its secret.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from fleetwatch.lib import networks
from fleetwatch.lib.networks import Reach

MAX_ANSWER_BYTES = 256 * 1024  # a word or a small JSON; Slack answers with the message it was sent
MAX_URL = 2000
MAX_ADDRESSES = 4  # of one name that are tried: they share the time
HEADERS = {
    "User-Agent": "FleetWatch",
    "Content-Type": "application/json; charset=utf-8",
    "Accept-Encoding": "identity",
    "Connection": "close",
}

FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (ssl.SSLError, "TLS failed: does it speak https?"),
    (ConnectionRefusedError, "refused the connection"),
    (ConnectionError, "closed the connection"),
    (http.client.HTTPException, "closed the connection or answered something that is not HTTP"),
)


class OutboundError(Exception):
    """No answer came: refused before it was sent, unreachable, or too slow.

    Names the host, never the whole address.
    """


class ForbiddenAddressError(OutboundError):
    """This address is never called; trying again changes nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other side answered; header names are lower case, text is cut at 256 KiB."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class _Request:
    path: str
    body: bytes
    headers: Mapping[str, str]


def check_url(url: str) -> SplitResult:
    """The parts of an http or https address. Raises ValueError with a sentence for people."""
    if (
        len(url) > MAX_URL
        or not url.isascii()
        or any(character.isspace() or not character.isprintable() for character in url)
    ):
        raise ValueError("is no web address")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("is no web address") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError("must begin with https:// or http://")
    if not parts.hostname or port == 0:
        raise ValueError("names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a user name or password")
    return parts


def resolve(host: str, port: int, *, allow_private: bool) -> list[str]:
    """The host's first four addresses in the resolver's order; all that it has are judged.

    Raises ForbiddenAddressError when any of them may not be called, OutboundError when the name is
    unknown.
    """
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OutboundError(f"{host}: the name is unknown") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in answers))
    for address in addresses:
        _judge(host, ipaddress.ip_address(address.partition("%")[0]), allow_private=allow_private)
    return addresses[:MAX_ADDRESSES]


class Deadline:
    """An end to one exchange over a connection. A socket's time-out is per read: a byte now and
    then would hold us for hours.

    While it is entered, the connection that it made is cut once `within_s` seconds are over.
    """

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._ends_at = time.monotonic() + within_s
        self._over = threading.Event()
        self._timer = threading.Timer(within_s, self._cut)
        self._timer.daemon = True
        self._wire: socket.socket | None = None

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        if self._wire is not None:
            self._wire.close()

    def connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        """A connection to the first of these judged addresses that takes it. Raises the last one's
        OSError.

        Each address has its share of the time that is left, which then is the time-out of each
        read.
        """
        for tried, address in enumerate(addresses[:-1]):
            try:
                return self._connect(address, port, self._left_s() / (len(addresses) - tried))
            except OSError:
                continue
        return self._connect(addresses[-1], port, self._left_s())

    def _connect(self, address: str, port: int, timeout_s: float) -> socket.socket:
        connection = socket.create_connection((address, port), timeout_s)
        connection.settimeout(self.within_s)
        self._wire = connection.dup()  # the connection itself becomes another object with TLS
        if self.is_over:
            raise TimeoutError
        return connection

    def _left_s(self) -> float:
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _cut(self) -> None:
        self._over.set()
        if self._wire is not None:
            with suppress(OSError):  # already closed
                self._wire.shutdown(socket.SHUT_RDWR)


def post(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
    allow_private: bool = True,
) -> Answer:
    """The answer to a POST of JSON; the whole call takes at most about `timeout_s` after the name
    is resolved. `headers` are sent beside our own.

    Raises ValueError for an address that is none, ForbiddenAddressError, OutboundError when no
    answer came.
    """
    parts = check_url(url)
    host = parts.hostname or ""
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    addresses = resolve(host, port, allow_private=allow_private)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    with Deadline(timeout_s) as deadline:
        connection = _Pinned(host, port, addresses=addresses, tls=is_tls, deadline=deadline)
        sent = _Request(path, body, HEADERS | dict(headers or {}))
        return _exchange(connection, sent, deadline)


class _Pinned(http.client.HTTPConnection):
    """A connection to a judged address of the host; TLS, where asked for, is verified against the
    host's name.
    """

    def __init__(
        self, host: str, port: int, *, addresses: list[str], tls: bool, deadline: Deadline
    ) -> None:
        super().__init__(host, port)
        self.default_port = 443 if tls else 80  # decides whether the Host header carries the port
        self._addresses = addresses
        self._tls = tls
        self._deadline = deadline

    def connect(self) -> None:
        self.sock = self._deadline.connect(self._addresses, self.port)
        if self._tls:
            self.sock = ssl.create_default_context().wrap_socket(
                self.sock, server_hostname=self.host
            )


def _exchange(connection: _Pinned, sent: _Request, deadline: Deadline) -> Answer:
    try:
        connection.request("POST", sent.path, body=sent.body, headers=sent.headers)
        response = connection.getresponse()
        text = response.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
        if deadline.is_over:
            raise TimeoutError
        return Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, text
        )
    except (OSError, http.client.HTTPException) as error:
        raise OutboundError(f"{connection.host}: {_why(error, deadline)}") from error
    finally:
        connection.close()


def _why(error: Exception, deadline: Deadline) -> str:
    """The failure in words that carry no part of the address's path."""
    if deadline.is_over or isinstance(error, TimeoutError):
        return f"no answer within {deadline.within_s:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    for kind, words in FAILURES:
        if isinstance(error, kind):
            return words
    return (error.strerror if isinstance(error, OSError) else None) or "the connection failed"


def _judge(host: str, address: networks.Address, *, allow_private: bool) -> None:
    reach = networks.reach(address)
    if reach is Reach.NEVER:
        raise ForbiddenAddressError(
            f"{host} leads to {networks.inner(address)}: link-local, metadata and multicast"
            " addresses are never called"
        )
    if reach is Reach.PRIVATE and not allow_private:
        raise ForbiddenAddressError(
            f"{host} leads to the private address {networks.inner(address)};"
            " FLEETWATCH_ALLOW_PRIVATE_WEBHOOKS is off"
        )
