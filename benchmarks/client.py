"""HTTP as a client of the servers under test: kept connections that post, and one that asks and is
measured.
"""

import http.client
import json
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from benchmarks.servers import Hub
from benchmarks.tables import BenchError

END = b"\r\n\r\n"
PARTS = ("/recoverable", "/worst", "/wasters", "/around")  # which a page asks for
# the web server closes a connection that is silent for a minute and a quarter, proxies earlier
KEPT_S = 20


def post_all(port: int, queues: Sequence[Sequence[bytes]]) -> list[float]:
    """Seconds that each answer took; every queue of HTTP requests goes over one kept connection,
    all at once.

    Raises BenchError when a request is refused.
    """
    with ThreadPoolExecutor(len(queues)) as pool:
        return [
            seconds
            for took in pool.map(lambda queue: _empty(port, queue), queues)
            for seconds in took
        ]


def _empty(port: int, queue: Sequence[bytes]) -> list[float]:
    took = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request in queue:
            began = time.perf_counter()
            connection.sendall(request)
            answer = _answer(connection)
            took.append(time.perf_counter() - began)
            if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 204")):
                raise BenchError(answer[:500].decode(errors="replace"))
    return took


def _answer(connection: socket.socket) -> bytes:
    """The head and the body, whose length the head names; 204 has none."""
    answer = b""
    while END not in answer:
        more = connection.recv(65_536)
        if not more:
            raise BenchError(f"the connection ended after {answer[:200]!r}")
        answer += more
    head, _, body = answer.partition(END)
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    length = int(lines.get(b"content-length", b"0"))
    while len(body) < length:
        body += connection.recv(65_536)
    return head


@dataclass(frozen=True, slots=True)
class Page:
    """What a GET gave, and what it took: the clock, and CPU of web and Postgres."""

    status: int
    body: bytes
    clock_s: float
    cpu_s: float

    def json(self) -> Any:
        return json.loads(self.body)


class Reader:
    """Somebody who is logged in, and asks over one kept connection; a new one after a pause, as the
    server closes it then.
    """

    def __init__(self, hub: Hub) -> None:
        from django.test import Client

        from fleetwatch.accounts.models import User
        from fleetwatch.accounts.services import ensure_admin

        ensure_admin(None)
        client = Client()
        client.force_login(User.objects.get(role=User.Role.ADMIN))
        assert hub.port is not None
        self._hub, self._cookie = hub, f"sessionid={client.cookies['sessionid'].value}"
        self._connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=600)
        self._answered = time.monotonic()

    def get(self, path: str) -> Page:
        """Raises BenchError for anything but 200."""
        if time.monotonic() - self._answered > KEPT_S:
            self._connection.close()
        before, began = self._hub.postgres_s() + self._hub.web_s(), time.perf_counter()
        asked = {"HX-Request": "true"} if path.partition("?")[0].endswith(PARTS) else {}
        self._connection.request("GET", path, headers={"Cookie": self._cookie, **asked})
        answer = self._connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - began
        self._answered = time.monotonic()
        used = self._hub.postgres_s() + self._hub.web_s() - before
        if answer.status != 200:
            raise BenchError(f"{path} answered {answer.status}: {body[:300]!r}")
        return Page(answer.status, body, took, used)
