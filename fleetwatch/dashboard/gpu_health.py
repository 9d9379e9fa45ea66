"""What is known to be wrong with each GPU of a node."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count, Max

from fleetwatch.alerts.conditions import gpu_slowed
from fleetwatch.alerts.incidents import machine_incidents
from fleetwatch.alerts.measuring.gpu_words import fault_in_words
from fleetwatch.diagnosis.slowed_cells import STILL_MS, slowed_parts
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.ledger.broken_gpus import BrokenGPU, broken_gpus
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.spans import Span, union
from fleetwatch.telemetry.models import HealthEvent

# since when a GPU is slowed, or until when it was
Slowed = tuple[int | None, int | None]
RECOVERED = ("gpu_ok", "driver_ok", "resumed")


@dataclass(frozen=True, slots=True)
class GPUHealth:
    """`wrong` says why no job can use the GPU, since when; "" while jobs can. `faults` are what its
    driver reported in the period, the last at `last_ms`. `slowed_ms`: since when heat or power
    slows it, by diagnosis or an incident that fires; where it did in the period and does no more,
    until when (`slowed_until_ms`).
    """

    wrong: str
    since_ms: int | None
    faults: int
    last_ms: int | None
    slowed_ms: int | None = None
    slowed_until_ms: int | None = None


def health_of(node: Node, interval: Interval) -> Mapping[int, GPUHealth]:
    """By GPU; of one that is not in it nothing was reported."""
    broken = {each.gpu.pk: each for each in broken_gpus(node)}
    reported = _reported(node, interval)
    slowed = _slowed(node, interval)
    return {
        gpu_id: _health(
            broken.get(gpu_id), reported.get(gpu_id, (0, None)), slowed.get(gpu_id, (None, None))
        )
        for gpu_id in broken.keys() | reported.keys() | slowed.keys()
    }


def _slowed(node: Node, interval: Interval) -> dict[int, Slowed]:
    """What fires while no job is there to be slowed goes on. Of an instance it is its GPU."""
    rows = list(GPU.objects.filter(node=node).values_list("uuid", "pk", "parent_id"))
    gpus = {uuid: parent_id or pk for uuid, pk, parent_id in rows}
    whole = {pk: parent_id or pk for _, pk, parent_id in rows}
    spans = _spans(whole, interval, node.last_ms or 0)
    slowed = {gpu_id: _last(own, node) for gpu_id, own in spans.items() if own}
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


def _last(spans: Sequence[Span], node: Node) -> Slowed:
    """By the last time without a break."""
    start_ms, end_ms = spans[-1]
    goes_on = end_ms >= (node.last_ms or 0) - STILL_MS
    return (start_ms, None) if goes_on else (None, end_ms)


def _reported(node: Node, interval: Interval) -> dict[int, tuple[int, int]]:
    """By GPU how many faults were reported in the interval, and when the last was."""
    faults = HealthEvent.objects.filter(
        node=node, gpu__isnull=False, at_ms__gte=interval.start_ms, at_ms__lt=interval.end_ms
    ).exclude(kind__in=RECOVERED)
    rows = faults.values_list("gpu_id").annotate(Count("pk"), Max("at_ms"))
    return {gpu_id: (count, last_ms) for gpu_id, count, last_ms in rows}


def _health(
    broken: BrokenGPU | None,
    reported: tuple[int, int | None],
    slowed: Slowed,
) -> GPUHealth:
    if broken is None:
        return GPUHealth("", None, *reported, *slowed)
    return GPUHealth(fault_in_words(broken.reason), broken.since_ms, *reported, *slowed)
