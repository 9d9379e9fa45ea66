"""Since when GPUs that failed work again, by what their driver said last."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import Q

from fleetwatch.diagnosis.causes import FAILURES
from fleetwatch.diagnosis.models import Finding
from fleetwatch.ledger.judgement import outages
from fleetwatch.lib.intervals import HOUR_MS
from fleetwatch.telemetry.models import HealthEvent

# Events that say whether a GPU works: what says nothing of that, as a remapped row, is passed by.
_OF_WORK = Q(kind__in=outages.OF_WORK) | Q(kind="xid", code__in=outages.RESET_XIDS)
EVERY = Q(gpu__isnull=False)


def back_since(findings: Iterable[tuple[Finding, int]], which: Q = EVERY) -> dict[int, int]:
    """By id of those of failed GPUs, each with until when it was seen, since when all of its GPUs
    `which` work again. Without those of which the driver does not say so of each GPU that it spoke
    of, or spoke of none at all, and those that were seen for more than an hour after it did.
    """
    failed = [(each, last_ms) for each, last_ms in findings if each.cause in FAILURES]
    events = _last_events([each for each, _ in failed], which) if failed else {}
    back: dict[int, int] = {}
    for finding, last_ms in failed:
        own = events.get(finding.node_id or 0, ())
        if own and all(outages.says_it_works(event) for event in own):
            back_ms = max(event.at_ms for event in own)
            back |= {finding.pk: back_ms} if last_ms <= back_ms + HOUR_MS else {}
    return back


def _last_events(findings: Sequence[Finding], which: Q) -> dict[int, list[HealthEvent]]:
    """By their node's id what was said last of each of its GPUs since it began."""
    begun = reduce(
        or_, (Q(node=each.node_id, at_ms__gte=each.first_ms - HOUR_MS) for each in findings)
    )
    events = HealthEvent.objects.filter(begun, which, _OF_WORK).order_by("gpu", "-at_ms", "-pk")
    by_node: dict[int, list[HealthEvent]] = defaultdict(list)
    for event in events.distinct("gpu"):
        by_node[event.node_id].append(event)
    return by_node
