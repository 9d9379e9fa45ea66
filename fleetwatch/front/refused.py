"""How the front says no: to agents and scripts in JSON, to people as a page."""

from dataclasses import dataclass

from django.db import DatabaseError, InterfaceError
from django.http import HttpResponse, JsonResponse
from django.template.loader import render_to_string

from fleetwatch.front.bodies import SlowBodyError
from fleetwatch.front.lanes import BusyError
from fleetwatch.ingest import refusals
from fleetwatch.ingest.body import TooLargeError
from fleetwatch.ingest.tokens import UnknownTokenError

JSON_PATHS = ("/api/", "/metrics")
READY = "/readyz"


class NodeBusyError(Exception):
    """Another batch of the node is being read or stored."""


class DatabaseAwayError(Exception):
    """The database does not answer."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is answered; `retry_after_s` None: it will not go better later."""

    status: int
    text: str
    retry_after_s: int | None = None


# What the front itself finds out; the rest is told as the door tells it (ingest/refusals.py).
REFUSALS: dict[type[Exception], Refusal] = {
    SlowBodyError: Refusal(408, "the request came too slowly"),
    NodeBusyError: Refusal(503, "another batch of this node is being stored", 2),
    BusyError: Refusal(429, "too many are waiting: come again in a moment", 5),
    DatabaseAwayError: Refusal(503, "the database is not available", 10),
}
REFUSED: tuple[type[Exception], ...] = (*REFUSALS, UnknownTokenError, TooLargeError, DatabaseError, InterfaceError)


def response(error: Exception, *, path: str) -> HttpResponse:
    """The answer to a request that was not let through."""
    refusal = REFUSALS.get(type(error))
    if refusal is None:
        return refusals.refusal(error)
    answer = _body(refusal, path)
    if refusal.retry_after_s is not None:
        answer["Retry-After"] = str(refusal.retry_after_s)
    answer["Cache-Control"] = "no-store"
    return answer


def _body(refusal: Refusal, path: str) -> HttpResponse:
    if path == READY:
        return JsonResponse({"ready": False, "missing": ["database"], "reason": refusal.text}, status=refusal.status)
    if path.startswith(JSON_PATHS):
        return JsonResponse({"error": refusal.text, "field": ""}, status=refusal.status)
    return HttpResponse(render_to_string("refused.html", {"refusal": refusal}), status=refusal.status)
