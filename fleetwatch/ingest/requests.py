"""What a sender's request says, read defensively."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.http import HttpRequest

from agent import packed
from agent.wire import MAX_BYTES, MAX_TIME_MS, WireError
from fleetwatch.ingest.body import TooLargeError
from fleetwatch.ingest.tokens import UnknownTokenError
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry.services import ClockBounds

MAX_BATCH_BYTES = MAX_BYTES
JSON = "application/json"
OF_BATCHES = (JSON, packed.CONTENT_TYPE)
MAX_ENROLL_BYTES = 65_536

_decoder = msgspec.json.Decoder()


def bearer(request: HttpRequest) -> str:
    """The token of the Authorization header. Raises UnknownTokenError when there is none."""
    return bearer_of(request.headers.get("Authorization"))


def bearer_of(authorization: str | None) -> str:
    """The token in the header's text. Raises UnknownTokenError when there is none."""
    scheme, _, text = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        raise UnknownTokenError
    return text.strip()


def encoding(request: HttpRequest) -> str:
    """The Content-Encoding, in lower case; "" when there is none."""
    return request.headers.get("Content-Encoding", "").strip().lower()


def is_packed(request: HttpRequest) -> bool:
    """Whether its body is a batch in packed form."""
    return request.content_type == packed.CONTENT_TYPE


def is_as_kept(request: HttpRequest) -> bool:
    """Whether its body has the form in which batches are stored."""
    return is_packed(request) and encoding(request) == "deflate"


def read_body(
    request: HttpRequest, *, limit: int = MAX_BYTES, types: Sequence[str] = (JSON,)
) -> bytes:
    """The body as sent: the front gave it a length, however it came.

    Raises TooLargeError beyond `limit` bytes, WireError for another Content-Type.
    """
    given = request.content_type or ""
    if given not in types:
        raise WireError(
            "Content-Type", f"Content-Type is {given[:80]!r}, expected {' or '.join(types)}"
        )
    body = request.read(limit + 1)
    if len(body) > limit:
        raise TooLargeError(f"the body is larger than {limit} bytes")
    return body


def decode_json(body: bytes) -> Any:
    """The JSON value. Raises WireError for anything else, also for what is nested too deeply."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError("", f"not JSON: {error}") from error


def clock_bounds(request: HttpRequest, received_at: datetime) -> ClockBounds | None:
    """Between what the agent's clock is off; None when it did not say what it shows.

    It was received after it was sent, and sent when the hub's clock showed X-FleetWatch-Hub-Ms or
    more: what lies between the two is its way here. Raises WireError.
    """
    sent_ms = _header_ms(request, "X-FleetWatch-Sent-Ms")
    hub_ms = _header_ms(request, "X-FleetWatch-Hub-Ms")
    if sent_ms is None:
        return None
    received_ms = to_ms(received_at)
    least_ms = received_ms if hub_ms is None else min(hub_ms, received_ms)
    return ClockBounds(least_ms - sent_ms, received_ms - sent_ms)


def _header_ms(request: HttpRequest, name: str) -> int | None:
    given = request.headers.get(name)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 15 and int(given) <= MAX_TIME_MS):
        raise WireError(name, f"{name} is no time in milliseconds")
    return int(given)
