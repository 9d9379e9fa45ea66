"""Reads of telemetry other than whole frames: events, boots, series for charts, the pipeline's
figures.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np
from django.db.models import Count, Max, Sum

from fleetwatch.inventory.models import GPU
from fleetwatch.inventory.selectors import Place, life
from fleetwatch.lib.array_types import Ints, Mask
from fleetwatch.lib.intervals import Interval
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import frames, steps
from fleetwatch.telemetry.heat_cells import winners
from fleetwatch.telemetry.models import (
    HealthEvent,
    LateHour,
    ReceivedSequence,
    SealMark,
)
from fleetwatch.telemetry.seal import GRACE, HOUR

DEPTH = read_statement("telemetry/sql/depth.sql")
KEPT_TIME = read_statement("telemetry/sql/kept_time.sql")
# One row per node that takes no jobs: since when, and why as it was said last. Agents tell it again
# at each start.
DRAINS = """
WITH told AS (
    SELECT node_id, at_ms, kind, text, max(at_ms)
    FILTER (WHERE kind = 'resumed') OVER (PARTITION BY node_id) AS resumed_ms
    FROM telemetry_healthevent
    WHERE gpu_id IS NULL
      AND kind IN ('drained', 'resumed')
      AND (%(node_ids)s::bigint[] IS NULL OR node_id = ANY(%(node_ids)s::bigint[]))
)
SELECT node_id, min(at_ms), (array_agg(text ORDER BY at_ms DESC))[1]
FROM told
WHERE kind = 'drained'
  AND (resumed_ms IS NULL OR at_ms > resumed_ms)
GROUP BY node_id
"""


@dataclass(frozen=True, slots=True)
class Depth:
    """What waits between the door and the ledger, and what is stored (sql/depth.sql)."""

    # of the newest batch in the hot table; None = the table is empty
    last_received_at: datetime | None
    hot_batches: int
    hot_bytes: int  # on disk, indexes included
    partitions: int
    quarantined: int  # batches more than 5 minutes in the future, kept and not used
    unsealed_marks: int
    overdue_hours: int  # (node, hour) that could be sealed and are not yet
    overdue_batches: int  # a batch of two hours counts twice
    touched_hours: int  # (node, hour) to post
    chunks: int
    chunk_bytes: int  # on disk, indexes included
    sealed_windows: int


@dataclass(frozen=True, slots=True)
class Late:
    """What came of a node (or of all) after its hours were final."""

    hours: int
    batches: int  # that brought windows of such an hour, counted for each hour
    last_received_at: datetime | None


@dataclass(frozen=True, slots=True)
class Drain:
    """A node takes no new jobs since then; `reason` as its scheduler says it."""

    since_ms: int
    reason: str


def drains(node_ids: Iterable[int] | None = None) -> dict[int, Drain]:
    """Node id -> its drain, of those of the nodes (of all, where none is named) that are drained
    now.
    """
    return {
        node_id: Drain(since_ms, reason)
        for node_id, since_ms, reason in execute(
            DRAINS, {"node_ids": None if node_ids is None else list(node_ids)}
        )
    }


def late(node_id: int | None = None) -> Late:
    """Of one node, or of all."""
    rows = LateHour.objects.all() if node_id is None else LateHour.objects.filter(node_id=node_id)
    sums = rows.aggregate(hours=Count("pk"), batches=Sum("batches"), last=Max("received_at"))
    return Late(sums["hours"], sums["batches"] or 0, sums["last"])


class TimedEvent(NamedTuple):
    """A health event of a GPU (None: of its node)."""

    gpu_id: int | None
    at_ms: int
    kind: str
    code: int | None


def events_of_nodes(node_ids: Sequence[int], kinds: Sequence[str]) -> dict[int, list[TimedEvent]]:
    """Node id -> its health events of these kinds, oldest first; nodes without any are not in
    it.
    """
    events: dict[int, list[TimedEvent]] = defaultdict(list)
    rows = HealthEvent.objects.filter(node__in=node_ids, kind__in=kinds).order_by("at_ms", "pk")
    for node_id, *event in rows.values_list("node_id", *TimedEvent._fields):
        events[node_id].append(TimedEvent(*event))
    return dict(events)


def xids(
    node_ids: Sequence[int], codes: Sequence[int], start_ms: int, end_ms: int
) -> list[tuple[str, int, int]]:
    """The GPU's UUID, when and which, of these XIDs that were told of a GPU in
    [start_ms, end_ms).
    """
    rows = HealthEvent.objects.filter(
        node__in=node_ids, at_ms__gte=start_ms, at_ms__lt=end_ms, kind="xid", gpu__isnull=False
    )
    every = rows.filter(code__in=codes).values_list("gpu__uuid", "at_ms", "code")
    return [(uuid, at_ms, code) for uuid, at_ms, code in every if code is not None]


def action_results(node_ids: Iterable[int], since_ms: int) -> list[tuple[int, str]]:
    """What agents of these nodes said since then of the orders they were given, the oldest first:
    the node, and a text that begins with the order's key.
    """
    rows = HealthEvent.objects.filter(
        node__in=list(node_ids), kind="action_result", at_ms__gte=since_ms
    )
    return list(rows.order_by("at_ms", "pk").values_list("node_id", "text"))


def kept_ms(node_id: int) -> tuple[int, int] | None:
    """All windows of the node that are kept start in [first, second); None = there are none."""
    ((first_ms, last_ms),) = execute(KEPT_TIME, {"node": node_id})
    return None if first_ms is None else (first_ms, last_ms)


def boots_of_nodes(node_ids: Iterable[int]) -> dict[int, list[int]]:
    """Node id -> when it booted, in milliseconds corrected for its clock, ascending.

    A node that lost its spool has several boot ids for one start; the start is there once.
    """
    boots: dict[int, set[int]] = {node_id: set() for node_id in node_ids}
    rows = ReceivedSequence.objects.filter(node_id__in=boots)
    for node_id, start, offset in rows.values_list("node_id", "boot_start_ms", "clock_offset_ms"):
        boots[node_id].add(start + offset)
    return {node_id: sorted(moments) for node_id, moments in boots.items()}


def series(
    gpu: GPU, start_ms: int, end_ms: int, *, columns: Sequence[str], step_s: int
) -> steps.StepSeries:
    """The GPU's columns in steps of `step_s` seconds, aligned to the epoch; None where nothing was
    observed.

    Means are weighted by observed time and never reach over a gap; maxima stay maxima, energy and
    counts are sums.
    """
    wanted = list(dict.fromkeys([*columns, *steps.SIGNALS]))
    frame = _windows_of_life(gpu, start_ms, end_ms, wanted)
    table = winners(frame.table | {"window_ms": frame.end_ms - frame.start_ms})
    return steps.stepped(
        table, start_ms=start_ms, end_ms=end_ms, columns=columns, step_ms=step_s * 1000
    )


def _windows_of_life(gpu: GPU, start_ms: int, end_ms: int, columns: Sequence[str]) -> frames.Frame:
    """The GPU's windows from all nodes that it was with, each node's from its believed stays, as
    windows of this row.
    """
    rows = list(GPU.objects.filter(uuid=gpu.uuid).order_by("pk"))
    if len(rows) < 2:
        return frames.read_gpu(gpu.pk, gpu.node_id, start_ms, end_ms, columns)
    stays = [place for place in life(gpu.uuid) if place.is_believed]
    parts = []
    for row in rows:
        frame = frames.read_gpu(row.pk, row.node_id, start_ms, end_ms, columns)
        here = [stay for stay in stays if stay.gpu_id == row.pk]
        parts.append(frame.where(_are_within(frame.start_ms, here)))
    together = frames.together(parts)
    return replace(together, gpu_id=np.full(len(together), gpu.pk, dtype=np.int64))


def _are_within(moments_ms: Ints, stays: Iterable[Place]) -> Mask:
    are_within = np.zeros(len(moments_ms), dtype=bool)
    for stay in stays:
        are_within |= (moments_ms >= stay.first_ms) & (moments_ms < stay.last_ms)
    return are_within


def depth(now: datetime) -> Depth:
    """What waits and what is stored, for /status and /metrics."""
    (counts,) = execute(DEPTH, {"closed": _overdue_before(now)})
    return Depth(*counts)


def have_waited_to_be_sealed(batches: int, age: timedelta, now: datetime) -> bool:
    """Whether so many batches could have been sealed so long ago: their hours were over, and they
    had arrived. A batch of two hours counts twice; looks no further than it must.
    """
    waiting = SealMark.objects.filter(
        hour__lte=now - age - HOUR - GRACE, batch_received_at__lte=now - age
    )
    return waiting.values("hour")[:batches].count() == batches


def undrawn_hours(interval: Interval, now: datetime, *, node_id: int | None = None) -> int:
    """(Node, hour) of the interval, or of one node in it, whose cells can't be seen in a map or
    curves yet: closed, and not sealed by a run that is over.
    """
    of_node = {} if node_id is None else {"node_id": node_id}
    touching = SealMark.objects.filter(
        hour__gt=interval.start - HOUR,
        hour__lt=interval.end,
        hour__lte=_overdue_before(now),
        **of_node,
    )
    return touching.values("node_id", "hour").distinct().count()


def _overdue_before(now: datetime) -> datetime:
    """Hours that start then or earlier could have been sealed by a run that is over."""
    return now - HOUR - GRACE - timedelta(minutes=2)
