"""Of nodes with a broken GPU: what their GPUs cost, and when they were drained."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from fleetwatch.alerts.measuring.gpu_costs import Cost, cost_of
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement_inputs import posted_outages
from fleetwatch.ledger.models import Posted
from fleetwatch.lib.intervals import MINUTE_MS
from fleetwatch.lib.spans import Span


class NodeCosts:
    """What the GPUs of some nodes (ids) cost, those that are there now; no MIG instance is one."""

    def __init__(self, node_ids: Collection[int]) -> None:
        rows = GPU.objects.filter(
            node__in=node_ids, parent=None, retired_ms=None, first_ms__isnull=False
        )
        self._gpus: dict[int, list[int]] = defaultdict(list)
        for gpu_id, node_id in rows.values_list("pk", "node_id"):
            self._gpus[node_id].append(gpu_id)
        self._rates = RatesInForce(gpu for gpus in self._gpus.values() for gpu in gpus)

    def count(self, node_id: int) -> int:
        """How many there are."""
        return len(self._gpus[node_id])

    def at(self, node_id: int, moment_ms: int) -> Cost:
        """Of all of them at that moment; dollars an hour None where one has no rate."""
        return cost_of(self._gpus[node_id], self._rates, moment_ms - MINUTE_MS, moment_ms)


def drained_spans(gpu_ids: Iterable[int]) -> Mapping[int, Sequence[Span]]:
    """By GPU when its node was drained, by the outages that the ledger judged by."""
    rows = Posted.objects.filter(gpu__in=list(gpu_ids)).exclude(outages=[])
    return {
        row.gpu_id: [
            (outage.start_ms, outage.end_ms) for outage in posted_outages(row) if outage.is_drain
        ]
        for row in rows
    }
