"""What a sender's request says, read defensively."""

from typing import Any

import msgspec
from django.http import HttpRequest

from agent.wire import MAX_BYTES, MAX_TIME_MS, WireError
from fleetwatch.ingest.body import Readable, TooLargeError, read_bounded
from fleetwatch.ingest.tokens import UnknownTokenError

MAX_BATCH_BYTES = MAX_BYTES
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


def read_body(request: HttpRequest, *, limit: int = MAX_BYTES) -> bytes:
    """The body as sent.

    Raises TooLargeError beyond `limit` bytes, WireError for another Content-Type than JSON.
    """
    given = request.content_type or ""
    if given != "application/json":
        raise WireError(
            "Content-Type", f"Content-Type is {given[:80]!r}, expected application/json"
        )
    declared = request.META.get("CONTENT_LENGTH") or "0"
    if declared.isdigit() and int(declared) > limit:
        raise TooLargeError(f"the body is larger than {limit} bytes")
    return read_bounded(_stream(request), limit=limit)


def _stream(request: HttpRequest) -> Readable:
    """The body.

    Django takes a request without Content-Length for an empty one; the server ends a chunked stream
    by itself.
    """
    is_chunked = "chunked" in request.headers.get("Transfer-Encoding", "").lower()
    return request.META["wsgi.input"] if is_chunked else request


def decode_json(body: bytes) -> Any:
    """The JSON value. Raises WireError for anything else, also for what is nested too deeply."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError("", f"not JSON: {error}") from error


def sent_ms(request: HttpRequest) -> int | None:
    """The agent's clock when it sent the request, in ms; None when it did not say.

    Raises WireError.
    """
    given = request.headers.get("X-FleetWatch-Sent-Ms")
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) <= 15 and int(given) <= MAX_TIME_MS):
        raise WireError("X-FleetWatch-Sent-Ms", "X-FleetWatch-Sent-Ms is no time in milliseconds")
    return int(given)
