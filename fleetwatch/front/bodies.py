"""Bodies, read before any thread knows of them: whole, within a size, and no slower than a slow line is."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fleetwatch.front.connections import Connection, Waits
from fleetwatch.ingest.body import TooLargeError

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

# A body may take so long, and a second more for each 16 KiB that came: an ISDN line would do.
GRACE_S = 10.0
BYTES_A_SECOND = 16_384
# Of a refused request so much is taken after the answer: a sender that still writes would otherwise not hear it.
LINGER_S, LINGER_BYTES = 2.0, 16 * 1024 * 1024


class SlowBodyError(Exception):
    """The body came too slowly."""


class GoneError(Exception):
    """The sender went away."""


async def read(receive: Receive, connection: Connection, *, limit: int) -> bytes:
    """The body. Raises TooLargeError beyond `limit` bytes, SlowBodyError, GoneError."""
    loop = asyncio.get_running_loop()
    parts: list[bytes] = []
    size, began = 0, loop.time()
    connection.wait_for(Waits.BODY, began)
    try:
        while True:
            async with asyncio.timeout_at(began + GRACE_S + size / BYTES_A_SECOND):
                message = await receive()
            if message["type"] != "http.request":
                raise GoneError
            parts.append(message["body"])
            size += len(message["body"])
            if size > limit:
                raise TooLargeError(f"the body is larger than {limit} bytes")
            if not message["more_body"]:
                return b"".join(parts)
    except TimeoutError:
        raise SlowBodyError(f"the body came too slowly: {size} bytes in {loop.time() - began:.0f} s") from None
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
