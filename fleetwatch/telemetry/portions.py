"""Work on stretches of nodes' time, many in one transaction: what fails keeps no other."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

log = structlog.get_logger()

Stretch = tuple[int, datetime]  # node id, when it starts
Work = Callable[[Sequence[Stretch]], dict[str, int]]


def done_in_portions(
    stretches: Sequence[Stretch], work: Work, *, at_once: int, failure: str
) -> Counter[str]:
    """What the work counted, `at_once` stretches at a time; `failed` are those that fail alone too,
    which are logged as `failure`.
    """
    did: Counter[str] = Counter()
    for first in range(0, len(stretches), at_once):
        did.update(_done(stretches[first : first + at_once], work, failure))
    return did


def counted(**counts: int) -> dict[str, int]:
    """Those of the counts that are not 0."""
    return {name: count for name, count in counts.items() if count}


def _done(stretches: Sequence[Stretch], work: Work, failure: str) -> dict[str, int]:
    try:
        return work(stretches)
    except Exception:
        if len(stretches) > 1:
            return sum((Counter(_done([each], work, failure)) for each in stretches), Counter())
        ((node_id, start),) = stretches
        log.exception(failure, node_id=node_id, start=start.isoformat())
        return {"failed": 1}
