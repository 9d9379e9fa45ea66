"""Writes of telemetry: batches as received, the marks of what is still to do, health events."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import structlog

from agent import wire
from fleetwatch.inventory.models import GPU, Node
from fleetwatch.lib.batched import integers
from fleetwatch.lib.intervals import HOUR_MS, from_ms, to_ms
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute, read_statement
from fleetwatch.telemetry import partitions, retention
from fleetwatch.telemetry.locks import POSTING, try_node_locks
from fleetwatch.telemetry.models import Batch, HealthEvent, ReceivedSequence, TouchedHour

RECORD_SEQUENCE = """
INSERT INTO telemetry_receivedsequence
AS kept (node_id, boot_id, boot_start_ms, clock_offset_ms, received)
VALUES (%(node)s, %(boot)s, %(boot_start)s, %(offset)s,
        int8multirange(int8range(%(sequence)s::bigint, %(sequence)s::bigint + 1)))
ON CONFLICT (node_id, boot_id) DO UPDATE
SET received = kept.received + EXCLUDED.received,
clock_offset_ms = EXCLUDED.clock_offset_ms
WHERE NOT kept.received @> %(sequence)s::bigint
RETURNING id
"""
NOTE_LATE = read_statement("telemetry/sql/note_late.sql")
APPEND = read_statement("telemetry/sql/append_batch.sql")
WAITING = read_statement("telemetry/sql/nodes_to_post.sql")
CLAIM = read_statement("telemetry/sql/claim_touched.sql")
NOTE_POSTED = """
INSERT INTO telemetry_lastposting (node_id, at) SELECT unnest(%s::bigint[]), %s
ON CONFLICT (node_id) DO UPDATE SET at = excluded.at
"""


class Claim(NamedTuple):
    """The ids of the marks that say that an hour is to be posted, and from when on it changed."""

    mark_ids: list[int]
    from_ms: int


# Node id -> hour -> what is claimed of it.
Claims = dict[int, dict[datetime, Claim]]

log = structlog.get_logger()

_ensured: set[str] = set()

# An agent clock within this of ours is left alone; so is one within this of the correction it
# already has.
CLOCK_TOLERANCE_MS = 2_000


@dataclass(frozen=True, slots=True)
class ClockBounds:
    """Our clock minus an agent's, in ms, is between the two: what a batch took on its way here is
    no clock that is off (as of NTP, RFC 5905: an offset is known to the round trip).

    `most_ms` is received minus sent. They are equal where the agent does not say what it knows of
    our clock.
    """

    least_ms: int
    most_ms: int

    @property
    def certain_ms(self) -> int:
        """What lies between them that is nearest to a clock that is right."""
        return min(max(0, self.least_ms), self.most_ms)


def clock_offset(node_id: int, boot_id: str, clock: ClockBounds | None) -> int:
    """Milliseconds to add to every time of a batch (None = the agent's clock was not sent).

    0 while it may be right within 2 s. Beyond, a boot keeps its correction while that may
    be right within 2 s, so that windows of one boot do not jitter against each other.
    """
    if clock is None or abs(clock.most_ms) <= CLOCK_TOLERANCE_MS:
        return 0
    kept = ReceivedSequence.objects.filter(node_id=node_id, boot_id=boot_id)
    kept_ms = kept.values_list("clock_offset_ms", flat=True).first() or 0
    lowest_ms = clock.least_ms - CLOCK_TOLERANCE_MS
    if kept_ms and lowest_ms <= kept_ms <= clock.most_ms + CLOCK_TOLERANCE_MS:
        return kept_ms
    return clock.certain_ms if abs(clock.certain_ms) > CLOCK_TOLERANCE_MS else 0


def record_sequence(node: Node, batch: wire.Batch, *, offset_ms: int) -> bool:
    """True when this (node, boot, sequence) is new; False for a duplicate, for ever.

    Holds the boot's row until the caller's transaction ends, so of two equal
    batches at once the second waits, and is a duplicate only if the first commits.
    """
    values = {
        "node": node.pk,
        "boot": batch.boot_id,
        "boot_start": batch.boot_start_ms,
        "offset": offset_ms,
        "sequence": batch.sequence,
    }
    return bool(execute(RECORD_SEQUENCE, values))


def append_batch(
    node: Node,
    batch: wire.Batch,
    payload: bytes,
    *,
    offset_ms: int,
    received_at: datetime,
    quarantined: bool,
) -> Batch:
    """The stored row. `payload` is the batch as packed; `offset_ms` is what its times are
    corrected by.

    A quarantined batch is kept but marks nothing. Final hours (retention.horizon)
    are not marked either: they are counted as late.
    """
    partitions.ensure_for(received_at)
    hours: list[datetime] = []
    if not quarantined:
        hours = _sealable_hours(batch, offset_ms=offset_ms, received_at=received_at)
        _note_late(node, batch, offset_ms=offset_ms, received_at=received_at)
    columns = {
        "received_at": received_at,
        "node_id": node.pk,
        "boot_id": batch.boot_id,
        "boot_start_ms": batch.boot_start_ms,
        "sequence": batch.sequence,
        "start_ms": None if batch.start_ms is None else batch.start_ms + offset_ms,
        "end_ms": None if batch.end_ms is None else batch.end_ms + offset_ms,
        "offset_ms": offset_ms,
        "quarantined": quarantined,
        "payload": payload,
    }
    ((batch_id,),) = execute(APPEND, {**columns, "hours": hours})
    return Batch(id=batch_id, **columns)


def store_events(node: Node, batch: wire.Batch, gpus: Mapping[int, GPU], *, offset_ms: int) -> int:
    """How many events the batch names; one that is stored already stays as it is."""
    rows = [
        HealthEvent(
            node=node,
            gpu=None if event.get("gpu") is None else gpus[event["gpu"]],
            at_ms=event["at_ms"] + offset_ms,
            kind=event["kind"],
            code=event.get("code"),
            text=event.get("text") or "",
        )
        for event in batch.events
    ]
    HealthEvent.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def touch_hours(
    node_id: int, spans_ms: Iterable[Span], *, received_at: datetime | None = None
) -> int:
    """How many hours were marked for posting: those that the half-open spans of milliseconds touch.

    With `received_at`, hours whose columns retention has deleted are left out.
    """
    since = _touched_since(spans_ms)
    hours = set(since)
    if received_at is not None:
        hours = _not_final(hours, received_at)
    TouchedHour.objects.bulk_create(
        [
            TouchedHour(node_id=node_id, hour=from_ms(hour * HOUR_MS), from_ms=since[hour])
            for hour in sorted(hours)
        ]
    )
    return len(hours)


def _touched_since(spans_ms: Iterable[Span]) -> dict[int, int]:
    """The hours that the spans touch, counted from the epoch -> the first millisecond of each that
    they do.
    """
    since: dict[int, int] = {}
    for start_ms, end_ms in spans_ms:
        if start_ms < end_ms:
            for hour in range(start_ms // HOUR_MS, (end_ms - 1) // HOUR_MS + 1):
                first_ms = max(start_ms, hour * HOUR_MS)
                since[hour] = min(first_ms, since.get(hour, first_ms))
    return since


def claim_touched(
    limit: int, *, nodes: int, this_hour: datetime, posted_before: datetime
) -> Claims:
    """Of at most so many nodes the hours to post; at most `limit` hours, the longest waiting nodes
    first, of the last one the newest hours.

    A node waits when an hour before `this_hour` is marked, or when it was not posted since
    `posted_before`: then all its marks are claimed, those of the hour that goes on too. Call it
    inside the transaction that posts them. A node is claimed by one worker at a time (its lock goes
    with the transaction); marks made meanwhile are not among the ids and so survive.
    """
    waiting = execute(WAITING, {"this_hour": this_hour, "posted_before": posted_before})
    claims: Claims = {}
    for some in _shares(waiting, nodes=nodes, hours=limit):
        mine = try_node_locks(POSTING, some)
        wanted = {"nodes": [node_id for node_id in some if node_id in mine], "limit": limit}
        for node_id, hour, *claim in execute(CLAIM, wanted) if mine else ():
            claims.setdefault(node_id, {})[hour] = Claim(*claim)
        if claims:
            break
    return claims


def _shares(waiting: Iterable[tuple[int, int]], *, nodes: int, hours: int) -> Iterator[list[int]]:
    """The waiting nodes in their order, in portions of as many as have that many hours together,
    and at least one.
    """
    share: list[int] = []
    in_share = 0
    for node_id, count in waiting:
        share.append(node_id)
        in_share += count
        if len(share) == nodes or in_share >= hours:
            yield share
            share = []
            in_share = 0
    if share:
        yield share


def release_touched(claims: Claims, *, posted_at: datetime) -> None:
    """Deletes exactly the claimed marks, in the transaction that posted them, and notes when."""
    marks = [
        mark for hours in claims.values() for claim in hours.values() for mark in claim.mark_ids
    ]
    execute("DELETE FROM telemetry_touchedhour WHERE id = ANY(%s::bigint[])", [integers(marks)])
    execute(NOTE_POSTED, [integers(sorted(claims)), posted_at])


def ensure_partition(received_at: datetime) -> None:
    """That there is a partition for what is received then: asked once per process and partition,
    for one that takes batches now is not dropped before it is long over.
    """
    name = partitions.partition_for(received_at).name
    if name not in _ensured:
        partitions.ensure_for(received_at)
        _ensured.add(name)


def _sealable_hours(batch: wire.Batch, *, offset_ms: int, received_at: datetime) -> list[datetime]:
    """The hours in which windows or host samples of the batch start, but those that are final."""
    starts = [*batch.windows["start_ms"], *batch.host.get("start_ms", [])]
    return _moments(_not_final(_hours_in(starts, offset_ms), received_at))


def _note_late(node: Node, batch: wire.Batch, *, offset_ms: int, received_at: datetime) -> None:
    """Counts the batch for each final hour in which windows of it start: nothing is made of
    these.
    """
    hours = _hours_in(batch.windows["start_ms"], offset_ms)
    late = _moments(hours - _not_final(hours, received_at))
    if late:
        log.warning("windows older than the retention left out", node=batch.node, hours=len(late))
        execute(NOTE_LATE, {"node": node.pk, "hours": late, "received_at": received_at})


def _hours_in(starts_ms: Iterable[int], offset_ms: int) -> set[int]:
    return {(start_ms + offset_ms) // HOUR_MS for start_ms in starts_ms}


def _moments(hours: Iterable[int]) -> list[datetime]:
    return [from_ms(hour * HOUR_MS) for hour in sorted(hours)]


def _not_final(hours: set[int], received_at: datetime) -> set[int]:
    first = to_ms(retention.horizon(received_at)) // HOUR_MS
    return {hour for hour in hours if hour >= first}
