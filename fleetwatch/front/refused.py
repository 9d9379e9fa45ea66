"""How the front says no: to agents and scripts in JSON, to people as a page."""

from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError
from django.http import HttpResponse, JsonResponse
from django.utils.http import parse_header_parameters

from fleetwatch.dashboard.error_page import not_now
from fleetwatch.front.bodies import NoRoomError, SlowBodyError
from fleetwatch.front.thread_lanes import BusyError
from fleetwatch.ingest import refusals
from fleetwatch.ingest.body import TooLargeError
from fleetwatch.ingest.tokens import UnknownTokenError
from fleetwatch.lib.cache import CACHE_AWAY
from fleetwatch.lib.trouble import DISK_FULL, UNKNOWN
from fleetwatch.operations import disk

READY = "/readyz"
NO_OTHER_CHARSET = "send UTF-8: no other charset is read"
UTF_8 = frozenset({"utf-8", "utf8"})
# a form's boundary has 70 characters at most; to read one of 60 KiB takes seconds
MAX_CONTENT_TYPE = 256
# What Django's middlewares say on each page of theirs.
SAFE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class NodeBusyError(Exception):
    """Another batch of the node is being read or stored."""


class DatabaseAwayError(Exception):
    """The database does not answer."""


class CacheAwayError(Exception):
    """Redis does not answer."""


class DiskFullError(Exception):
    """The database's disk has no room for batches."""


class CharsetError(Exception):
    """What is sent is of a kind that is not read; the text is a sentence for its sender."""


def check_charset(content_type: str) -> None:
    """Raises CharsetError: Django takes any codec that Python knows for an encoding of text, and
    fails at it.
    """
    if len(content_type) > MAX_CONTENT_TYPE:
        raise CharsetError(f"send a Content-Type of at most {MAX_CONTENT_TYPE} characters")
    try:
        _, parameters = parse_header_parameters(content_type)
    except (LookupError, ValueError) as error:
        raise CharsetError(NO_OTHER_CHARSET) from error
    if parameters.get("charset", "utf-8").lower() not in UTF_8:
        raise CharsetError(NO_OTHER_CHARSET)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is answered, and when it may go better."""

    status: int
    text: str
    retry_after_s: int


# What the front itself finds out; the rest is told as the door tells it (ingest/refusals.py).
REFUSALS: dict[type[Exception], Refusal] = {
    SlowBodyError: Refusal(408, "the request came too slowly", 10),
    NoRoomError: Refusal(503, "too much is being sent", 10),
    NodeBusyError: Refusal(503, "another batch of this node is being stored", 2),
    BusyError: Refusal(429, "too many are waiting", 5),
    DatabaseAwayError: Refusal(503, UNKNOWN, 10),
    CacheAwayError: Refusal(503, CACHE_AWAY, 10),
    DiskFullError: Refusal(503, DISK_FULL, 60),
}
REFUSED: tuple[type[Exception], ...] = (
    *REFUSALS,
    CharsetError,
    UnknownTokenError,
    TooLargeError,
    DatabaseError,
    InterfaceError,
)


def response(error: Exception, *, path: str) -> HttpResponse:
    """The answer to a request that was not let through."""
    answer = _answer(error, path)
    for name, value in SAFE_HEADERS.items():
        answer[name] = value
    return answer


def _answer(error: Exception, path: str) -> HttpResponse:
    if isinstance(error, CharsetError):
        return JsonResponse({"error": str(error), "field": None}, status=415)
    refusal = REFUSALS.get(type(error))
    return refusals.refusal(error) if refusal is None else _refused(refusal, path)


def _refused(refusal: Refusal, path: str) -> HttpResponse:
    text = disk.trouble() or refusal.text if refusal.text in (DISK_FULL, UNKNOWN) else refusal.text
    if path == READY:
        return JsonResponse(
            {"ready": False, "missing": ["database", "worker"], "reason": text}, status=503
        )
    return not_now(text, path=path, status=refusal.status, retry_after_s=refusal.retry_after_s)
