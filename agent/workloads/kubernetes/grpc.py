"""One unary gRPC call over HTTP/2 on a unix socket, with nothing but the standard library.

https://www.rfc-editor.org/rfc/rfc9113 and
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md One connection, one stream, one
answer, then the connection is closed. Everything that is read has a limit.
"""

import socket
import struct
import time
from typing import Callable, Dict, List, Optional, Tuple
from urllib.parse import unquote

from agent.workloads.kubernetes import hpack

# a kubelet with 250 pods and all their CPUs and memory named answers about 0.5 MB
MAX_ANSWER_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 5.0  # for the whole call
MAX_FRAME_BYTES = 16_384  # what a peer may send as long as it is not told otherwise
MAX_HEADER_BYTES = 64 * 1024
MAX_FRAMES = 10_000
DEFAULT_WINDOW_BYTES = 65_535
UNIMPLEMENTED = 12
STATUSES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA = 0
_HEADERS = 1
_RST_STREAM = 3
_SETTINGS = 4
_PUSH_PROMISE = 5
_PING = 6
_GOAWAY = 7
_WINDOW_UPDATE = 8
_CONTINUATION = 9
_ACK = _END_STREAM = 0x1
_END_HEADERS = 0x4
_PADDED = 0x8
_PRIORITY = 0x20
_HEADER_TABLE_SIZE = 1
_ENABLE_PUSH = 2
_INITIAL_WINDOW_SIZE = 4
_STREAM = 1
# frames that belong to a stream, and we have one only
_OURS = (_DATA, _HEADERS, _RST_STREAM, _PUSH_PROMISE, _CONTINUATION)


class GRPCError(Exception):
    """The call failed; `status` is gRPC's number where the peer gave one."""

    def __init__(self, text: str, status: Optional[int] = None) -> None:
        super().__init__(text)
        self.status = status


def call(path: str, method: str, message: bytes = b"", *, timeout_s: float = TIMEOUT_S) -> bytes:
    """The answer's message, such as that of `/v1.PodResourcesLister/List` on the socket at `path`.

    Raises GRPCError.
    """
    deadline_s = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(timeout_s)
            connection.connect(path)
            connection.sendall(_request(method, message))
            return _Answer(connection, deadline_s).read()
        except OSError as error:
            raise GRPCError("%s: %s" % (path, error.strerror or error)) from error
        except hpack.HeaderError as error:
            raise GRPCError("%s: %s" % (path, error)) from error


def _request(method: str, message: bytes) -> bytes:
    """All that the client says unasked.

    The windows are opened once for the largest answer that is accepted.
    """
    settings = struct.pack(
        ">HIHIHI",
        _HEADER_TABLE_SIZE,
        0,
        _ENABLE_PUSH,
        0,
        _INITIAL_WINDOW_SIZE,
        MAX_ANSWER_BYTES + DEFAULT_WINDOW_BYTES,
    )
    headers = hpack.encode(
        [
            (":method", "POST"), (":scheme", "http"), (":path", method),
            (":authority", "localhost"),
            ("content-type", "application/grpc"), ("user-agent", "fleetwatch-agent"),
            ("te", "trailers"),
        ]
    )  # fmt: skip
    return b"".join(
        (
            _PREFACE,
            _frame(_SETTINGS, 0, 0, settings),
            _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", MAX_ANSWER_BYTES)),
            _frame(_HEADERS, _END_HEADERS, _STREAM, headers),
            _frame(_DATA, _END_STREAM, _STREAM, struct.pack(">BI", 0, len(message)) + message),
        )
    )


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class _Answer:
    """The frames of one answer, put together."""

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s
        self._headers: Dict[str, str] = {}
        self._block: Optional[bytearray] = None  # header fragments, until the block is whole
        self._body = bytearray()
        self._is_done = False
        self._take: Dict[int, Callable[[int, bytes], None]] = {
            _DATA: self._data, _HEADERS: self._begin_headers, _CONTINUATION: self._continue_headers,
            _RST_STREAM: self._reset,
            _SETTINGS: self._settings, _PING: self._ping, _GOAWAY: self._go_away,
            _PUSH_PROMISE: self._push,
        }  # fmt: skip

    def read(self) -> bytes:
        """The message, once the stream has ended well. Raises GRPCError."""
        for _ in range(MAX_FRAMES):
            kind, flags, stream, payload = self._next()
            if self._block is not None and kind != _CONTINUATION:
                raise GRPCError("another frame stands between those of a header block")
            # WINDOW_UPDATE and what is new is nothing to us
            if (stream == _STREAM) == (kind in _OURS) and kind in self._take:
                self._take[kind](flags, payload)
            if self._is_done and self._block is None:
                return self._message()
        raise GRPCError("more than %d frames" % MAX_FRAMES)

    def _next(self) -> Tuple[int, int, int, bytes]:
        """(type, flags, stream, payload) of the next frame."""
        head = self._receive(9)
        length = int.from_bytes(head[:3], "big")
        if length > MAX_FRAME_BYTES:
            raise GRPCError(
                "a frame of %d bytes, at most %d are allowed" % (length, MAX_FRAME_BYTES)
            )
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        return kind, flags, stream & 0x7FFFFFFF, self._receive(length)

    def _receive(self, length: int) -> bytes:
        parts: List[bytes] = []
        while length:
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise GRPCError("no whole answer in time", status=4)
            self._connection.settimeout(left_s)
            part = self._connection.recv(length)
            if not part:
                raise GRPCError("the connection was closed before the answer's end")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _data(self, flags: int, payload: bytes) -> None:
        self._body += _unpadded(flags, payload)
        if len(self._body) > MAX_ANSWER_BYTES:
            raise GRPCError("the answer is longer than %d bytes" % MAX_ANSWER_BYTES)
        self._is_done = bool(flags & _END_STREAM)

    def _begin_headers(self, flags: int, payload: bytes) -> None:
        payload = _unpadded(flags, payload)
        self._block = bytearray(payload[5:] if flags & _PRIORITY else payload)
        self._is_done = bool(flags & _END_STREAM)
        self._end_headers(flags)

    def _continue_headers(self, flags: int, payload: bytes) -> None:
        if self._block is None:
            raise GRPCError("a header block is continued that never began")
        self._block += payload
        if len(self._block) > MAX_HEADER_BYTES:
            raise GRPCError("a header block of more than %d bytes" % MAX_HEADER_BYTES)
        self._end_headers(flags)

    def _end_headers(self, flags: int) -> None:
        if flags & _END_HEADERS and self._block is not None:
            self._headers.update(hpack.decode(bytes(self._block)))
            self._block = None

    def _settings(self, flags: int, payload: bytes) -> None:
        if not flags & _ACK:  # nothing in them concerns a client that has said all it had to say
            self._connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))

    def _ping(self, flags: int, payload: bytes) -> None:
        if not flags & _ACK:
            self._connection.sendall(_frame(_PING, _ACK, 0, payload[:8]))

    def _reset(self, flags: int, payload: bytes) -> None:
        raise GRPCError("the call was reset: HTTP/2 error %d" % int.from_bytes(payload[:4], "big"))

    def _go_away(self, flags: int, payload: bytes) -> None:
        last = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        code = int.from_bytes(payload[4:8], "big")
        if code or last < _STREAM:  # else the peer takes no further calls, but ends this one
            raise GRPCError("the peer ends the connection: HTTP/2 error %d" % code)

    def _push(self, flags: int, payload: bytes) -> None:
        raise GRPCError("the peer pushes, which it was forbidden")

    def _message(self) -> bytes:
        """The one message of a call that ended with status 0."""
        if self._headers.get(":status", "200") != "200":
            raise GRPCError("HTTP status %.40s" % self._headers[":status"])
        status = self._headers.get("grpc-status")
        if status != "0":
            raise _failure(status, self._headers.get("grpc-message", ""))
        if (
            len(self._body) < 5
            or self._body[0] != 0
            or int.from_bytes(self._body[1:5], "big") != len(self._body) - 5
        ):
            raise GRPCError("the answer is not one plain message")
        return bytes(self._body[5:])


def _failure(status: Optional[str], message: str) -> GRPCError:
    if status is None or not status.isdigit() or len(status) > 3:
        return GRPCError("the answer ended without a status")
    number = int(status)
    name = STATUSES[number] if number < len(STATUSES) else "status %d" % number
    text = "".join(character for character in unquote(message) if character.isprintable())
    return GRPCError("%s: %.200s" % (name, text) if text else name, number)


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & _PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise GRPCError("a frame's padding is longer than the frame")
    return payload[1 : len(payload) - payload[0]]
