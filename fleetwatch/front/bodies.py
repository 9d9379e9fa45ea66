"""Bodies, read before any thread knows of them: whole, within a size, and no slower than a slow
line is.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fleetwatch.front.connections import Connection, Waits
from fleetwatch.ingest.body import TooLargeError

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

# A body may take so long, and a second more for each 16 KiB that came: an ISDN line would do.
GRACE_S = 10.0
BYTES_A_SECOND = 16_384
# Of a refused request so much is taken after the answer: a sender that still writes would otherwise
# not hear it.
LINGER_S = 2.0
LINGER_BYTES = 16 * 1024 * 1024


class SlowBodyError(Exception):
    """The body came too slowly."""


class NoRoomError(Exception):
    """More is held of large bodies than there is room for."""


class GoneError(Exception):
    """The sender went away."""


@dataclass(slots=True)
class Room:
    """Bytes that may be held at once of bodies that are larger than `free`, by one sender and by
    all.
    """

    free: int
    per_sender: int
    in_all: int
    held: int = 0
    _of: Counter[Hashable] = field(default_factory=Counter)

    @contextmanager
    def place(self, sender: Hashable) -> Iterator[Callable[[int], None]]:
        """For one body, until it is answered: is told its size, and each larger one.

        Raises NoRoomError.
        """
        charged = 0

        def grow(size: int) -> None:
            nonlocal charged
            more = size - charged
            if size <= self.free:
                return
            if self._of[sender] + more > self.per_sender or self.held + more > self.in_all:
                raise NoRoomError
            charged = size
            self.held += more
            self._of[sender] += more

        try:
            yield grow
        finally:
            self.held -= charged
            self._of[sender] -= charged
            if not self._of[sender]:
                del self._of[sender]


async def _message(receive: Receive, *, until: float) -> Any:
    """The next part of a body. Raises TimeoutError, GoneError."""
    async with asyncio.timeout_at(until):
        message = await receive()
    if message["type"] != "http.request":
        raise GoneError
    return message


async def receive_body(
    receive: Receive,
    connection: Connection,
    *,
    limit: int,
    grow: Callable[[int], None] = lambda _: None,
) -> bytes:
    """The body, `grow` told of its size as it comes.

    Raises TooLargeError beyond `limit` bytes, SlowBodyError, GoneError.
    """
    loop = asyncio.get_running_loop()
    body = bytearray()  # no list of parts: each of them may be a byte
    size = 0
    began = loop.time()
    connection.wait_for(Waits.BODY, began)
    try:
        while True:
            message = await _message(receive, until=began + GRACE_S + size / BYTES_A_SECOND)
            body += message["body"]
            size = len(body)
            if size > limit:
                raise TooLargeError(f"the body is larger than {limit} bytes")
            grow(size)
            if not message["more_body"]:
                return bytes(body)
    except TimeoutError:
        seconds = loop.time() - began
        raise SlowBodyError(f"the body came too slowly: {size} bytes in {seconds:.0f} s") from None
    finally:
        connection.wait_for(None, loop.time())


async def linger(receive: Receive, connection: Connection) -> None:
    """Returns when the rest of the body was taken, or enough of it."""
    loop = asyncio.get_running_loop()
    left = LINGER_BYTES
    connection.wait_for(Waits.BODY, loop.time())
    try:
        async with asyncio.timeout(LINGER_S):
            while left > 0:
                message = await receive()
                if message["type"] != "http.request" or not message["more_body"]:
                    return
                left -= len(message["body"])
    except TimeoutError:
        return
