"""Until when GPUs were in a condition of the ledger, to the minute: findings last whole hours."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from django.db.models import Max, Q

from fleetwatch.diagnosis.causes import CONDITIONS, FAILURES
from fleetwatch.diagnosis.findings.back_again import EVERY
from fleetwatch.diagnosis.models import Finding
from fleetwatch.ledger.models import Run
from fleetwatch.lib.intervals import HOUR_MS


def state_ends(findings: Iterable[tuple[Finding, int]], which: Q = EVERY) -> dict[int, int]:
    """By id of those of nodes, each with the end of its last hour, when the last of its GPUs
    `which` left its state in that hour. Without those whose runs are no longer kept, and failed
    GPUs, of which the driver says when they work again.
    """
    keys = {
        (each.node_id, CONDITIONS[each.cause]): (each.pk, last_ms)
        for each, last_ms in findings
        if each.cause in CONDITIONS and each.cause not in FAILURES
    }
    if not keys:
        return {}
    in_last_hours = reduce(
        or_,
        (
            Q(node=node_id, condition=condition)
            & Q(cut_ms__gte=last_ms - HOUR_MS, cut_ms__lt=last_ms)
            for (node_id, condition), (_, last_ms) in keys.items()
        ),
    )
    rows = Run.objects.filter(in_last_hours & which).values_list("node", "condition")
    ends = rows.annotate(Max("end_ms")).order_by()
    return {keys[node_id, condition][0]: end_ms for node_id, condition, end_ms in ends}
