"""The door: POST /api/v1/batches and /api/v1/enroll."""

from datetime import datetime
from typing import Any

import structlog
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from agent import packed, wire
from agent.wire import Batch
from fleetwatch.accounts.clients import client_of
from fleetwatch.ingest import answers, body, requests, services, tokens
from fleetwatch.ingest.learning import LESSON, Lesson
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.node_orders import open_orders
from fleetwatch.ingest.pressure import pressure
from fleetwatch.ingest.reach import Reached, within_reach
from fleetwatch.ingest.received_log import received
from fleetwatch.ingest.refusals import answers_errors
from fleetwatch.ingest.services import Stored
from fleetwatch.ingest.taken_forms import FORMS
from fleetwatch.telemetry.services import ClockBounds

NOTHING_STORED = Stored(0, 0)

log = structlog.get_logger(__name__)


@csrf_exempt
@require_POST
@answers_errors
def batches(request: HttpRequest) -> JsonResponse:
    """Stores one batch. 200 means committed: the agent may forget it."""
    received_at = timezone.now()
    token = tokens.agent_token(requests.bearer(request), received_at)
    _look(received_at)
    clock = requests.clock_bounds(request, received_at)
    sent = requests.read_body(request, types=requests.OF_BATCHES)
    expanded = body.expand(sent, requests.encoding(request))
    batch = _read(request, expanded, token, received_at)
    reached = within_reach(batch, token, clock=clock, received_at=received_at)
    if reached.is_void:
        return _accepted(NOTHING_STORED, reached, token)
    payload = sent if requests.is_as_kept(request) and not reached.refused else None
    stored = _stored(token, reached.batch, payload, clock=clock, received_at=received_at)
    if not stored.duplicate:
        _teach(request, Lesson(token, batch, expanded, received_at))
    return _accepted(stored, reached, token)


def _teach(request: HttpRequest, lesson: Lesson) -> None:
    """Leaves for the door what it may learn from."""
    if requests.is_packed(request):
        request.META[LESSON] = lesson


def _look(now: datetime) -> None:
    """At what waits, here and for agents. Raises OverloadedError."""
    pressure.measure(now)
    pressure.check()
    open_orders.look(now)


def _accepted(stored: Stored, reached: Reached, token: AgentToken) -> JsonResponse:
    return JsonResponse(
        answers.accepted(
            stored=stored.stored,
            duplicate=stored.duplicate,
            orders=open_orders.of(token.pk),
            refused={**stored.refused, **reached.refused},
        ),
        headers=FORMS,
    )


def _stored(
    token: AgentToken,
    batch: Batch,
    payload: bytes | None,
    *,
    clock: ClockBounds | None,
    received_at: datetime,
) -> Stored:
    stored = services.store_promptly(
        token.node,
        batch,
        payload=payload,
        clock=clock,
        received_at=received_at,
        rights=token.rights,
    )
    received.count(batches=1, windows=stored.stored, duplicates=stored.duplicate, long_way=1)
    return stored


def _read(request: HttpRequest, expanded: bytes, token: AgentToken, received_at: datetime) -> Batch:
    """The batch, if the token may send it. Raises WireError, TooLargeError."""
    is_packed = requests.is_packed(request)
    batch = wire.parse(_unpacked(expanded) if is_packed else requests.decode_json(expanded))
    services.check_node(batch, token.node)
    services.check_import(batch, token.rights, received_at)
    return batch


def _unpacked(content: bytes) -> Any:
    """By the decoder of what is stored as it came: json.loads takes NaN, UTF-16 and half
    surrogates, which no reader of the hot table does.
    """
    try:
        return packed.unpack(content, requests.decode_json)
    except packed.TooManyError as error:
        raise body.TooLargeError(str(error)) from error


@csrf_exempt
@require_POST
@answers_errors
def enroll(request: HttpRequest) -> JsonResponse:
    """Gives a new node its own token, in exchange for one use of an enrolment token."""
    now = timezone.now()
    token = requests.bearer(request)
    tokens.check_enrollment_token(token, now)
    sent = requests.read_body(request, limit=requests.MAX_ENROLL_BYTES)
    given = requests.decode_json(
        body.expand(sent, requests.encoding(request), limit=requests.MAX_ENROLL_BYTES)
    )
    name = given.get("node") if isinstance(given, dict) else None
    if not isinstance(name, str):
        raise wire.WireError("node", "node is required and a text")
    try:
        agent_token = tokens.enroll(token, name, now, address=client_of(request))
    except ValueError as error:
        raise wire.WireError("node", str(error)) from error
    log.info("node enrolled", node=name)
    return JsonResponse({"node": name, "token": agent_token}, status=201)
