"""What is known to be wrong with each GPU of a node."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Max

from fleetwatch.alerts.measuring.gpu_words import fault_in_words
from fleetwatch.inventory.models import Node
from fleetwatch.ledger.broken_gpus import BrokenGPU, broken_gpus
from fleetwatch.lib.intervals import Interval
from fleetwatch.telemetry.models import HealthEvent

RECOVERED = ("gpu_ok", "driver_ok", "resumed")


@dataclass(frozen=True, slots=True)
class GPUHealth:
    """`wrong` says why no job can use the GPU, since when; "" while jobs can. `faults` are what its
    driver reported in the period, the last at `last_ms`.
    """

    wrong: str
    since_ms: int | None
    faults: int
    last_ms: int | None


def health_of(node: Node, interval: Interval) -> Mapping[int, GPUHealth]:
    """By GPU; of one that is not in it nothing was reported."""
    broken = {each.gpu.pk: each for each in broken_gpus(node)}
    reported = _reported(node, interval)
    return {
        gpu_id: _health(broken.get(gpu_id), *reported.get(gpu_id, (0, None)))
        for gpu_id in broken.keys() | reported.keys()
    }


def _reported(node: Node, interval: Interval) -> dict[int, tuple[int, int]]:
    """By GPU how many faults were reported in the interval, and when the last was."""
    faults = HealthEvent.objects.filter(
        node=node, gpu__isnull=False, at_ms__gte=interval.start_ms, at_ms__lt=interval.end_ms
    ).exclude(kind__in=RECOVERED)
    rows = faults.values_list("gpu_id").annotate(Count("pk"), Max("at_ms"))
    return {gpu_id: (count, last_ms) for gpu_id, count, last_ms in rows}


def _health(broken: BrokenGPU | None, faults: int, last_ms: int | None) -> GPUHealth:
    if broken is None:
        return GPUHealth("", None, faults, last_ms)
    return GPUHealth(fault_in_words(broken.reason), broken.since_ms, faults, last_ms)
