"""Since when GPUs that failed work again, by what their driver said last."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import takewhile
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
Events = Sequence[HealthEvent]


def back_since(findings: Iterable[tuple[Finding, int]], which: Q = EVERY) -> dict[int, int]:
    """By id of those of failed GPUs, each with until when it was seen, since when all of its GPUs
    `which` work again. Without those of which the driver does not say so of each GPU that it said
    to have failed (of each that it spoke of, where it said that of none), or spoke of none at all,
    and those that were seen for more than an hour after it did.
    """
    failed = [(each, last_ms) for each, last_ms in findings if each.cause in FAILURES]
    events = _since_they_began([each for each, _ in failed], which) if failed else {}
    back: dict[int, int] = {}
    for finding, last_ms in failed:
        own = events.get(finding.node_id or 0, [])
        backs = [back_ms(each) for each in list(filter(has_failed, own)) or own]
        since_ms = max((each for each in backs if each is not None), default=0)
        if backs and None not in backs and last_ms <= since_ms + HOUR_MS:
            back[finding.pk] = since_ms
    return back


def _since_they_began(findings: Sequence[Finding], which: Q) -> dict[int, list[Events]]:
    """By their node's id what was said of each of its GPUs since it began."""
    begun = reduce(
        or_, (Q(node=each.node_id, at_ms__gte=each.first_ms - HOUR_MS) for each in findings)
    )
    by_node: dict[int, list[Events]] = defaultdict(list)
    for events in events_of_work(begun, which).values():
        by_node[events[0].node_id].append(events)
    return by_node


def events_of_work(*which: Q) -> Mapping[int, Events]:
    """By GPU those of these events that say whether it works, in order."""
    by_gpu: dict[int, list[HealthEvent]] = defaultdict(list)
    for event in HealthEvent.objects.filter(*which, _OF_WORK).order_by("at_ms", "pk"):
        by_gpu[event.gpu_id or 0].append(event)
    return by_gpu


def has_failed(events: Events) -> bool:
    """Whether one of them says that the GPU does not work."""
    return not all(map(outages.says_it_works, events))


def back_ms(events: Events) -> int | None:
    """Since when the GPU works, by its events in order: an agent that begins says once more that it
    does. None where the last one says that it does not.
    """
    at_ms = None
    for event in takewhile(outages.says_it_works, reversed(events)):
        at_ms = event.at_ms
    return at_ms
