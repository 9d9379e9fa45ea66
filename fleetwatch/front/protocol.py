"""Uvicorn's HTTP protocol, with an end to patience: every connection is registered with what it is
waited for.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import structlog
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fleetwatch.front import batch_heads, bodies
from fleetwatch.front.batch_heads import BatchHead
from fleetwatch.front.connections import Connection, Connections, Waits
from fleetwatch.front.known_batches import ACCEPTED, KnownBatch, KnownBatches
from fleetwatch.lib.addresses import client_address, holder_of

MAX_HEAD_BYTES = 65_536
HEAD_TOO_LARGE = (
    f"The head of a request may have {MAX_HEAD_BYTES // 1024} KiB: send fewer or shorter headers"
    " and cookies."
)
# Browsers, proxies and agents send some twenty; each one costs the loop that all share.
MAX_HEADERS = 100
TOO_MANY_HEADERS = f"A request may have {MAX_HEADERS} headers: send fewer."
# Pieces of a body in one read (256 KiB at most): an honest chunk has kilobytes, and each costs that
# loop too.
MAX_PIECES = 1000
NO_REQUEST = "This is no request of HTTP/1.1."
NO_UPGRADE = "No other protocol is spoken here: send a body without an Upgrade header."
# What is still taken of a peer that was told that its head is none: it would otherwise not hear it.
MAX_LINGER_BYTES = 4 * 1024 * 1024
SWEEP_EVERY_S = 1.0
# What the kernel and we hold of an answer that its peer does not take; a thousand such peers would
# else hold gigabytes.
MAX_KERNEL_UNSENT = 65_536
MAX_UNSENT = 16_384
# SO_LINGER for no seconds: the kernel keeps nothing for who does not read
DROP_UNSENT = struct.pack("ii", 1, 0)

log = structlog.get_logger(__name__)


class RefusedRequestError(Exception):
    """What a peer sends is no request that is read: uvicorn has send_400_response answer it."""


class Reading(FlowControl):
    """Reads nothing while `is_whole`: what a peer sends beyond its request stays with the kernel
    until the answer.
    """

    is_whole = False

    def resume_reading(self) -> None:
        if not self.is_whole:
            super().resume_reading()


class Arriving(NamedTuple):
    """A request that brings a batch of a known sender, past the parser, as far as it came."""

    head: BatchHead
    begun: KnownBatch
    given: bytearray

    @property
    def size(self) -> int:
        return self.head.size + self.head.body_size

    @property
    def is_whole(self) -> bool:
        return len(self.given) >= self.size

    @property
    def body(self) -> bytes:
        return bytes(self.given[self.head.size : self.size])


class PatientProtocol(HttpToolsProtocol):
    """One connection, one request at a time.

    Made by `protocol_of`, which names the register and how many proxies are trusted.
    """

    register: Connections
    known_batches: KnownBatches
    proxies: int
    flow: Reading

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Reading(transport)
        transport.set_write_buffer_limits(high=MAX_UNSENT)
        self._set_option(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_KERNEL_UNSENT)
        self._peer = holder_of(self.client[0]) if self.client else ""
        self._head_bytes = 0  # since the last byte of a body, or the last request's end
        self._is_in_message = False  # of those that the parser reads
        self._header_count = 0  # of the request, trailers among them
        self._piece_count = 0  # of bodies, in what was read last
        self._is_head_whole = False
        self._is_last = False
        self._batch: Arriving | None = None  # the request that is read, or stored
        self._held = Connection(
            self._disconnect,
            transport.get_write_buffer_size,
            None if self.proxies else self._peer,
            self.loop.time(),
        )
        if not self.register.add(self._held):
            self._disconnect()

    def connection_lost(self, exc: Exception | None) -> None:
        self.register.remove(self._held)
        if self._batch is not None and not self._batch.is_whole:
            self.known_batches.end(self._batch.begun)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            self._throw_away(data)
            return
        if self._batch is not None:
            self._go_on(self._batch, data)
        elif not (self._is_between and self._begin_batch(data)):
            self._parse(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the peer, which sends nothing any more, is still answered: a batch that is
        whole is.
        """
        if self._batch is None or not self._batch.is_whole:
            return False
        self._is_last = True
        return True

    def _parse(self, data: bytes) -> None:
        if self._held.waits_for is Waits.NEXT:
            self._wait_for(Waits.HEAD)
        self._head_bytes += len(data)
        self._piece_count = 0
        super().data_received(data)
        if self._is_last or self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        if self._is_answering:
            raise RefusedRequestError("it came right behind one that has no answer yet")
        self._header_count = 0
        self._is_head_whole = False
        self._is_in_message = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            self.headers.clear()
            raise RefusedRequestError("it has more headers than any honest one")
        if self._is_head_whole:  # a trailer is no header: it is counted and dropped
            return
        if name.lower() == b"cookie":
            # none of ours has one, and Python before 3.11.10 takes seconds to unquote thousands
            value = value.replace(b"\\", b"")
        super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        self._piece_count += 1
        if self._piece_count > MAX_PIECES:
            raise RefusedRequestError("its body comes in chunks of some bytes")
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        self._is_in_message = False
        super().on_message_complete()
        if self._is_answering:
            self.flow.pause_reading()
            self.flow.is_whole = True

    def send_400_response(self, msg: str) -> None:
        """Also called for what came right behind a request: that one is answered, as the last, and
        the rest is thrown away.
        """
        if self._is_answering:
            self._is_last = True
            self.cycle.keep_alive = False
        elif self._header_count > MAX_HEADERS:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, TOO_MANY_HEADERS)
        else:
            self._refuse(
                HTTPStatus.BAD_REQUEST, NO_UPGRADE if self._is_upgrade_with_body else NO_REQUEST
            )

    def _check_head(self) -> None:
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) != 1 and self.parser.get_http_version() == "1.1":
            raise RefusedRequestError("it names no host, or several (RFC 9112, 3.2)")
        if self._is_upgrade_with_body:
            raise RefusedRequestError("the parser would take its body for the next request")

    def on_headers_complete(self) -> None:
        self._check_head()
        self._head_bytes = 0
        self._is_head_whole = True
        self._wait_for(None)
        address = self._address(self._forwarded())
        if not self.register.move_to(self._held, address):
            self._disconnect()
            return
        self.scope["state"]["address"] = address
        self.scope["state"]["connection"] = self._held
        super().on_headers_complete()

    def _address(self, forwarded: Sequence[str]) -> str:
        """Whose address the request comes from."""
        if not self.proxies:
            return self._peer
        return holder_of(client_address(self._peer, forwarded, proxies=self.proxies))

    def _begin_batch(self, data: bytes) -> bool:
        """Whether what begins with these bytes is a batch that goes past the parser, for its sender
        is known.
        """
        head = batch_heads.read(data)
        begun = None if head is None else self.known_batches.begin(head.headers)
        if head is None or begun is None:
            return False
        self._unset_keepalive_if_required()
        forwarded = head.headers.get(b"x-forwarded-for", b"").decode("latin-1")
        if not self.register.move_to(self._held, self._address([forwarded])):
            self.known_batches.end(begun)
            self._disconnect()
            return True
        self._batch = Arriving(head, begun, bytearray())
        self._wait_for(Waits.BATCH)
        self._go_on(self._batch, data)
        return True

    def _go_on(self, batch: Arriving, data: bytes) -> None:
        """Takes more of the request, which is stored once it is whole. What comes behind it makes
        it the last one.
        """
        was_whole = batch.is_whole
        batch.given.extend(data)
        is_last = batch.is_whole and batch.head.is_last  # what is missing until then is read
        self._is_last = is_last or len(batch.given) > batch.size
        if batch.is_whole and not was_whole:
            self._wait_for(None)
            self.known_batches.store(batch.begun, batch.body, self._end_batch)

    def _end_batch(self, stored: bytes | None) -> None:
        """Answers the batch that is stored; one that is not is a request like any other."""
        batch = self._batch
        self._batch = None
        if batch is None or self.transport.is_closing():
            return
        if stored is None:
            self._parse(bytes(batch.given[: batch.size]))
            if self._is_last and self.cycle is not None:
                self.cycle.keep_alive = False
            return
        self.transport.write(
            _accepted.answer(self.server_state.default_headers, stored, is_last=self._is_last)
        )
        self.server_state.total_requests += 1
        if self._is_last:
            self.transport.close()
        self._wait_for(Waits.ANSWER if self._is_last else Waits.NEXT)

    def shutdown(self) -> None:
        """A batch that is whole is answered before the connection ends."""
        if self._batch is not None and self._batch.is_whole:
            self._is_last = True
        else:
            super().shutdown()

    def on_response_complete(self) -> None:
        self.flow.is_whole = False
        super().on_response_complete()
        self._wait_for(Waits.ANSWER if self.transport.is_closing() else Waits.NEXT)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for(Waits.ANSWER)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._held.taken_at = self.loop.time()
        # it may have begun another request meanwhile, and that one has a limit of its own
        if self._held.waits_for is Waits.ANSWER and not self.transport.is_closing():
            self._wait_for(
                Waits.NEXT if self.cycle is None or self.cycle.response_complete else None
            )

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """The connection's last answer, to what is no request; what its peer still sends then is
        thrown away for a while.
        """
        self._is_last = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.close()
                return
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type:"
            f" text/plain\r\ncontent-length: {len(text) + 1}\r\n"
        )
        self.transport.write(f"{head}connection: close\r\n\r\n{text}\n".encode())
        self.transport.write_eof()
        self._wait_for(Waits.HEAD)
        self.loop.call_later(bodies.LINGER_S, self.transport.close)

    def _throw_away(self, data: bytes) -> None:
        self._head_bytes += len(data)
        if self._head_bytes > MAX_LINGER_BYTES:
            self.transport.close()

    @property
    def _is_between(self) -> bool:
        """Whether what comes next is the first byte of a request."""
        return not (self._is_in_message or self._head_bytes or self._is_answering)

    @property
    def _is_answering(self) -> bool:
        """Whether a whole request has no whole answer yet."""
        return (
            self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        )

    @property
    def _is_upgrade_with_body(self) -> bool:
        return self.parser.should_upgrade() and any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" 0"))
            for name, value in self.headers or ()
        )

    def _disconnect(self) -> None:
        """Ends the connection now, whatever was not sent yet."""
        self._set_option(socket.SOL_SOCKET, socket.SO_LINGER, DROP_UNSENT)
        self.transport.abort()

    def _set_option(self, level: int, option: int, value: int | bytes) -> None:
        own: socket.socket | None = self.transport.get_extra_info("socket")
        if own is not None:
            own.setsockopt(level, option, value)

    def _wait_for(self, what: Waits | None) -> None:
        self._held.wait_for(what, self.loop.time())

    def _forwarded(self) -> list[str]:
        return [
            value.decode("latin-1") for name, value in self.headers if name == b"x-forwarded-for"
        ]


class _Accepted:
    """The heads of answers to batches that are stored."""

    def __init__(self) -> None:
        self._headers: Sequence[tuple[bytes, bytes]] = ()
        self._lines = b""

    def answer(
        self, headers: Sequence[tuple[bytes, bytes]], stored: bytes, *, is_last: bool
    ) -> bytes:
        """With these headers, which are the same for a second, as the date is, and this body."""
        if headers is not self._headers:
            lines = [b"%b: %b\r\n" % header for header in (*headers, *ACCEPTED)]
            self._lines = STATUS_LINE[HTTPStatus.OK] + b"".join(lines)
            self._headers = headers
        close = b"connection: close\r\n" if is_last else b""
        length = b"content-length: %d\r\n\r\n" % len(stored)
        return b"%b%b%b%b" % (self._lines, close, length, stored)


_accepted = _Accepted()


def protocol_of(
    register: Connections, known_batches: KnownBatches, *, proxies: int
) -> type[PatientProtocol]:
    """The protocol for one server."""
    attributes: dict[str, Any] = {
        "register": register,
        "known_batches": known_batches,
        "proxies": proxies,
    }
    return type("Protocol", (PatientProtocol,), attributes)


async def end_overdue_for_ever(register: Connections) -> None:
    """Disconnects who let us wait too long, once a second."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        if ended := register.end_overdue(loop.time()):
            log.info("slow peers disconnected", count=ended, connected=len(register))
