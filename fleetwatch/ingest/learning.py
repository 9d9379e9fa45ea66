"""What the door keeps in mind of a batch that came the long way, so that the next ones of its node
can come the short one.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import Error, transaction

from agent.wire import Batch
from fleetwatch.ingest import fast_decode
from fleetwatch.ingest.continued import Sender
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.tokens import UnknownTokenError, hold_live
from fleetwatch.inventory import steady as inventory

# Where Django's view leaves a Lesson for the door, in the request's WSGI environment.
LESSON = "fleetwatch.lesson"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A packed batch that was stored for the first time: inflated, and the token it came with."""

    token: AgentToken
    batch: Batch
    body: bytes
    received_at: datetime


def sender(lesson: Lesson) -> Sender | None:
    """What the node's next batches are compared with; None when this batch is not the newest, or
    nothing that can be continued.
    """
    facts = fast_decode.facts(lesson.body)
    if facts is None:
        return None
    try:
        remembered = _remembered(lesson, facts)
    except (UnknownTokenError, Error):
        return None  # it is stored and answered: the next one has to come the long way, no more
    if remembered is None or not remembered.gpus:
        return None
    gpus = remembered.gpus
    parents = {gpu.parent_id for gpu in gpus}
    return Sender(
        token_id=lesson.token.pk,
        speaks_for=lesson.token.speaks_for,
        node_id=lesson.token.node_id,
        facts=facts,
        digest=remembered.digest,
        gpu_ids=tuple(gpu.pk for gpu in gpus),
        living=frozenset(place for place, gpu in enumerate(gpus) if gpu.pk not in parents),
        first_ms=min(remembered.begins),
        since_ms=max(remembered.begins),
    )


@transaction.atomic
def _remembered(lesson: Lesson, facts: fast_decode.BatchFacts) -> inventory.Remembered | None:
    hold_live(lesson.token.pk)
    order = [lesson.batch.boot_start_ms, lesson.batch.sequence]
    return inventory.remember(
        lesson.token.node_id, facts.uuids, facts.fingerprint(lesson.token.pk), order=order
    )
