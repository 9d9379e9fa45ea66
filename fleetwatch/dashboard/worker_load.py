"""Whether background work keeps up, in a word for operators: fine, behind or stuck. Pure."""

from dataclasses import dataclass
from datetime import datetime

BEAT_LATE_S = 90
RESTART = (
    "Start worker and beat again: docker compose restart worker beat, or manage.py up. Agents keep"
    " sending meanwhile, and nothing is lost."
)
MORE = (
    "After an outage that ends by itself within minutes; where it lasts, run more worker processes"
    " (FLEETWATCH_WORKERS)."
)


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """The word and its colour; since when it is so (None = not known, or it is fine), and what to
    do, "" = nothing.
    """

    word: str
    colour: str
    since: datetime | None = None
    todo: str = ""


def worker_load(
    beat_at: datetime | None, overdue_since: datetime | None, now: datetime
) -> WorkerLoad:
    """By when a worker said last that it lives (None = never), and since when the oldest hour waits
    that should be in the figures (None = there is none).
    """
    if beat_at is None or (now - beat_at).total_seconds() > BEAT_LATE_S:
        return WorkerLoad("stuck", "bad", beat_at, RESTART)
    if overdue_since is not None:
        return WorkerLoad("behind", "warn", overdue_since, MORE)
    return WorkerLoad("fine", "good")
