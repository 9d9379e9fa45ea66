"""What is known to be wrong with each GPU of a node."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from django.db.models import Count, Max, Q

from fleetwatch.alerts.conditions import gpu_slowed
from fleetwatch.alerts.incidents import machine_incidents
from fleetwatch.alerts.measuring.gpu_words import fault_in_words
from fleetwatch.diagnosis.findings.back_again import EVERY, back_ms, events_of_work, has_failed
from fleetwatch.diagnosis.slowed_cells import goes_on, otherwise_until, slowed_parts
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.broken_gpus import BrokenGPU, broken_gpus
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.lib.spans import Span, union
from fleetwatch.telemetry.models import HealthEvent

# since when a GPU is slowed, or until when it was
Slowed = tuple[int | None, int | None]
RECOVERED = Q(kind__in=("gpu_ok", "driver_ok", "resumed")) | Q(kind="recovery_action", code=0)
LOOKS_BACK_MS = 30 * 24 * HOUR_MS  # for when a GPU failed that works again


@dataclass(frozen=True, slots=True)
class GPUHealth:
    """`wrong` says why no job can use the GPU, since when; "" while jobs can. `faults` are what its
    driver reported in the period, the last at `last_ms`; `works_ms`: since when it works again, if
    that was said last in the period. `slowed_ms`: since when heat or power
    slows it, by diagnosis or an incident that fires; where it did in the period and does no more,
    until when (`slowed_until_ms`).
    """

    wrong: str
    since_ms: int | None
    faults: int
    last_ms: int | None
    slowed_ms: int | None = None
    slowed_until_ms: int | None = None
    works_ms: int | None = None


def health_of(node: Node, interval: Interval) -> Mapping[int, GPUHealth]:
    """By GPU; of one that is not in it nothing was reported."""
    broken = {each.gpu.pk: each for each in broken_gpus(node)}
    reported = _reported(node, interval)
    slowed = _slowed(node, interval)
    works = _works_again(node, interval)
    return {
        gpu_id: _health(
            broken.get(gpu_id),
            reported.get(gpu_id, (0, None)),
            slowed.get(gpu_id, (None, None)),
            works.get(gpu_id),
        )
        for gpu_id in broken.keys() | reported.keys() | slowed.keys() | works.keys()
    }


def _slowed(node: Node, interval: Interval) -> dict[int, Slowed]:
    """What fires while no job is there to be slowed goes on. Of an instance it is its GPU."""
    rows = list(GPU.objects.filter(node=node).values_list("uuid", "pk", "parent_id"))
    gpus = {uuid: parent_id or pk for uuid, pk, parent_id in rows}
    whole = {pk: parent_id or pk for _, pk, parent_id in rows}
    slowed = _diagnosed(whole, interval, node.last_ms or 0)
    fires = machine_incidents.firing_since(gpu_slowed.CONDITION.name, gpus)
    for uuid, since_ms in fires.items():
        start_ms, _ = slowed.get(gpus[uuid], (None, None))
        slowed[gpus[uuid]] = (min(since_ms, start_ms or since_ms), None)
    return slowed


def _spans(
    whole: Mapping[int, int], interval: Interval, newest_ms: int
) -> dict[int, Sequence[Span]]:
    """By GPU when it or an instance (`whole` says of which each is) was slowed without a break, as
    long as that went on: what touches the period may have begun before it, and end after it.
    """
    start_ms = interval.start_ms - gpu_slowed.LOOKS_BACK_MS
    parts = slowed_parts(whole, start_ms, max(interval.end_ms, newest_ms))
    spans: dict[int, list[Span]] = defaultdict(list)
    for gpu_id, own in parts.items():
        spans[whole[gpu_id]] += [part[:2] for part in own]
    return {
        gpu_id: [
            span for span in union(own) if span[0] < interval.end_ms and span[1] > interval.start_ms
        ]
        for gpu_id, own in spans.items()
    }


def _diagnosed(whole: Mapping[int, int], interval: Interval, newest_ms: int) -> dict[int, Slowed]:
    """By the last time without a break."""
    last = {gpu_id: own[-1] for gpu_id, own in _spans(whole, interval, newest_ms).items() if own}
    still = _still(last, whole, newest_ms)
    return {
        gpu_id: (start_ms, None) if gpu_id in still else (None, end_ms)
        for gpu_id, (start_ms, end_ms) in last.items()
    }


def _still(last: Mapping[int, Span], whole: Mapping[int, int], newest_ms: int) -> Set[int]:
    """The GPUs whose last time without a break goes on."""
    lately = {gpu_id for gpu_id, span in last.items() if goes_on(span[1], None, newest_ms)}
    ends = otherwise_until({pk: newest_ms for pk, gpu_id in whole.items() if gpu_id in lately})
    otherwise_ms: dict[int, int] = {}
    for pk, end_ms in ends.items():
        otherwise_ms[whole[pk]] = max(end_ms, otherwise_ms.get(whole[pk], 0))
    return {pk for pk in lately if goes_on(last[pk][1], otherwise_ms.get(pk), newest_ms)}


def _reported(node: Node, interval: Interval) -> dict[int, tuple[int, int]]:
    """By GPU how many faults were reported in the interval, and when the last was."""
    faults = HealthEvent.objects.filter(
        node=node, gpu__isnull=False, at_ms__gte=interval.start_ms, at_ms__lt=interval.end_ms
    ).exclude(RECOVERED)
    rows = faults.values_list("gpu_id").annotate(Count("pk"), Max("at_ms"))
    return {gpu_id: (count, last_ms) for gpu_id, count, last_ms in rows}


def _works_again(node: Node, interval: Interval) -> dict[int, int]:
    """By GPU since when, of those that failed and were said to work again in the interval."""
    start_ms = interval.start_ms - LOOKS_BACK_MS
    until_then = Q(node=node, at_ms__gte=start_ms, at_ms__lt=interval.end_ms)
    failed = filter(lambda of: has_failed(of[1]), events_of_work(until_then, EVERY).items())
    works = ((gpu_id, back_ms(events)) for gpu_id, events in failed)
    return {gpu_id: at_ms for gpu_id, at_ms in works if at_ms and at_ms >= interval.start_ms}


def _health(
    broken: BrokenGPU | None,
    reported: tuple[int, int | None],
    slowed: Slowed,
    works_ms: int | None,
) -> GPUHealth:
    if broken is None:
        return GPUHealth("", None, *reported, *slowed, works_ms)
    return GPUHealth(fault_in_words(broken.reason), broken.since_ms, *reported, *slowed)
