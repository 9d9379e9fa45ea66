"""What was decided about jobs of which no finding waits for anybody, in a word for lists."""

from collections.abc import Iterable
from datetime import datetime

from fleetwatch.diagnosis.findings import inbox
from fleetwatch.diagnosis.findings.ranked_findings import EXEMPT

NOT_WASTE = "agreed as not waste"
# how findings stand that nobody has to decide about -> in words
DECIDED = {
    "accepted": "accepted",
    EXEMPT: NOT_WASTE,
    "dismissed": NOT_WASTE,
    "fixed": "fixed",
}


def decided_jobs(keys: Iterable[str], now: datetime) -> dict[str, str]:
    """By the key of those of these jobs what was decided; none that has something open or put off,
    or nothing at all.
    """
    stand = inbox.decisions_by_job(list(keys), now)
    return {
        key: next(word for status, word in DECIDED.items() if status in statuses)
        for key, statuses in stand.items()
        if statuses <= DECIDED.keys()
    }
