"""How the door says no: every error that a sender can cause or meet, as its HTTP answer."""

from collections.abc import Callable
from functools import wraps

import structlog
from django.db import DataError, InterfaceError, OperationalError
from django.http import HttpRequest, JsonResponse

from agent.wire import WireError
from fleetwatch.ingest import pressure
from fleetwatch.ingest.body import TooLargeError
from fleetwatch.ingest.services import ImportRefusedError, WrongNodeError
from fleetwatch.ingest.tokens import NodeEnrolledError, UnknownTokenError
from fleetwatch.inventory.intake import TooMuchNewError
from fleetwatch.lib.trouble import DISK_FULL, database_trouble
from fleetwatch.operations import disk

RETRY_AFTER_S = {429: pressure.RETRY_AFTER_S, 503: 10}

# Told by what is wrong (lib/trouble.py).
DATABASE_ERRORS = (OperationalError, InterfaceError)

# Error -> status, the text where the error's own is not for senders, the field at fault.
REFUSALS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (WireError, 422, "", ""),
    # a value that the database can't hold: it will not hold it the next time either
    (DataError, 422, "a value is out of range", ""),
    (UnknownTokenError, 401, "unknown, revoked or expired token", ""),
    (WrongNodeError, 403, "", "node"),
    (ImportRefusedError, 403, "", "jobs"),
    (NodeEnrolledError, 409, "", "node"),
    (TooLargeError, 413, "", ""),
    (pressure.OverloadedError, 429, "", ""),
    (TooMuchNewError, 429, "", ""),
    # the database is away, restarting, or undid one of two deadlocked transactions: the sender
    # keeps the batch
    *((kind, 503, "", "") for kind in DATABASE_ERRORS),
)
REFUSED = tuple(kind for kind, *_ in REFUSALS)

View = Callable[[HttpRequest], JsonResponse]

log = structlog.get_logger(__name__)


def answers_errors(view: View) -> View:
    """The view, with each refusal as the contract's status and `{"error", "field"}`."""

    @wraps(view)
    def answered(request: HttpRequest) -> JsonResponse:
        try:
            return view(request)
        except REFUSED as error:
            return refusal(error)

    return answered


def refusal(error: Exception) -> JsonResponse:
    """The answer to a request that ended in one of REFUSED."""
    status, text, field = next(
        (status, text, field) for kind, status, text, field in REFUSALS if isinstance(error, kind)
    )
    field = error.field if isinstance(error, WireError | TooMuchNewError) else field
    if isinstance(error, DATABASE_ERRORS):
        text = database_trouble(error)
    if text == DISK_FULL:
        disk.refusals.note()
    response = JsonResponse({"error": text or str(error), "field": field}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="fleetwatch"'
    if status in RETRY_AFTER_S:
        response["Retry-After"] = str(getattr(error, "retry_after_s", RETRY_AFTER_S[status]))
    log.warning("request refused", status=status, error=str(error)[:300], field=field)
    return response
