"""What the door keeps in mind of a batch that came the long way, so that the next ones of its node can come the short one."""

from dataclasses import dataclass
from datetime import datetime

from django.db import Error, transaction

from agent.wire import Batch
from fleetwatch.ingest import steady
from fleetwatch.ingest.continued import Known
from fleetwatch.ingest.tokens import UnknownTokenError, hold_live
from fleetwatch.inventory import steady as inventory
from fleetwatch.inventory.models import GPU

# Where Django's view leaves a Lesson for the door, in the request's WSGI environment.
LESSON = "fleetwatch.lesson"


@dataclass(frozen=True, slots=True)
class Lesson:
    """A batch that was stored for the first time, with the token it came with and its JSON."""

    token_id: int
    used_at: datetime  # as it is noted of the token
    node_id: int
    batch: Batch
    body: bytes


def known(lesson: Lesson) -> Known | None:
    """What the node's next batches are compared with; None when this batch is not the newest, or nothing that can be continued."""
    facts = steady.facts(lesson.body)
    if facts is None:
        return None
    digest, order = facts.digest(lesson.token_id), [lesson.batch.boot_start_ms, lesson.batch.sequence]
    try:
        gpus = _remembered(lesson, facts, digest, order)
    except (UnknownTokenError, Error):
        return None  # it is stored and answered: the next one has to come the long way, no more
    if gpus is None:
        return None
    return Known(lesson.token_id, lesson.node_id, facts, digest, tuple(gpu.pk for gpu in gpus), tuple(gpu.parent_id for gpu in gpus))


@transaction.atomic
def _remembered(lesson: Lesson, facts: steady.Facts, digest: bytes, order: list[int]) -> list[GPU] | None:
    hold_live(lesson.token_id)
    return inventory.remember(lesson.node_id, facts.uuids, digest, order=order)
