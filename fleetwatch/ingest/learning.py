"""What the door keeps in mind of a batch that came the long way, so that the next ones of its node
can come the short one.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import Error, transaction

from agent.wire import Batch
from fleetwatch.ingest import fast_decode
from fleetwatch.ingest.continued import Memory, Repeated, Sender, begin_repeating
from fleetwatch.ingest.models import AgentToken
from fleetwatch.ingest.services import LOCK_MS, STATEMENT_MS
from fleetwatch.ingest.tokens import UnknownTokenError, hold_live
from fleetwatch.inventory import steady as inventory
from fleetwatch.jobs.batch_report import Report
from fleetwatch.lib.sql import limit_waits

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
        remembered, repeated = _remembered(lesson, facts)
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
        memory=Memory(repeated),
    )


@transaction.atomic
def _remembered(
    lesson: Lesson, facts: fast_decode.BatchFacts
) -> tuple[inventory.Remembered | None, Repeated | None]:
    """With what the node may repeat of jobs."""
    limit_waits(lock_ms=LOCK_MS, statement_ms=STATEMENT_MS)
    token = lesson.token
    batch = lesson.batch
    hold_live(token.pk)
    order = [batch.boot_start_ms, batch.sequence]
    fingerprint = facts.fingerprint(token.pk, token.speaks_for)
    remembered = inventory.remember(token.node_id, facts.uuids, fingerprint, order=order)
    if remembered is None or not remembered.gpus:
        return None, None
    gpu_ids = [gpu.pk for gpu in remembered.gpus]
    report = Report(token.node_id, batch, gpu_ids, 0, token.speaks_for)
    return remembered, begin_repeating(report, facts.words)
