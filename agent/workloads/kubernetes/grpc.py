"""One unary gRPC call over HTTP/2 on a unix socket, with nothing but the standard library.

https://www.rfc-editor.org/rfc/rfc9113 and
https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md One connection, one stream, one
answer, then the connection is closed. Everything that is read has a limit. Of HTTP/2 only what
gRPC's servers send is understood: no padding, no priorities, headers in one frame.
"""

import socket
import struct
import time
from typing import Dict, List, Optional, Tuple
from urllib.parse import unquote

from agent.lines import printable
from agent.workloads.kubernetes import hpack

# a kubelet with 250 pods and all their CPUs and memory named answers about 0.5 MB
MAX_ANSWER_BYTES = 4 * 1024 * 1024
TIMEOUT_S = 5.0  # for the whole call
MAX_FRAME_BYTES = 16_384  # what a peer may send as long as it is not told otherwise
MAX_FRAMES = 10_000
DEFAULT_WINDOW_BYTES = 65_535
UNIMPLEMENTED = 12
STATUSES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
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
_PADDED_OR_PRIORITY = 0x28
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
        except (OSError, hpack.HeaderError) as error:
            why = getattr(error, "strerror", None) or error
            raise GRPCError("%s: %s" % (path, why)) from error


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
    """What the peer says, frame by frame until the deadline, put together."""

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._connection = connection
        self._deadline_s = deadline_s
        self._headers: Dict[str, str] = {}
        self._body = bytearray()

    def _next(self) -> Tuple[int, int, int, bytes]:
        """(type, flags, stream, payload) of the next frame. Raises GRPCError."""
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

    def read(self) -> bytes:
        """The message, once the stream has ended well. Raises GRPCError."""
        for _ in range(MAX_FRAMES):
            kind, flags, stream, payload = self._next()
            if stream == _STREAM and kind in _OURS:
                self._take(kind, flags, payload)
                if flags & _END_STREAM:
                    return self._message()
            # nothing in the peer's settings concerns a client that has said all it had to say
            elif kind in (_SETTINGS, _PING) and not flags & _ACK:
                echo = payload[:8] if kind == _PING else b""
                self._connection.sendall(_frame(kind, _ACK, 0, echo))
            elif kind == _GOAWAY and stream == 0:
                last, code = struct.unpack_from(">II", payload.ljust(8, b"\0"))
                # it takes no further calls; does it end this one too?
                if code or last & 0x7FFFFFFF < _STREAM:
                    raise GRPCError("the peer ends the connection: HTTP/2 error %d" % code)
        raise GRPCError("more than %d frames" % MAX_FRAMES)

    def _take(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == _RST_STREAM:
            code = int.from_bytes(payload[:4], "big")
            raise GRPCError("the call was reset: HTTP/2 error %d" % code)
        if kind == _DATA and not flags & _PADDED_OR_PRIORITY:
            self._body += payload
        elif kind == _HEADERS and flags & (_PADDED_OR_PRIORITY | _END_HEADERS) == _END_HEADERS:
            self._headers.update(hpack.decode(payload))
        else:
            raise GRPCError("a frame of a form that gRPC does not use")
        if len(self._body) > MAX_ANSWER_BYTES:
            raise GRPCError("the answer is longer than %d bytes" % MAX_ANSWER_BYTES)

    def _message(self) -> bytes:
        """The one message of a call that ended with status 0."""
        if self._headers.get(":status", "200") != "200":
            raise GRPCError("HTTP status %.40s" % self._headers[":status"])
        status = self._headers.get("grpc-status")
        if status != "0":
            raise _failure(status, self._headers.get("grpc-message", ""))
        if self._body[:5] != struct.pack(">BI", 0, max(0, len(self._body) - 5)):
            raise GRPCError("the answer is not one plain message")
        return bytes(self._body[5:])


def _failure(status: Optional[str], message: str) -> GRPCError:
    if status is None or not status.isdigit() or len(status) > 3:
        return GRPCError("the answer ended without a status")
    number = int(status)
    name = STATUSES[number] if number < len(STATUSES) else "status %d" % number
    text = printable(unquote(message), "")
    return GRPCError("%s: %.200s" % (name, text) if text else name, number)
