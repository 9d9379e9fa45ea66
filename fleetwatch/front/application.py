"""The ASGI application: each request read whole, then given to the threads of its kind.

Each kind has its own threads and connections to the database, so that none starves another: agents'
batches, people and scripts that are known, strangers, passwords, which cost half a second each,
static files, and `/healthz`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.http import parse_cookie
from django.utils import timezone

from fleetwatch.accounts.selectors import user_of_session
from fleetwatch.accounts.services import authenticate_api_token
from fleetwatch.front import bodies, refused, senders, wsgi
from fleetwatch.front.bodies import GoneError, Receive
from fleetwatch.front.connections import Connection, Connections
from fleetwatch.front.known_batches import KnownBatches
from fleetwatch.front.protocol import end_overdue_for_ever
from fleetwatch.front.thread_lanes import BusyError, Lane, Sender
from fleetwatch.front.watch import Watch
from fleetwatch.front.wsgi import Answer, FileAnswer
from fleetwatch.ingest import door as ingest
from fleetwatch.ingest import requests, tokens
from fleetwatch.ingest.body import TooLargeError
from fleetwatch.ingest.door import Door, Head
from fleetwatch.ingest.pressure import pressure
from fleetwatch.operations import disk
from fleetwatch.operations.services import beat

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

ENROLL = "/api/v1/enroll"
HEALTH = "/healthz"
# Threads, and with them connections to the database. Agents have five (the groups' one, the long
# way, the look at a token); people who are known have what the pool holds beyond all others. A
# password at a time of strangers and one of known browsers: a hash takes a core for some tenths of
# a second.
LONG_WAY_THREADS = 3
TOKEN_THREADS = 1
STRANGERS_THREADS = 2
PASSWORD_THREADS = 1
OTHERS_CONNECTIONS = 1 + LONG_WAY_THREADS + TOKEN_THREADS + STRANGERS_THREADS + 2 * PASSWORD_THREADS
FEWEST_PAGE_THREADS = 3
# Where a form makes us hash a password.
PASSWORD_PATHS = frozenset(
    {"/accounts/login/", "/accounts/reauthenticate/", "/accounts/password/change/"}
)
# Who is nobody may send a form to log in, and no more; who is somebody is asked of the database
# where more is to come.
MAX_STRANGERS_BYTES = 65_536
MORE_IS_FOR_USERS = ", which is for who is logged in to send"
MAX_FORM_BYTES = requests.MAX_BATCH_BYTES + 65_536
# Of people's and scripts' larger bodies, together and of one user.
MAX_HELD_BYTES = 64 * 1024 * 1024
MAX_HELD_OF_USER = 16 * 1024 * 1024
# Of nodes' larger batches, together: twice what can wait for the long way's threads, at a megabyte
# each, as the rest of an outage has.
MAX_HELD_OF_NODES = 128 * 1024 * 1024
PIECE_BYTES = wsgi.PIECE_BYTES
# How often it is noted that batches are taken: who is not heard meanwhile is silent.
DOOR = "door"
BEAT_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request of ASGI, its headers by name."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Mapping[bytes, bytes]

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    @property
    def connection(self) -> Connection:
        """The connection, as it is registered."""
        held: Connection = self.scope["state"]["connection"]
        return held

    @property
    def address(self) -> str:
        """Whose address the request comes from, as trusted proxies say; of an IPv6 one its /64."""
        return str(self.scope["state"]["address"])

    @property
    def is_post(self) -> bool:
        return bool(self.scope["method"] == "POST")

    @property
    def is_password(self) -> bool:
        return self.is_post and self.path in PASSWORD_PATHS

    @property
    def has_body(self) -> bool:
        return (
            self.headers.get(b"content-length", b"0") != b"0"
            or b"transfer-encoding" in self.headers
        )

    @property
    def is_file(self) -> bool:
        """Whether it asks for a static file."""
        return (
            self.path.startswith("/static/")
            and self.scope["method"] in ("GET", "HEAD")
            and not self.has_body
        )

    @property
    def is_large(self) -> bool:
        """Whether the body may be larger than what strangers may send."""
        is_small = self.declared_bytes is not None and self.declared_bytes <= MAX_STRANGERS_BYTES
        return self.has_body and not is_small

    @property
    def declared_bytes(self) -> int | None:
        """The length of the body, where it is declared."""
        declared = self.headers.get(b"content-length", b"")
        return int(declared) if declared.isdigit() else None

    @property
    def stranger(self) -> Sender:
        """Who sends it, where nothing else is known of them."""
        return senders.stranger(self.address)

    @property
    def bearer(self) -> str:
        """The token of the Authorization header. Raises UnknownTokenError when there is none."""
        return requests.bearer_of(self.header(b"authorization"))

    def header(self, name: bytes) -> str | None:
        """The header's text."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Front:
    """The application. `pool` is how many connections to the database the process may have."""

    def __init__(self, door: Door, *, pool: int, ask_database: Callable[[], None]) -> None:
        self._door = door
        self._tokens = Lane("tokens", threads=TOKEN_THREADS)
        self._long_way = Lane("long-way", threads=LONG_WAY_THREADS, waiting=64)
        self._pages = Lane("pages", threads=_page_threads(pool))
        self._passwords = Lane("passwords", threads=PASSWORD_THREADS, waiting=64)
        self._strangers = Lane("strangers", threads=STRANGERS_THREADS)
        self._guesses = Lane("guesses", threads=PASSWORD_THREADS, waiting=64)
        self._health = Lane("health", threads=1)
        # no thread that may wait for the database
        self._files = Lane("files", threads=1)
        self._room, self._nodes_room = _rooms()
        self._senders = senders.KnownSenders()
        self.database = Watch("database", ask_database, on_lost=self._on_database_lost)
        self.cache = Watch("redis", _ask_cache, on_lost=self._on_cache_lost)
        self.known_batches = KnownBatches(door, self.database)

    @property
    def is_storing(self) -> bool:
        """Whether a batch is being read or stored."""
        return bool(self.known_batches.busy)

    @property
    def held_bytes(self) -> int:
        """Of larger bodies."""
        return self._room.held + self._nodes_room.held

    @property
    def takes_batches(self) -> bool:
        """Whether an agent that comes now is heard."""
        is_full = disk.is_short() or self.known_batches.is_full
        return not (self.database.is_away or pressure.is_refusing or is_full)

    async def beat_for_ever(self) -> None:
        """Notes that batches are taken, while they are."""
        while True:
            await asyncio.sleep(BEAT_EVERY_S)
            if self.takes_batches:
                with suppress(*refused.REFUSED):
                    await self._tokens.run((DOOR,), partial(_asked, beat, DOOR))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send, dict(scope["headers"]))
        try:
            answer = await self._answer(request)
        except GoneError:
            return
        except refused.REFUSED as error:
            await self._refuse(request, error)
        else:
            await _send(request, answer)

    async def _answer(self, request: Request) -> Answer:
        refused.check_charset(request.header(b"content-type") or "")
        self._check_servers(request)
        if request.path == HEALTH:
            return await self._django(request, self._health, request.stranger)
        if request.is_file:
            return await self._django(request, self._files, request.stranger)
        if request.is_post and request.path == ingest.PATH:
            return await self._batch(request)
        if request.is_post and request.path == ENROLL:
            return await self._enrolment(request)
        return await self._page(request)

    def _check_servers(self, request: Request) -> None:
        """Raises DatabaseAwayError or CacheAwayError where the answer needs the one that is
        away.
        """
        needs_database = request.path != HEALTH and not request.is_file
        if needs_database and self.database.is_away:
            raise refused.DatabaseAwayError
        if request.is_password and self.cache.is_away:
            raise refused.CacheAwayError

    async def _page(self, request: Request) -> Answer:
        """What people and scripts ask."""
        somebody = self._senders.sender(request.headers)
        sender = somebody or request.stranger
        if request.is_password:
            return await self._django(
                request, self._passwords if somebody else self._guesses, sender
            )
        user_id = await self._user_id(request) if request.is_large else None
        answer = await self._django(
            request, self._pages if somebody else self._strangers, sender, user_id=user_id
        )
        self._senders.note(request.headers, path=request.path, status=answer.status)
        return answer

    async def _user_id(self, request: Request) -> int | None:
        """Who may send a large body: whose live session or token it comes with.

        None for strangers.
        """
        if b"cookie" not in request.headers and b"authorization" not in request.headers:
            return None
        return await self._tokens.run(request.stranger, partial(_asked, _user_id_of, request))

    async def _django(
        self, request: Request, lane: Lane, sender: Sender, *, user_id: int | None = None
    ) -> Answer:
        is_strangers = user_id is None
        limit = MAX_STRANGERS_BYTES if is_strangers else MAX_FORM_BYTES
        why = MORE_IS_FOR_USERS if is_strangers else ""
        with self._room.place(user_id) as grow:
            environ = wsgi.environ_of(
                request.scope, await _body(request, limit=limit, why=why, grow=grow)
            )
            self._check_servers(request)  # the body may have taken its time
            return await lane.run(sender, partial(wsgi.answer, self._door.django, environ))

    async def _enrolment(self, request: Request) -> Answer:
        look = partial(_asked, tokens.check_enrollment_token, request.bearer)
        await self._tokens.run(request.stranger, look)
        return await self._django(request, self._long_way, request.stranger)

    async def _batch(self, request: Request) -> Answer:
        """A batch, read while no other one of its token is, stored while no other one of its node
        is.

        A body on its way holds up its own token only: that may be revoked, and another be the
        node's.
        """
        node_id = await self._node_of(request)
        with self._alone(request.bearer), self._nodes_room.place(request.bearer) as grow:
            if node_id in self.known_batches.busy:
                raise refused.NodeBusyError
            if disk.is_short():
                raise refused.DiskFullError
            if self.known_batches.is_full:
                raise BusyError
            environ = wsgi.environ_of(
                request.scope, await _body(request, limit=requests.MAX_BATCH_BYTES, grow=grow)
            )
            self._check_servers(request)
            with self._alone(node_id):
                return await self._store(request, environ, node_id)

    @contextmanager
    def _alone(self, place: Hashable) -> Iterator[None]:
        """Raises NodeBusyError while somebody else is in the place."""
        busy = self.known_batches.busy
        if place in busy:
            raise refused.NodeBusyError
        busy.add(place)
        try:
            yield
        finally:
            busy.discard(place)

    async def _node_of(self, request: Request) -> int:
        """The id of the node that the token speaks for: known here, or asked for.

        Raises UnknownTokenError.
        """
        node_id = self._door.known_node(Head.of_headers(request.headers))
        if node_id is not None:
            return node_id
        look = partial(_asked, tokens.node_id_of, request.bearer)
        return await self._tokens.run(request.stranger, look)

    async def _store(self, request: Request, environ: wsgi.Environ, node_id: int) -> Answer:
        answer = await self._long_way.run(
            (node_id,), partial(wsgi.answer, self._door.long_way, environ)
        )
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._door.forget(Head.of_headers(request.headers))
        return answer

    def close(self) -> None:
        """Gives threads and connections back that have nothing to do."""
        for lane in (*self._asking_database(), self._health, self._files):
            lane.close()
        self.known_batches.close()
        self.database.close()
        self.cache.close()

    def _asking_database(self) -> Iterable[Lane]:
        yield from (self._tokens, self._long_way, self._pages)
        yield from (self._strangers, self._passwords, self._guesses)

    def _on_database_lost(self) -> None:
        """Nobody waits for threads that may wait for ever."""
        for lane in self._asking_database():
            lane.fail(refused.DatabaseAwayError())
        self.known_batches.fail()

    def _on_cache_lost(self) -> None:
        for lane in (self._passwords, self._guesses):
            lane.fail(refused.CacheAwayError())

    async def _refuse(self, request: Request, error: Exception) -> None:
        response = refused.response(error, path=request.path)
        answer = Answer(response.status_code, wsgi.encoded(response.items()), response.content)
        await _send(request, answer, is_last=request.has_body)


def _page_threads(pool: int) -> int:
    return max(FEWEST_PAGE_THREADS, pool - OTHERS_CONNECTIONS)


def _rooms() -> tuple[bodies.Room, bodies.Room]:
    """For people's larger bodies, and for nodes'."""
    return (
        bodies.Room(MAX_STRANGERS_BYTES, MAX_HELD_OF_USER, MAX_HELD_BYTES),
        bodies.Room(MAX_STRANGERS_BYTES, requests.MAX_BATCH_BYTES, MAX_HELD_OF_NODES),
    )


def _asked(look: Callable[..., Any], of: Any) -> Any:
    """What the look at a token or a session gives, in a thread that gives its connection back."""
    try:
        return look(of, timezone.now())
    finally:
        connection.close()


def _user_id_of(request: Request, now: datetime) -> int | None:
    """The user whom the request's token or session speaks for."""
    try:
        user = authenticate_api_token(request.bearer, now)
    except tokens.UnknownTokenError:
        cookies = parse_cookie(request.header(b"cookie") or "")
        user = user_of_session(cookies.get(settings.SESSION_COOKIE_NAME, ""))
    return None if user is None else user.pk


def _ask_cache() -> None:
    cache.get("is-anybody-there")


async def _body(
    request: Request, *, limit: int, why: str = "", grow: Callable[[int], None] = lambda _: None
) -> bytes:
    """The whole body.

    Raises TooLargeError, unread where the length is declared, SlowBodyError, GoneError.
    """
    if not request.has_body:
        return b""
    if (request.declared_bytes or 0) > limit:
        raise TooLargeError(f"the body is larger than {limit} bytes{why}")
    return await bodies.receive_body(request.receive, request.connection, limit=limit, grow=grow)


async def _send(request: Request, answer: Answer, *, is_last: bool = False) -> None:
    """The answer, in pieces: a peer that takes none of them is disconnected, and what sends to it
    ends.

    `is_last`: then the connection is closed, and what its peer still sends is thrown away.
    """
    headers = _headers_of(answer, is_last=is_last)
    await request.send({"type": "http.response.start", "status": answer.status, "headers": headers})
    is_empty = request.scope["method"] == "HEAD" or answer.status in (204, 304)
    if isinstance(answer.body, bytes) and len(answer.body) <= PIECE_BYTES and not is_last:
        await _send_body(request, b"" if is_empty else answer.body, is_more=False)
        return
    try:
        for piece in () if is_empty else _pieces(answer.body):
            await _send_body(request, piece, is_more=True)
    finally:
        if isinstance(answer.body, FileAnswer):
            answer.body.close()
    if is_last:
        await bodies.linger(request.receive, request.connection)
    await _send_body(request, b"", is_more=False)


def _headers_of(answer: Answer, *, is_last: bool) -> list[tuple[bytes, bytes]]:
    """Its headers, the length among them where it is known."""
    headers = list(answer.headers)
    has_length = any(name.lower() == b"content-length" for name, _ in headers)
    if isinstance(answer.body, bytes) and not has_length:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if is_last:
        headers.append((b"connection", b"close"))
    return headers


async def _send_body(request: Request, piece: bytes, *, is_more: bool) -> None:
    await request.send({"type": "http.response.body", "body": piece, "more_body": is_more})


def _pieces(body: bytes | FileAnswer) -> Iterable[bytes]:
    if isinstance(body, FileAnswer):
        return body
    return (body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES))


def application_of(
    front: Front, register: Connections
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """The front, and what runs beside it as long as the server does."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            works = (
                end_overdue_for_ever(register),
                front.database.watch_for_ever(),
                front.cache.watch_for_ever(),
                front.beat_for_ever(),
            )
            await _live(receive, send, works)
        elif scope["type"] == "http":
            await front(scope, receive, send)

    return application


async def _live(receive: Receive, send: Send, works: Iterable[Coroutine[Any, Any, None]]) -> None:
    await receive()
    beside = [asyncio.create_task(work) for work in works]
    await send({"type": "lifespan.startup.complete"})
    await receive()
    for task in beside:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await send({"type": "lifespan.shutdown.complete"})
