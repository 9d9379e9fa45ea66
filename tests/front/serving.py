"""The web server in a thread of the test, and peers with plain sockets."""

import contextlib
import json
import socket
import threading
import time

import uvicorn
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection

from agent import packed
from fleetwatch.front.application import Front, application_of
from fleetwatch.front.connections import NEXT_S, Connections
from fleetwatch.front.database import Probe, conninfo
from fleetwatch.front.protocol import protocol_of
from fleetwatch.ingest.door import Door
from tests.ingest.factories import gpu, pack, payload

DEADLINE_S = 10


class Server:
    """What serves, on a port of its own."""

    def __init__(self, *, per_address=1000, in_all=2000, proxies=0, ask_database=None):
        self.register = Connections(per_address=per_address, in_all=in_all)
        self.probe = Probe(conninfo())
        self.front = Front(Door(WSGIHandler()), pool=8, ask_database=ask_database or self.probe.ask)
        config = uvicorn.Config(
            application_of(self.front, self.register),
            host="127.0.0.1",
            port=0,
            http=protocol_of(self.register, self.front.known_batches, proxies=proxies),
            ws="none",
            loop="uvloop",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=int(NEXT_S),
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        self._server.run(sockets=[self._listening])

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(DEADLINE_S)
        self.front.close()
        self.probe.close()
        connection.close_pool()

    def begin_to_end(self):
        """As when the process is told to end: who waits for an answer gets it."""
        self._server.should_exit = True

    @property
    def is_ending(self):
        """Whether it takes no new connections any more."""
        return not any(each.is_serving() for each in self._server.servers)

    @property
    def answered(self):
        """How many requests had their whole answer."""
        return self._server.server_state.total_requests

    def connect(self, *, address="127.0.0.1", receive_buffer=None):
        peer = socket.socket()
        if receive_buffer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer.bind((address, 0))
        peer.settimeout(DEADLINE_S)
        peer.connect(("127.0.0.1", self.port))
        return peer

    def wait_until(self, condition):
        """Waits for the server's loop, which has no event to wait for."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def get(self, path, **headers):
        """The answer to a GET on a connection of its own."""
        with self.connect() as peer:
            peer.sendall(head("GET", path, **headers))
            return Answer.of(peer)

    def post_batch(self, mapping, *, bearer):
        """The answer to a batch, sent as agents send it."""
        body = pack(mapping)
        with self.connect() as peer:
            peer.sendall(batch_head(bearer=bearer, length=len(body)) + body)
            return Answer.of(peer)


def head(method, path, **headers):
    given = {
        "host": "127.0.0.1",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def batch_head(*, bearer, length):
    return head(
        "POST",
        "/api/v1/batches",
        authorization=f"Bearer {bearer}",
        content_type=packed.CONTENT_TYPE,
        content_encoding="deflate",
        content_length=str(length),
    )


def minute_ago(node, *, sequence=1):
    """A batch of the node's last minute."""
    start_ms = int(time.time()) // 10 * 10_000 - 60_000 + sequence * 10_000
    return payload(
        node=node, gpus=[gpu(f"GPU-{node}")], count=1, start_ms=start_ms, sequence=sequence
    )


class Answer:
    """A status, the headers by lower-case name, and the body."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @classmethod
    def of(cls, peer):
        """Read until the length that the head names."""
        given = b""
        while b"\r\n\r\n" not in given:
            given += _more(peer)
        first, _, body = given.partition(b"\r\n\r\n")
        line, *lines = first.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (each.partition(":") for each in lines)
        }
        while len(body) < int(headers.get("content-length", 0)):
            body += _more(peer)
        return cls(int(line.split()[1]), headers, body)

    def json(self):
        return json.loads(self.body)


def _more(peer):
    more = peer.recv(65_536)
    assert more, "the connection ended before the answer did"
    return more


def is_closed(peer):
    """Whether the server ends the connection; what it still sends is thrown away."""
    with contextlib.suppress(ConnectionError):
        read_all(peer)
    return True


def read_all(peer):
    """How many bytes came until the connection ended. Raises ConnectionError when it was cut."""
    size = 0
    while more := peer.recv(65_536):
        size += len(more)
    return size


@contextlib.contextmanager
def many(count, connect):
    """So many peers at once, all closed at the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect()) for _ in range(count)]
