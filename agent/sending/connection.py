"""The way to the hub: one connection, kept over TLS, whose handshake costs an agent as much as a
minute of its sending.
"""

import http.client
import os
import ssl
import time
from http.client import HTTP_PORT, HTTPS_PORT
from typing import IO, Any, Callable, Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

# proxies in front of a hub end idle connections after 60 s (nginx: 75 s, as the hub itself), and
# who sits between may forget them without a word
KEPT_S = 55.0
MAX_ANSWER_BYTES = 64 * 1024


class Answer(NamedTuple):
    """One answer of the hub."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


NoteDate = Callable[[Optional[str]], None]  # of an answer whose head came just now


class HubConnection:
    """Asks one hub, one question at a time."""

    def __init__(
        self, server: str, *, tls: ssl.SSLContext, timeout_s: float, note_date: NoteDate
    ) -> None:
        self._note_date = note_date
        self._server = server
        self._tls = tls
        self._timeout_s = timeout_s
        self._connection: Optional[http.client.HTTPConnection] = None
        self._answered_s = 0.0  # of the monotonic clock

    def ask(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> Answer:
        """The hub's answer, whatever it is; a redirect is not followed.

        Raises OSError, HTTPException or ValueError where there is none.
        """
        if not self._is_quiet():
            self.close()
        is_kept = self._connection is not None
        try:
            return self._ask(method, path, body, headers)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            if not is_kept:
                raise
            # the hub ended it meanwhile; what it may have heard twice changes nothing there
            return self._ask(method, path, body, headers)

    def close(self) -> None:
        """The next question opens another connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_quiet(self) -> bool:
        """Whether the kept connection may serve once more: who asks on one that has something to
        read would take that for the answer.
        """
        sock = None if self._connection is None else self._connection.sock
        if sock is None or time.monotonic() - self._answered_s > KEPT_S:
            return False
        sock.settimeout(0)
        try:
            sock.recv(1)  # what nobody asked for, or its end
        except ssl.SSLWantReadError:
            sock.settimeout(self._timeout_s)
            return True
        except OSError:
            pass
        return False

    def _ask(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> Answer:
        is_reusable = False
        try:
            with self._sent(method, path, body, headers) as answer:
                self._note_date(answer.headers.get("Date"))
                content = read_answer(answer, within_s=self._timeout_s)
                is_reusable = self._is_tls and _is_whole(answer, content) and not answer.will_close
                return Answer(answer.status, answer.headers, content)
        finally:
            self._answered_s = time.monotonic()
            if not is_reusable:
                self.close()

    def _sent(
        self, method: str, path: str, body: Optional[bytes], headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        """The answer, whose head has come."""
        if self._connection is None:
            self._connection = self._opened()
        # over plain http there is no handshake to save
        ending = {} if self._is_tls else {"Connection": "close"}
        place = urlsplit(self._server).path + path
        try:
            self._connection.request(method, place, body, {**headers, **ending})
        except (ConnectionError, ssl.SSLEOFError):
            answer = _early_answer(self._connection)
            if answer is None:
                raise
            return answer
        return self._connection.getresponse()

    @property
    def _is_tls(self) -> bool:
        return isinstance(self._connection, http.client.HTTPSConnection)

    def _opened(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._server)
        host = parts.hostname or ""
        # with its port: http.client takes the end of an IPv6 address for one
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, parts.port or HTTPS_PORT, timeout=self._timeout_s, context=self._tls
            )
        return http.client.HTTPConnection(host, parts.port or HTTP_PORT, timeout=self._timeout_s)


def _early_answer(
    connection: http.client.HTTPConnection,
) -> Optional[http.client.HTTPResponse]:
    """What was said by who ended the connection before it had heard all: that a batch is too large;
    None where nothing was.
    """
    if connection.sock is None:
        return None
    try:
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException):
        return None
    answer.will_close = True
    return answer


def _is_whole(answer: http.client.HTTPResponse, content: bytes) -> bool:
    """Whether nothing of it can come still; after an interim answer (1xx) the answer does."""
    # read1 leaves an answer of known length open, `length` is what is left of it; one in broken
    # chunks is closed, and nothing
    has_ended = answer.length == 0 or (answer.isclosed() and bool(content))
    return answer.status >= 200 and has_ended


def cause_of(error: Exception) -> Exception:
    """What stands behind it: urllib wraps what it meets."""
    reason = getattr(error, "reason", None)  # a text, where it is TLS that speaks
    return reason if isinstance(reason, Exception) else error


def is_proxied() -> bool:
    """Whether the environment names a proxy: then its rules say who is asked through it."""
    return any(
        value and name.lower().endswith("_proxy") and name.lower() != "no_proxy"
        for name, value in os.environ.items()
    )


def read_answer(answer: IO[bytes], *, within_s: float) -> bytes:
    """The answer, MAX_ANSWER_BYTES at most; what came until the time was up, where it only
    drips.
    """
    pieces = []
    left = MAX_ANSWER_BYTES
    deadline = time.monotonic() + within_s
    # one recv each, while read would wait for all of them
    read: Any = getattr(answer, "read1", answer.read)
    try:
        while left > 0 and time.monotonic() < deadline:
            piece = read(left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
    except (OSError, http.client.HTTPException):
        return b""
    return b"".join(pieces)
