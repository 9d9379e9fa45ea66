"""How the batches of a node came in: those that are kept as they were received."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low

from agent import wire
from fleetwatch.lib.intervals import to_ms
from fleetwatch.telemetry.models import Batch, ReceivedSequence

BACK = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Of the newest boot's batches of a day: how many are kept since when, how long after the end
    of its newest window one came (usually, at most), and the longest time without any.
    """

    count: int
    first_at: datetime
    usual_ms: int
    worst_ms: int
    worst_at: datetime
    pause_ms: int
    pause_at: datetime  # when it began


@dataclass(frozen=True, slots=True)
class Boot:
    """A start of the machine, by how far its clock was off (0: not at all)."""

    start_ms: int
    clock_offset_ms: int


def arrivals(node_id: int, boot_start_ms: int, now: datetime) -> Arrivals | None:
    """None where fewer than two are kept: sealed ones are not."""
    rows = Batch.objects.filter(
        node_id=node_id,
        boot_start_ms=boot_start_ms,
        received_at__gte=now - BACK,
    )
    received = rows.order_by("received_at").values_list("received_at", "end_ms")
    return of_received([(at, end_ms) for at, end_ms in received if end_ms is not None])


def first_received_at(node_id: int, at_ms: int) -> datetime | None:
    """When the node's windows of that moment came first; None where sealing left none of them."""
    rows = Batch.objects.filter(
        node_id=node_id,
        # by the index telemetry_batch_by_node
        start_ms__gt=at_ms - wire.MAX_SPAN_MS,
        start_ms__lte=at_ms,
        end_ms__gt=at_ms,
    )
    return rows.order_by("received_at").values_list("received_at", flat=True).first()


def of_received(received: Sequence[tuple[datetime, int]]) -> Arrivals | None:
    """The same of moments of arrival, ascending, with the ends of what came. Pure."""
    if len(received) < 2:
        return None
    lags = [(max(0, to_ms(at) - end_ms), at) for at, end_ms in received]
    moments = [at for at, _ in received]
    pauses = [(to_ms(later) - to_ms(at), at) for at, later in pairwise(moments)]
    worst_ms, worst_at = max(lags)
    pause_ms, pause_at = max(pauses)
    return Arrivals(
        count=len(received),
        first_at=moments[0],
        usual_ms=median_low(lag_ms for lag_ms, _ in lags),
        worst_ms=worst_ms,
        worst_at=worst_at,
        pause_ms=pause_ms,
        pause_at=pause_at,
    )


def boots(node_id: int, since_ms: int) -> list[Boot]:
    """Those since then, the newest first."""
    rows = ReceivedSequence.objects.filter(node=node_id, boot_start_ms__gte=since_ms)
    several = {Boot(*row) for row in rows.values_list("boot_start_ms", "clock_offset_ms")}
    return sorted(several, key=lambda boot: -boot.start_ms)
